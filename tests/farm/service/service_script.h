// A scripted search for tests of the coordinator: one baseline, then candidates, then a finalist.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/ir/hlir/graph.h"
#include "common/wire/task.h"
#include "coordinator/service/loop/options.h"

namespace coordinator::service {

// y = x + x over `size` elements: graphs of different sizes have different hashes.
common::Graph scripted_graph(int64_t size);

struct ScriptCounters {
  std::atomic<int> searches{0};
  std::atomic<int> finished_early{0};
  std::atomic<int> incumbents{0};  // searches that were given a plan to compare with
  // Hand out the baseline's plan and each faster one before the search ends.
  std::atomic<bool> hands_out{false};
  // Say what the baseline takes as the best so far, and end with it if the finalist was given up.
  std::atomic<bool> keeps_baseline{false};
};

// The factory of searches that send `budget` candidates, one at least.
SearchFactory scripted_searches(std::shared_ptr<ScriptCounters> counters);

// What a worker says that runs nothing: objects and times follow from the kernels' fingerprints.
struct ScriptedReport {
  common::TaskKind kind{};
  common::TaskReport report;
  std::map<common::Digest, common::SharedBytes> objects;
};

// For an encoded payload. Objects of different `salt` differ; one_object: all kernels, of whichever
// program, are compiled into the same. Throws when the payload is none.
ScriptedReport scripted_report(common::ByteView payload, std::string_view salt = "",
                               bool one_object = false);

}  // namespace coordinator::service
