#include "coordinator/service/journal/job_journal.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cache/store/records.h"
#include "common/base/cat.h"
#include "common/wire/codec.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/plans/priors.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;
using Json = nlohmann::json;

namespace {

// Sequence numbers: the request, the graph, then what happened, as it happened.
constexpr uint64_t kRequest = 0;
constexpr uint64_t kGraph = 1;
constexpr uint64_t kFirstRecord = 2;
constexpr int kVersion = 2;
// What a record begins with; a result's begins with its task's kind, a digit.
constexpr char kStartTag = 'S';
constexpr char kClassStartTag = 'T';  // the same behind the machine class
constexpr char kIncumbentTag = 'I';
constexpr char kAnswersTag = 'A';
constexpr char kFinishTag = 'F';
constexpr char kTuningRecordsTag = 'K';

constexpr std::string_view kOpenPrefix = "job-";
// The end lies apart, so that a restart skips closed journals without reading them.
constexpr std::string_view kEndPrefix = "end-";
constexpr uint64_t kEnd = 0;
constexpr uint64_t kRerun = 1;

std::string end_name(farm::JobId job) { return cat(kEndPrefix, job); }

void append(cache::Changes& changes, farm::JobId job, uint64_t sequence, std::string bytes) {
  changes.records.push_back({journal_name(job), {sequence, std::move(bytes)}});
}

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
              {"max_wait_ms", request.max_wait_ms},
              {"in_flight", request.in_flight},
              {"priority", request.priority},
              {"submitter", request.submitter},
              {"name", request.name},
              {"machine", request.machine},
              {"searches_on_from", request.searches_on_from.hex()}}
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

// A record's fields; nothing that is counted has a fraction. Throws Json::exception.
Result<Json> fields_of(const std::string& text) {
  Json record = Json::parse(text);
  for (const auto& [name, value] : record.items()) {
    if (value.is_number_float()) return common::corrupt(cat(name, " is no integer"));
  }
  return record;
}

Digest digest_field(const Json& record, const char* field) {
  auto digest = Digest::parse(record.at(field).get<std::string>());
  return digest.value_or(Digest{});
}

Result<JobRequest> decode_request(const std::string& text) {
  try {
    LFARM_ASSIGN_OR_RETURN(Json record, fields_of(text));
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
    request.in_flight = record.at("in_flight");
    // Journals of earlier coordinators have none.
    request.priority = record.value("priority", common::kPriorityDefault);
    request.submitter = record.value("submitter", "");
    request.name = record.value("name", "");
    request.machine = record.value("machine", "");
    request.searches_on_from =
        Digest::parse(record.value("searches_on_from", "")).value_or(Digest{});
    return request;
  } catch (const Json::exception& exception) {
    return common::corrupt(cat("its journal is damaged: ", exception.what()));
  }
}

Result<JobStart> decode_start(std::string_view bytes, bool has_machine) {
  cache::FieldReader reader(bytes);
  JobStart start;
  if (has_machine) start.machine = std::string(reader.take(reader.u32()));
  start.wall_ns = static_cast<int64_t>(reader.u64());
  start.in_flight = static_cast<int64_t>(reader.u64());
  uint64_t effects = reader.u64();
  if (!reader.ok()) return common::corrupt("a search's start is damaged");
  start.priors = decode_effects(reader.rest());
  if (start.priors.size() != effects) return common::corrupt("a search's priors are damaged");
  return start;
}

// Follows the start.
Status decode_incumbent(std::string_view bytes, JobStart& start) {
  cache::FieldReader reader(bytes);
  start.incumbent_plan = reader.digest();
  if (!reader.ok()) return common::corrupt("a search's incumbent is damaged");
  start.incumbent = common::to_bytes(common::as_bytes(reader.rest()));
  return {};
}

