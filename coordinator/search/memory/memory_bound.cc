#include "coordinator/search/memory/memory_bound.h"

#include <algorithm>
#include <charconv>

#include "common/base/cat.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/kernel_identity.h"
#include "common/plan/policy.h"
#include "common/plan/run_memory.h"
#include "coordinator/search/memory/fit_memory.h"

namespace coordinator {
namespace {

using common::Program;

// Of a machine class (common/runtime/machine_class.h), whose last words are "N threads".
int threads_of(const std::string& machine) {
  size_t begin = machine.rfind(", ");
  if (begin == std::string::npos || machine.find(" thread", begin) == std::string::npos) return 1;
  int threads = 1;
  std::from_chars(machine.data() + begin + 2, machine.data() + machine.size(), threads);
  return std::max(1, threads);
}

std::vector<int64_t> sizes_of(const Program& program) {
  return common::representative_sizes(program.symbols);
}

}  // namespace

MemoryBound::MemoryBound(const SearchOptions& options, KernelTimes& times)
    : threads_(threads_of(options.machine)),
      orders_(!common::is_gpu(common::machine_of(options.target))),
      times_(times) {
  auto policy = common::parse_plan_policy(options.policy);
  if (policy.ok()) bytes_ = policy->memory_bytes;
}

std::vector<Program> MemoryBound::fit(const Program& program) {
  if (!is_set()) {
    return {orders_ ? in_lower_order(program, sizes_of(program)) : program};
  }
  std::vector<double> kernel_ns = times_.times_of(program, common::body_hashes(program));
  MemoryFit fit = fit_memory(program, arena_bound(), kernel_ns, sizes_of(program));
  least_ = std::min(least_, fit.least_bytes + scratch_);
  std::vector<Program> programs;
  for (FittedProgram& fitted : fit.programs) programs.push_back(std::move(fitted.program));
  has_fitted_ = has_fitted_ || !programs.empty();
  return programs;
}

bool MemoryBound::may_hold(const Program& part) const {
  return !is_set() || least_arena_bytes(part, sizes_of(part)) <= arena_bound();
}

size_t MemoryBound::scratch_of(const Program& program, const common::TaskReport& report) const {
  common::Plan plan = common::plan_of_buffers(program);
  if (report.kernels.size() != plan.kernels.size()) return 0;
  plan.kernels = report.kernels;
  return common::scratch_bytes(plan, sizes_of(program), threads_);
}

bool MemoryBound::holds(const Program& program, const common::TaskReport& report) const {
  if (!is_set()) return true;
  common::RunLiveness live =
      common::run_liveness(common::plan_of_buffers(program), sizes_of(program));
  return live.arena_bytes() + scratch_of(program, report) <= bytes_;
}

void MemoryBound::learn(const Program& program, const common::TaskReport& report) {
  if (is_set()) scratch_ = std::max(scratch_, scratch_of(program, report));
}

common::Error MemoryBound::unreached() const {
  return common::invalid_input(common::cat("no program of the model runs in ", bytes_,
                                           " bytes of memory: the least that was reached is ",
                                           least_, " bytes"));
}

}  // namespace coordinator
