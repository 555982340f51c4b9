// Goal: a coordinator comes up again whatever its store holds: every record of a journal, of plans,
// blobs, measurements and priors is a sound value, or is left out.
// Method: the records of a job and of the store, as one file of stretches, damaged within and
// between; what is read must be within its bounds.
#include <cmath>

#include "cache/store/records.h"
#include "common/base/check.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/plans/priors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire/wire_samples.h"

namespace {

using namespace coordinator::service;  // NOLINT: most of what this file calls
using coordinator::CandidateResult;

constexpr uint64_t kJob = 7;

JobRequest request() {
  JobRequest request;
  request.id = kJob;
  request.key = {common::digest_of("graph"), {"cpu-x86_64-avx2"}, "strict", "3"};
  request.graph = common::digest_of("encoded");
  request.tenant = "team";
  request.budget_candidates = 64;
  return request;
}

// The records of a job that ended, as the store would give them back.
std::vector<std::string> job_records() {
  cache::Changes changes;
  journal_job(changes, request(), common::as_bytes("an encoded graph"));
  JobStart start;
  start.wall_ns = 5;
  start.in_flight = 12;
  start.priors = {{3, {0.5, 2}}, {9, {-1, 4}}};
  journal_start(changes, kJob, 0, start);
  CandidateResult right;
  right.worker = "worker-1";
  right.report = common::sample_report();
  ResultKey key{common::TaskKind::kFinalist, common::digest_of("candidate")};
  journal_result(changes, kJob, 1, key, right);
  CandidateResult wrong;
  wrong.outcome = common::TaskOutcome::kWrong;
  wrong.message = "output 0 differs";
  journal_result(changes, kJob, 2, key, wrong);
  std::vector<std::pair<common::Digest, int64_t>> answers = {{common::digest_of("kernel"), 900}};
  journal_answers(changes, kJob, 3, answers);
  journal_finish(changes, kJob, 4, 60);
  std::vector<std::string> records;
  for (cache::Changes::Record& record : changes.records) {
    records.push_back(std::move(record.record.bytes));
  }
  return records;
}

void read_store(std::string_view bytes) {
  if (auto header = cache::decode_plan_header(bytes)) {
    LFARM_CHECK(header->size <= bytes.size(), "a plan's header ends beyond its record");
    cache::PlanHeader again = *header;
    std::string record = cache::encode_plan(again, bytes.substr(header->size));
    LFARM_CHECK(cache::decode_plan_header(record).has_value(), "a plan's header is lost");
  }
  if (auto measurement = cache::decode_measurement(bytes)) {
    LFARM_CHECK(std::isfinite(measurement->ns) && measurement->ns >= 0, "a time is no time");
  }
  if (auto key = cache::parse_job_key(bytes)) {
    LFARM_CHECK(cache::job_key(key->job, key->sequence) == bytes, "a job's key is ambiguous");
  }
  cache::decode_note(bytes);
  cache::trailing_digest(bytes);
  for (const auto& [feature, effect] : coordinator::service::decode_effects(bytes)) {
    LFARM_CHECK(std::isfinite(effect.mean) && effect.count > 0, "a prior says nothing");
  }
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> seeds = {pack(job_records())};
  std::vector<std::string> end = {
      R"({"version":2,"plan":")" + common::digest_of("plan").hex() +
          R"(","farm":"farm-1","created_ns":17})",
      std::string(common::as_text(common::encode_task_report(common::sample_report())))};
  seeds.push_back(pack(end));
  cache::PlanHeader header;
  header.needs = {{common::digest_of("object"), 5}};
  seeds.push_back(pack({cache::encode_plan(header, "a plan"), cache::job_key("job-7", 3),
                        cache::encode_note({5, 9}), cache::encode_measurement({12.5, 3, 17}),
                        coordinator::service::encode_effects({{3, {0.5, 2}}})}));
  return seeds;
}

size_t fuzz::heap_bytes_max() { return size_t{32} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  std::vector<std::string> pieces = unpack(std::string(common::as_text(bytes)));
  std::vector<cache::JobRecord> records;
  for (std::string& piece : pieces) {
    read_store(piece);
    records.push_back({records.size(), std::move(piece)});
  }
  auto job = coordinator::service::parse_journal(kJob, records);
  if (job.ok()) {
    LFARM_CHECK(job->request.id == kJob, "another job's journal");
    LFARM_CHECK(job->damaged <= records.size(), "more records are damaged than there are");
    for (const auto& [key, result] : job->results) {
      LFARM_CHECK(result.worker.find('\n') == std::string::npos, "a worker's name has two lines");
    }
  }
  auto end = coordinator::service::parse_end(kJob, records);
  LFARM_CHECK(end.ok() || !end.error().message.empty(), "an error without a message");
}