Status decode_answers(std::string_view bytes, KernelAnswers& answers) {
  cache::FieldReader reader(bytes);
  while (reader.ok() && !reader.done()) {
    common::Digest kernel = reader.digest();
    auto ns = static_cast<int64_t>(reader.u64());
    if (reader.ok()) answers[kernel] = ns;
  }
  return reader.ok() ? Status() : common::corrupt("known kernels are damaged");
}

Status decode_tuning_records(std::string_view bytes, TuningRecordAnswers& tuning_records) {
  cache::FieldReader reader(bytes);
  while (reader.ok() && !reader.done()) {
    auto kept = decode_tuning_record(reader.take(reader.u64()));
    if (!kept) return common::corrupt("known tuning records are damaged");
    tuning_records[kept->key] = std::move(kept->record);
  }
  return reader.ok() ? Status() : common::corrupt("known tuning records are damaged");
}

// One of the records after the graph.
Status take(const std::string& record, JournalledJob& job) {
  if (record.empty()) return common::corrupt("a record is empty");
  std::string_view rest = std::string_view(record).substr(1);
  if (record[0] == kStartTag || record[0] == kClassStartTag) {
    LFARM_ASSIGN_OR_RETURN(job.start, decode_start(rest, record[0] == kClassStartTag));
    return {};
  }
  if (record[0] == kIncumbentTag) {
    if (!job.start) return common::corrupt("a search has an incumbent and no start");
    return decode_incumbent(rest, *job.start);
  }
  if (record[0] == kAnswersTag) return decode_answers(rest, job.answers);
  if (record[0] == kTuningRecordsTag) return decode_tuning_records(rest, job.tuning_records);
  if (record[0] == kFinishTag) {
    cache::FieldReader reader(rest);
    job.finish_after = static_cast<int64_t>(reader.u64());
    return reader.done() ? Status() : common::corrupt("a search's end is damaged");
  }
  LFARM_ASSIGN_OR_RETURN(auto result, parse_result_record(record));
  job.results.insert_or_assign(result.first, std::move(result.second));
  return {};
}

std::optional<farm::JobId> number_behind(std::string_view prefix, const std::string& name) {
  if (name.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  farm::JobId id = 0;
  const char* end = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, id);
  return error == std::errc() && stop == end ? std::optional(id) : std::nullopt;
}

Result<JournalledJob> parse_records(std::span<const cache::JobRecord> records) {
  if (records.size() < kFirstRecord || records[0].sequence != kRequest ||
      records[1].sequence != kGraph) {
    return common::corrupt("its journal lacks the request or the graph");
  }
  JournalledJob job;
  LFARM_ASSIGN_OR_RETURN(job.request, decode_request(records[0].bytes));
  job.graph = common::to_bytes(common::as_bytes(records[1].bytes));
  for (size_t i = kFirstRecord; i < records.size(); ++i) {
    if (!take(records[i].bytes, job).ok()) ++job.damaged;
  }
  job.next_record = records.back().sequence + 1 - kFirstRecord;
  return job;
}

}  // namespace

// A result: kind, fingerprint, the worker's name to the end of the line; then a TaskResult message.
std::string result_record(const ResultKey& key, const CandidateResult& result) {
  common::TaskResult message;
  message.outcome = result.outcome;
  message.message = result.message;
  message.busy_ms = result.busy_ms;
  if (result.outcome == common::TaskOutcome::kOk) {
    message.report = common::encode_task_report(result.report);
  }
  std::string record = cat(static_cast<int>(key.first), ' ', key.second.hex(), ' ', result.worker);
  record += '\n';
  record += common::as_text(common::encode(message));
  return record;
}

