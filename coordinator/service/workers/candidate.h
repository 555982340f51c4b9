// One candidate from the search to the worker and back: what a worker needs to try it, and all that
// those who learn of its result need to know of it.
#pragma once

#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/ir/llir/llir.h"
#include "common/wire/socket.h"
#include "common/wire/task.h"
#include "coordinator/search/job_search.h"

namespace coordinator::service {

// Results by what was asked of the worker. A search that proposes the same again learns the same
// again, whatever number it gives the candidate.
using ResultKey = std::pair<common::TaskKind, common::Digest>;

// A kernel without its body: equal but for `schedule` for kernels that differ in their schedules
// alone.
struct ScheduledForm {
  common::Template form{};
  common::Digest body;
  common::Schedule schedule;
};

// Shared, and never changed, from the moment that it is ready for workers.
struct Candidate : CandidateFacts {
  common::TaskKind kind = common::TaskKind::kCandidate;
  std::vector<common::Digest> kernels;  // fingerprints, in the program's order
  std::vector<ScheduledForm> forms;     // beside `kernels`; none where the program is not known
  common::Bytes payload;                // an encoded TaskPayload
  common::Digest graph;                 // blob that the payload needs
  common::SharedBytes graph_bytes;

  ResultKey key() const { return {kind, fingerprint}; }
  // Whether it is a whole program that a plan may be made of.
  bool may_become_plan() const {
    return kind == common::TaskKind::kBaseline || kind == common::TaskKind::kFinalist;
  }
};

}  // namespace coordinator::service
