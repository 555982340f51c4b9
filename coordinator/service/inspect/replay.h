// `lfarm-coordinator replay`: runs a finished job's search again from its journal, so that anyone
// can see why the farm tried what it tried and took the plan it took.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/loop/options.h"

namespace coordinator::service {

struct ReplayedCandidate {
  CandidateTask task;
  std::optional<CandidateResult> result;  // empty: the journal has none
};

struct Replay {
  JournalledJob job;  // without its results, which the candidates have
  JobEnd end;
  std::vector<ReplayedCandidate> candidates;  // in the order of proposal
  std::optional<common::Digest> plan;         // what the search came to this time
  std::string difference;                     // why it is not the job's plan; empty when it is
};

// The store may be open read-only beside the coordinator that writes to it. kInvalidInput when the
// job has no plan or its journal was let go.
common::Result<Replay> replay_job(cache::Store& store, farm::JobId job,
                                  const SearchFactory& create_search);

// `replay --state DIR JOB [--json]`. Prints every candidate with its origin, prediction and result,
// and whether the search came to the job's plan. Exit code 0 if so, 5 if not.
int run_replay(int argc, const char* const* argv, const SearchFactory& create_search);

}  // namespace coordinator::service
