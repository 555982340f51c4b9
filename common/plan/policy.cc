#include "common/plan/policy.h"

#include <charconv>

#include "common/base/cat.h"

namespace common {
namespace {

constexpr std::string_view kMemory = ",memory=";

}  // namespace

std::string PlanPolicy::text() const {
  return memory_bytes == 0 ? numerics : cat(numerics, kMemory, memory_bytes);
}

Result<PlanPolicy> parse_plan_policy(std::string_view text) {
  PlanPolicy policy;
  if (text.empty()) return policy;
  size_t end = std::min(text.find(','), text.size());
  policy.numerics = numerics_part(text);
  if (!is_policy(policy.numerics)) {
    return invalid_input(
        cat("no numerics policy is called '", policy.numerics, "'; use strict or relaxed"));
  }
  std::string_view rest = text.substr(end);
  if (rest.empty()) return policy;
  std::string_view digits = rest.substr(std::min(kMemory.size(), rest.size()));
  auto read = std::from_chars(digits.data(), digits.data() + digits.size(), policy.memory_bytes);
  // One text a bound, so that equal bounds have equal keys.
  if (!rest.starts_with(kMemory) || read.ec != std::errc() || policy.text() != text) {
    return invalid_input(cat("'", text, "' bounds no memory; write strict,memory=BYTES"));
  }
  return policy;
}

}  // namespace common
