// What a search is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "coordinator/search/genes/effects.h"

namespace coordinator {

// What proposes a region's candidates. All but the last exist to be compared with.
enum class SearchStrategy : uint8_t {
  kRandom,   // genes drawn at random
  kGenetic,  // children of what worked, in no order
  kModel,    // and predicted times decide which of them are sent
};

struct SearchOptions {
  int64_t budget = 64;  // candidates that may be sent to workers, baseline and finalists included
  int64_t time_ms = 0;  // after which finish_now() will be called; 0: no such time
  uint64_t seed = 0;
  common::Target target;
  // The class of the machines that measure candidates (common/runtime/machine_class.h): earlier
  // searches' times are those of the same class. Empty: not known.
  std::string machine;
  std::string policy{common::kDefaultPolicy};
  SearchStrategy strategy = SearchStrategy::kModel;
  // The most candidates in flight. A proposal depends on the results of exactly the candidates
  // before these: workers stay busy, and the sequence of proposals does not depend on the order in
  // which results arrive.
  int64_t in_flight = 12;
  // Ends early once another hundred candidates are, with 95 % confidence, worth less than this
  // share of the time; 0: never.
  double stop_gain = 0;
  // What earlier searches on the target learned; may be null.
  std::shared_ptr<const EffectTable> priors;
  // The program of the plan that is kept under the key now: the outcome is compared with it, and is
  // it where nothing is faster. May be null.
  std::shared_ptr<const common::Program> incumbent;
};

}  // namespace coordinator