Result<std::pair<ResultKey, CandidateResult>> parse_result_record(const std::string& record) {
  constexpr size_t kWorkerAt = 2 + 64 + 1;  // behind one digit and a digest
  size_t line = record.find('\n');
  if (line == std::string::npos || line < kWorkerAt || record[0] < '0' ||
      record[0] > '0' + static_cast<int>(common::TaskKind::kComparison)) {
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
  result.busy_ms = body->busy_ms;
  result.worker = record.substr(kWorkerAt, line - kWorkerAt);
  if (result.outcome == common::TaskOutcome::kOk) {
    LFARM_ASSIGN_OR_RETURN(result.report, common::decode_task_report(body->report));
  }
  return std::make_pair(ResultKey{static_cast<common::TaskKind>(record[0] - '0'), *fingerprint},
                        std::move(result));
}

std::string journal_name(farm::JobId job) { return cat(kOpenPrefix, job); }

void journal_job(cache::Changes& changes, const JobRequest& request, common::ByteView graph) {
  append(changes, request.id, kRequest, encode_request(request));
  append(changes, request.id, kGraph, std::string(common::as_text(graph)));
}

void journal_start(cache::Changes& changes, farm::JobId job, uint64_t n, const JobStart& start) {
  std::string bytes(1, start.machine.empty() ? kStartTag : kClassStartTag);
  if (!start.machine.empty()) {
    cache::append_u32(bytes, static_cast<uint32_t>(start.machine.size()));
    bytes += start.machine;
  }
  cache::append_u64(bytes, static_cast<uint64_t>(start.wall_ns));
  cache::append_u64(bytes, static_cast<uint64_t>(start.in_flight));
  cache::append_u64(bytes, start.priors.size());
  bytes += encode_effects(start.priors);
  append(changes, job, kFirstRecord + n, std::move(bytes));
  if (start.incumbent.empty()) return;
  std::string incumbent(1, kIncumbentTag);
  cache::append_digest(incumbent, start.incumbent_plan);
  incumbent += common::as_text(start.incumbent);
  append(changes, job, kFirstRecord + n + 1, std::move(incumbent));
}

void journal_result(cache::Changes& changes, farm::JobId job, uint64_t n, const ResultKey& key,
                    const CandidateResult& result) {
  append(changes, job, kFirstRecord + n, result_record(key, result));
}

void journal_answers(cache::Changes& changes, farm::JobId job, uint64_t n,
                     std::span<const std::pair<Digest, int64_t>> answers) {
  std::string bytes(1, kAnswersTag);
  for (const auto& [kernel, ns] : answers) {
    cache::append_digest(bytes, kernel);
    cache::append_u64(bytes, static_cast<uint64_t>(ns));
  }
  append(changes, job, kFirstRecord + n, std::move(bytes));
}

void journal_tuning_records(cache::Changes& changes, farm::JobId job, uint64_t n,
                            std::span<const std::pair<Digest, TuningRecord>> tuning_records) {
  std::string bytes(1, kTuningRecordsTag);
  for (const auto& [key, record] : tuning_records) {
    std::string encoded = encode_tuning_record({key, 0, record});
    cache::append_u64(bytes, encoded.size());
    bytes += encoded;
  }
  append(changes, job, kFirstRecord + n, std::move(bytes));
}

void journal_finish(cache::Changes& changes, farm::JobId job, uint64_t n, int64_t candidates) {
  std::string bytes(1, kFinishTag);
  cache::append_u64(bytes, static_cast<uint64_t>(candidates));
  append(changes, job, kFirstRecord + n, std::move(bytes));
}

void journal_removal(cache::Changes& changes, farm::JobId job) {
  changes.removed_jobs.push_back(end_name(job));
  changes.removed_jobs.push_back(journal_name(job));
}

Result<JournalledJob> parse_journal(farm::JobId id, std::span<const cache::JobRecord> records) {
  LFARM_ASSIGN_OR_RETURN(JournalledJob job, parse_records(records));
  if (job.request.id != id) return common::corrupt("its journal has another name");
  return job;
}

Result<JournalledJob> parse_journal_as(farm::JobId id, std::span<const cache::JobRecord> records) {
  LFARM_ASSIGN_OR_RETURN(JournalledJob job, parse_records(records));
  job.request.id = id;
  return job;
}

void journal_copy(cache::Changes& changes, const JobRequest& request,
                  std::span<const cache::JobRecord> records) {
  append(changes, request.id, kRequest, encode_request(request));
  for (const cache::JobRecord& record : records) {
    if (record.sequence != kRequest) append(changes, request.id, record.sequence, record.bytes);
  }
}

Result<JournalledJob> read_journal(cache::Store& store, farm::JobId id) {
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::JobRecord> records, store.read_job(journal_name(id)));
  return parse_journal(id, records);
}

