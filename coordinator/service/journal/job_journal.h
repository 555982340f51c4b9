// What a job leaves on disk so that a coordinator killed at any moment takes it up again, and so
// that anyone can replay it later: its request, its graph, what its search knew at the start, and
// everything it was told since.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"
#include "common/wire/task.h"
#include "coordinator/farm/types.h"
#include "coordinator/search/job_search.h"
#include "coordinator/service/plans/measurements.h"
#include "coordinator/service/workers/candidate.h"

namespace coordinator::service {

// What was asked for, with the target settled.
struct JobRequest {
  farm::JobId id = 0;
  common::PlanKey key;
  common::Digest graph;  // of the encoded graph
  std::string tenant;
  uint64_t budget_candidates = 0;  // 0: none of this kind, only when there is one of the other
  uint64_t budget_ms = 0;
  uint64_t seed = 0;
  uint64_t max_wait_ms = 0;
  uint32_t priority = common::kPriorityDefault;
  uint32_t in_flight = 0;      // as submitted, see common::Submit
  std::string submitter = {};  // id of the key that asked for it
  bool only_reverify = false;  // see common::Submit
  std::string name = {};       // what people call the model
  std::string machine = {};    // class that the plan is to be for; empty: not known
  // The plan that was there when the job was asked for, and is searched on from; zero: none.
  common::Digest searches_on_from = {};

  // Of the plan to be: each tenant has its own for each machine class, and so its own job.
  common::Digest place() const { return common::place_of(tenant, key.digest(), machine); }
};

// What a search began with, settled once for a job however often its coordinator restarts.
struct JobStart {
  int64_t wall_ns = 0;    // later measurements of others are not for this search
  int64_t in_flight = 0;  // see SearchOptions
  EffectTable priors;
  std::string machine;  // class whose workers measure: the request's, unless it had no worker
  // The plan that was kept under the key and the encoded TaskPayload that it was made from, which
  // the outcome is compared with; zero and empty: none.
  common::Digest incumbent_plan = {};
  common::Bytes incumbent = {};
};

// Numbers that the records of a start take.
inline constexpr uint64_t kStartRecords = 2;

// What became of a plan after its search had found it.
struct JobEnd {
  common::Digest plan;  // plan_digest() of the plan that was kept: what a replay must come to
  std::string farm;
  int64_t created_ns = 0;
  std::string tenant, submitter, toolchain, machine;
  std::string second_worker;                // that compiled the same objects; empty: none did
  std::optional<common::TaskReport> rerun;  // of the finalist, when its objects had been lost
  // Of the signed plan, by which users know it; zero in journals that do not say.
  common::Digest plan_id;
};

using KnownResults = std::map<ResultKey, CandidateResult>;

struct JournalledJob {
  JobRequest request;
  common::Bytes graph;
  std::optional<JobStart> start;
  KnownResults results;
  KernelAnswers answers;
  TuningRecordAnswers tuning_records;
  std::optional<int64_t> finish_after;  // candidates after which the search was told to end
  uint64_t next_record = 0;             // the number that the next record takes
  uint64_t damaged = 0;                 // records that could not be read
};

// The journal's name in the store.
std::string journal_name(farm::JobId job);

// These add to what is written next. May be called from any thread.
void journal_job(cache::Changes& changes, const JobRequest& request, common::ByteView graph);
// Record `n` of the job: n from 0, each number once; a start takes kStartRecords. Of several
// results under one key the last one counts.
void journal_start(cache::Changes& changes, farm::JobId job, uint64_t n, const JobStart& start);
void journal_result(cache::Changes& changes, farm::JobId job, uint64_t n, const ResultKey& key,
                    const CandidateResult& result);
void journal_answers(cache::Changes& changes, farm::JobId job, uint64_t n,
                     std::span<const std::pair<common::Digest, int64_t>> answers);
void journal_tuning_records(
    cache::Changes& changes, farm::JobId job, uint64_t n,
    std::span<const std::pair<common::Digest, TuningRecord>> tuning_records);
void journal_finish(cache::Changes& changes, farm::JobId job, uint64_t n, int64_t candidates);
void journal_removal(cache::Changes& changes, farm::JobId job);

// The record of one result, as journal_result() writes it, and its inverse: kCorrupt when it is
// damaged. Spans are left out: no search looks at them.
std::string result_record(const ResultKey& key, const CandidateResult& result);
common::Result<std::pair<ResultKey, CandidateResult>> parse_result_record(
    const std::string& record);

// What the records of a job's journal say, in their order, without damaged ones. kCorrupt when its
// request or graph is damaged.
common::Result<JournalledJob> parse_journal(farm::JobId job,
                                            std::span<const cache::JobRecord> records);
// The same of a journal that another coordinator left, of a job that has this number from now on;
// journal_copy() makes it this coordinator's own.
common::Result<JournalledJob> parse_journal_as(farm::JobId job,
                                               std::span<const cache::JobRecord> records);
void journal_copy(cache::Changes& changes, const JobRequest& request,
                  std::span<const cache::JobRecord> records);
// The same of a closed journal's end. kInvalidInput when there is none.
common::Result<JobEnd> parse_end(farm::JobId job, std::span<const cache::JobRecord> records);

// The job as journalled, without damaged records. kCorrupt when its request or graph is damaged.
common::Result<JournalledJob> read_journal(cache::Store& store, farm::JobId job);
common::Status remove_journal(cache::Store& store, farm::JobId job);

// Closes the journal, once, and leaves it for replays; of closed journals the `kept` latest stay.
// May be tried again after an error.
common::Status journal_end(cache::Store& store, farm::JobId job, const JobEnd& end, size_t kept);
// kInvalidInput when the journal is not closed.
common::Result<JobEnd> read_end(cache::Store& store, farm::JobId job);

// Jobs with journals, in the order of their numbers.
struct JournalListing {
  std::vector<farm::JobId> open;
  std::vector<farm::JobId> closed;
};
common::Result<JournalListing> list_journals(cache::Store& store);

}  // namespace coordinator::service
