// What a job leaves on disk so that a coordinator killed at any moment takes it up again: its
// request, its graph, and every result it has learned from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "common/plan/plan.h"
#include "common/wire/task.h"
#include "coordinator/farm/types.h"
#include "coordinator/search/job_search.h"

namespace coordinator::service {

// What was asked for, with the target settled.
struct JobRequest {
  farm::JobId id = 0;
  common::PlanKey key;
  common::Digest graph;  // of the encoded graph
  std::string tenant;
  uint64_t budget_candidates = 0;  // 0: none of this kind
  uint64_t budget_ms = 0;
  uint64_t seed = 0;
  uint64_t max_wait_ms = 0;
};

// Results by what was asked of the worker. A search that proposes the same again learns the same
// again, whatever number it gives the candidate.
using ResultKey = std::pair<common::TaskKind, common::Digest>;
using KnownResults = std::map<ResultKey, CandidateResult>;

struct JournalledJob {
  JobRequest request;
  common::Bytes graph;
  KnownResults results;
  uint64_t next_result = 0;  // the number that the next result's record takes
};

// Returns once the job is on the disk. May be called from any thread.
common::Status journal_job(cache::Store& store, const JobRequest& request, common::ByteView graph);

// The record for the job's n-th result (n from 0); reaches the disk with the next durable write.
common::Status journal_result(cache::Store& store, farm::JobId job, uint64_t n,
                              const ResultKey& key, const CandidateResult& result);

// The job as journalled, without damaged results. kCorrupt when its request or graph is damaged.
common::Result<JournalledJob> read_journal(cache::Store& store, const std::string& name);

common::Status remove_journal(cache::Store& store, farm::JobId job);

}  // namespace coordinator::service