Status remove_journal(cache::Store& store, farm::JobId job) {
  LFARM_RETURN_IF_ERROR(store.remove_job(end_name(job)));
  return store.remove_job(journal_name(job));
}

Status journal_end(cache::Store& store, farm::JobId job, const JobEnd& end, size_t kept) {
  Json record{{"version", kVersion},        {"plan", end.plan.hex()},
              {"farm", end.farm},           {"created_ns", end.created_ns},
              {"tenant", end.tenant},       {"submitter", end.submitter},
              {"toolchain", end.toolchain}, {"machine", end.machine}};
  if (!end.plan_id.is_zero()) record["plan_id"] = end.plan_id.hex();
  if (!end.second_worker.empty()) record["second_worker"] = end.second_worker;
  std::vector<cache::JobRecord> records{
      {kEnd, record.dump(-1, ' ', true, Json::error_handler_t::replace)}};
  if (end.rerun) {
    common::Bytes report = common::encode_task_report(*end.rerun);
    records.push_back({kRerun, std::string(common::as_text(report))});
  }
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::JobRecord> there, store.read_job(end_name(job)));
  if (there.empty()) LFARM_RETURN_IF_ERROR(store.append_job(end_name(job), records, false));
  LFARM_ASSIGN_OR_RETURN(JournalListing all, list_journals(store));
  for (size_t k = 0; k + kept < all.closed.size(); ++k) {
    LFARM_RETURN_IF_ERROR(remove_journal(store, all.closed[k]));
  }
  return {};
}

Result<JobEnd> read_end(cache::Store& store, farm::JobId job) {
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::JobRecord> records, store.read_job(end_name(job)));
  return parse_end(job, records);
}

Result<JobEnd> parse_end(farm::JobId job, std::span<const cache::JobRecord> records) {
  if (records.empty()) {
    return common::invalid_input(cat("job ", job, " has no plan, or its journal was let go"));
  }
  JobEnd end;
  try {
    LFARM_ASSIGN_OR_RETURN(Json record, fields_of(records[0].bytes));
    end.plan = digest_field(record, "plan");
    end.farm = record.at("farm");
    end.created_ns = record.at("created_ns");
    end.tenant = record.value("tenant", "");
    end.submitter = record.value("submitter", "");
    end.toolchain = record.value("toolchain", "");
    end.machine = record.value("machine", "");
    end.second_worker = record.value("second_worker", "");
    if (record.contains("plan_id")) end.plan_id = digest_field(record, "plan_id");
  } catch (const Json::exception& exception) {
    return common::corrupt(cat("the end of its journal is damaged: ", exception.what()));
  }
  if (records.size() > 1) {
    LFARM_ASSIGN_OR_RETURN(end.rerun,
                           common::decode_task_report(common::as_bytes(records[1].bytes)));
  }
  return end;
}

Result<JournalListing> list_journals(cache::Store& store) {
  LFARM_ASSIGN_OR_RETURN(std::vector<std::string> names, store.open_jobs());
  JournalListing all;
  for (const std::string& name : names) {
    if (auto id = number_behind(kEndPrefix, name)) all.closed.push_back(*id);
  }
  std::sort(all.closed.begin(), all.closed.end());
  for (const std::string& name : names) {
    auto id = number_behind(kOpenPrefix, name);
    if (!id || std::binary_search(all.closed.begin(), all.closed.end(), *id)) continue;
    all.open.push_back(*id);
  }
  std::sort(all.open.begin(), all.open.end());
  return all;
}

}  // namespace coordinator::service
