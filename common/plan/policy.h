// What a plan is held to beside its graph and target, as the policy of its key says: how numbers
// are rounded, and how much memory a run may use.
//
//   strict                      no bound on memory
//   strict,memory=268435456     a run's arena and scratch areas take at most 256 MiB
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/plan/plan.h"

namespace common {

struct PlanPolicy {
  std::string numerics{kDefaultPolicy};
  // Bytes of a run's arena and scratch areas (run_memory.h); 0: as many as the fastest plan needs.
  uint64_t memory_bytes = 0;
  // The form that keys have. Without a bound it is the numerics alone.
  std::string text() const;
  friend bool operator==(const PlanPolicy&, const PlanPolicy&) = default;
};

// The numerics of a policy's text, whatever else it says.
constexpr std::string_view numerics_part(std::string_view policy) {
  return policy.substr(0, policy.find(','));
}

// kInvalidInput where the text is no policy. Empty: the default one.
Result<PlanPolicy> parse_plan_policy(std::string_view text);

}  // namespace common
