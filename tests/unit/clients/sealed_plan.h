// Signed plans for tests of what refuses them: a chain of kernels, valid from end to end, and what
// delegates to their key.
#pragma once

#include <string>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/plan/delegation.h"
#include "common/wire/ir_codec.h"

namespace common {

inline Plan chain_plan(int kernels) {
  Plan plan;
  plan.key = {digest_of("graph"), {"cpu-x86_64-avx512"}, "strict", "1"};
  Expr size = 16;
  plan.inputs = {{InputKind::kUser, DType::kFloat32, {size}, ""}};
  plan.outputs = {{OutputKind::kUser, -1, -1}};
  plan.buffers = {{BufferKind::kInput, 0, DType::kFloat32, {size}}};
  for (int k = 0; k < kernels; ++k) {
    PlanKernel kernel;
    kernel.fingerprint = digest_of(cat("kernel", k));
    kernel.object = k;
    kernel.entry.name = cat("kernel_", k);
    plan.kernels.push_back(std::move(kernel));
    plan.objects.push_back(digest_of(cat("object", k)));
    bool is_last = k + 1 == kernels;
    plan.buffers.push_back(
        {is_last ? BufferKind::kOutput : BufferKind::kTemporary, 0, DType::kFloat32, {size}});
    plan.calls.push_back({k, {k}, {k + 1}, {}});
  }
  plan.provenance.farm = "farm";
  plan.provenance.worker = "worker";
  return plan;
}

inline Sealed seal(const SigningKey& key, const std::string& tenant, const Plan& plan) {
  return sign_plan(key, encode_grant({tenant, encode_plan(plan)}));
}

// A delegation that began an hour ago and ends in `hours`.
inline Delegation delegation_for(const SigningKey& root, const SigningKey& key, uint64_t number,
                                 int64_t hours, uint64_t oldest_valid = 0) {
  constexpr int64_t kHourNs = int64_t{3'600} * 1'000'000'000;
  const int64_t now_ns = wall_clock_ns();
  return delegate(
      root,
      {{}, key.public_key(), number, oldest_valid, now_ns - kHourNs, now_ns + hours * kHourNs, {}});
}

}  // namespace common
