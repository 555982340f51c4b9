// A scripted search for tests of the coordinator: one baseline, then candidates, then a finalist.
#pragma once

#include <atomic>
#include <memory>

#include "common/ir/graph.h"
#include "coordinator/service/options.h"

namespace coordinator::service {

// y = x + x over `size` elements: graphs of different sizes have different hashes.
common::Graph scripted_graph(int64_t size);

struct ScriptCounters {
  std::atomic<int> searches{0};
  std::atomic<int> finished_early{0};
};

// The factory of searches that send `budget` candidates, one at least.
SearchFactory scripted_searches(std::shared_ptr<ScriptCounters> counters);

}  // namespace coordinator::service
