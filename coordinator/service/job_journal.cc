#include "coordinator/service/job_journal.h"

#include <array>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/wire/codec.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;
using Json = nlohmann::json;

namespace {

// Sequence numbers: the request, the graph, then the results.
constexpr uint64_t kRequest = 0;
constexpr uint64_t kGraph = 1;
constexpr uint64_t kFirstResult = 2;
constexpr int kVersion = 1;

std::string journal_name(farm::JobId job) { return cat("job-", job); }

std::string encode_request(const JobRequest& request) {
  return Json{{"version", kVersion},
              {"job", request.id},
              {"graph_hash", request.key.graph_hash.hex()},
              {"target", request.key.target.name},
              {"policy", request.key.policy},
              {"epoch", request.key.epoch},
              {"graph", request.graph.hex()},
              {"tenant", request.tenant},
              {"budget_candidates", request.budget_candidates},
              {"budget_ms", request.budget_ms},
              {"seed", request.seed},
              {"max_wait_ms", request.max_wait_ms}}
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

Digest digest_field(const Json& record, const char* field) {
  auto digest = Digest::parse(record.at(field).get<std::string>());
  return digest.value_or(Digest{});
}

Result<JobRequest> decode_request(const std::string& text) {
  try {
    Json record = Json::parse(text);
    if (record.at("version") != kVersion) {
      return common::unsupported("its journal was written by another version");
    }
    JobRequest request;
    request.id = record.at("job");
    request.key.graph_hash = digest_field(record, "graph_hash");
    request.key.target.name = record.at("target");
    request.key.policy = record.at("policy");
    request.key.epoch = record.at("epoch");
    request.graph = digest_field(record, "graph");
    request.tenant = record.at("tenant");
    request.budget_candidates = record.at("budget_candidates");
    request.budget_ms = record.at("budget_ms");
    request.seed = record.at("seed");
    request.max_wait_ms = record.at("max_wait_ms");
    return request;
  } catch (const Json::exception& exception) {
    return common::corrupt(cat("its journal is damaged: ", exception.what()));
  }
}

// A result: kind, fingerprint, the worker's name to the end of the line; then a TaskResult message.
std::string encode_result(const ResultKey& key, const CandidateResult& result) {
  common::TaskResult message;
  message.outcome = result.outcome;
  message.message = result.message;
  if (result.outcome == common::TaskOutcome::kOk) {
    message.report = common::encode_task_report(result.report);
  }
  std::string record = cat(static_cast<int>(key.first), ' ', key.second.hex(), ' ', result.worker);
  record += '\n';
  record += common::as_text(common::encode(message));
  return record;
}

Result<std::pair<ResultKey, CandidateResult>> decode_result(const std::string& record) {
  constexpr size_t kWorkerAt = 2 + 64 + 1;  // behind one digit and a digest
  size_t line = record.find('\n');
  if (line == std::string::npos || line < kWorkerAt || record[0] < '0' ||
      record[0] > '0' + static_cast<int>(common::TaskKind::kFinalist)) {
    return common::corrupt("a result's head is damaged");
  }
  auto fingerprint = Digest::parse(std::string_view(record).substr(2, 64));
  if (!fingerprint) return common::corrupt("a result's fingerprint is damaged");
  LFARM_ASSIGN_OR_RETURN(common::Message message,
                         common::decode(common::as_bytes(record).subspan(line + 1)));
  auto* body = std::get_if<common::TaskResult>(&message);
  if (body == nullptr) return common::corrupt("a result holds another message");
  CandidateResult result;
  result.outcome = body->outcome;
  result.message = body->message;
  result.worker = record.substr(kWorkerAt, line - kWorkerAt);
  if (result.outcome == common::TaskOutcome::kOk) {
    LFARM_ASSIGN_OR_RETURN(result.report, common::decode_task_report(body->report));
  }
  return std::make_pair(ResultKey{static_cast<common::TaskKind>(record[0] - '0'), *fingerprint},
                        std::move(result));
}

}  // namespace

Status journal_job(cache::Store& store, const JobRequest& request, common::ByteView graph) {
  std::array<cache::JobRecord, 2> records{
      cache::JobRecord{kRequest, encode_request(request)},
      cache::JobRecord{kGraph, std::string(common::as_text(graph))}};
  return store.append_job(journal_name(request.id), records, true);
}

Status journal_result(cache::Store& store, farm::JobId job, uint64_t n, const ResultKey& key,
                      const CandidateResult& result) {
  std::array<cache::JobRecord, 1> records{
      cache::JobRecord{kFirstResult + n, encode_result(key, result)}};
  return store.append_job(journal_name(job), records, false);
}

Result<JournalledJob> read_journal(cache::Store& store, const std::string& name) {
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::JobRecord> records, store.read_job(name));
  if (records.size() < kFirstResult || records[0].sequence != kRequest ||
      records[1].sequence != kGraph) {
    return common::corrupt("its journal lacks the request or the graph");
  }
  JournalledJob job;
  LFARM_ASSIGN_OR_RETURN(job.request, decode_request(records[0].bytes));
  if (journal_name(job.request.id) != name) return common::corrupt("its journal has another name");
  job.graph = common::to_bytes(common::as_bytes(records[1].bytes));
  for (size_t i = kFirstResult; i < records.size(); ++i) {
    auto result = decode_result(records[i].bytes);
    if (result.ok()) job.results.insert(std::move(*result));
  }
  job.next_result = records.back().sequence + 1 - kFirstResult;
  return job;
}

Status remove_journal(cache::Store& store, farm::JobId job) {
  return store.remove_job(journal_name(job));
}

}  // namespace coordinator::service
