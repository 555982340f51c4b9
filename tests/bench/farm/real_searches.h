// dispatch --real-search: real searches of one model through a real coordinator, for simulated
// workers: what a candidate costs the coordinator.
#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/farm/simulated_workers.h"

namespace bench {

struct RealSearches {
  std::string model;        // an archive; empty: the fixtures' small llama
  uint64_t jobs = 1;        // at the same time
  uint64_t candidates = 0;  // of each job
  uint32_t in_flight = 0;   // as in common::Submit
  uint32_t searchers = 0;   // processes that search in the coordinator's place
};

// Prints one JSON object. Throws when a job fails.
void run_real_searches(const RealSearches& options, FarmOptions farm, WorkersOptions workers);

}  // namespace bench
