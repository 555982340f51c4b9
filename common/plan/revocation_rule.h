// Which plans nobody may load any more, by what made them: a worker, a toolchain, a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace common {

// Holds for plans of which all that it names is true.
struct RevocationRule {
  std::string worker;     // that measured the plan and made its machine code; empty: any
  std::string toolchain;  // a part of the name of what compiled it; empty: any
  // Signed off within, by the farm's wall clock. Never in the future, so that what is made from now
  // on is not concerned; 0: no rule at all.
  int64_t from_ns = 0, until_ns = 0;

  bool is_none() const { return until_ns == 0; }
  bool holds(std::string_view its_worker, std::string_view its_toolchain, int64_t made_ns) const {
    return !is_none() && made_ns >= from_ns && made_ns <= until_ns &&
           (worker.empty() || worker == its_worker) &&
           its_toolchain.find(toolchain) != std::string_view::npos;
  }
  friend bool operator==(const RevocationRule&, const RevocationRule&) = default;
};

inline constexpr size_t kRevocationRulesMax = 1'024;

}  // namespace common
