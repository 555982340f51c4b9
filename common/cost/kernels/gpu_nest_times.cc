#include "common/cost/kernels/gpu_nest_times.h"

#include <limits>

#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/in_place.h"
#include "common/ir/nest/lower_structure.h"
#include "common/schedule/gpu_nest.h"
#include "common/schedule/part_nests.h"

namespace common {
namespace {

// Of nests that are predicted to take the same, that of the default schedule has wide accesses and
// few idle waves (nest_preference_ns()). Another schedule has to be quicker by more than this.
constexpr double kAskedMargin = 1.003;

}  // namespace

bool has_nest_times(const Kernel& kernel) {
  return kernel.form == Template::kLoops || kernel.form == Template::kHorizontal ||
         (kernel.form == Template::kScatter && is_looped_scatter(kernel, 0));
}

GpuNestTimes::GpuNestTimes(Template form, const Graph& body, const GpuMachine& machine)
    : machine_(machine) {
  if (form != Template::kHorizontal) body_ = lower_structure(body, Kept::kNone);
  kernel_.form = form;
  kernel_.body = body;
}

double GpuNestTimes::predict_ns(const Schedule& schedule) {
  auto [known, is_new] = known_.try_emplace(schedule, 0);
  if (is_new) {
    known->second = kernel_.form == Template::kHorizontal ? parts_ns() : loops_ns(schedule);
  }
  return known->second;
}

double GpuNestTimes::launch_ns(const std::vector<GpuKernelFacts>& facts) const {
  const auto sizes = priced_sizes(kernel_.body.symbols);
  double sum = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    sum += sizes[k].weight * gpu_kernel_time(facts[k], machine_).launch_ns;
  }
  return sum;
}

double GpuNestTimes::loops_ns(const Schedule& schedule) const {
  auto nest = choose_gpu_nest(body_, schedule, machine_);
  if (!nest.ok()) return std::numeric_limits<double>::infinity();
  const double ns = nest->predicted_ns + launch_ns(nest->facts);
  return schedule.empty() ? ns : kAskedMargin * ns;
}

double GpuNestTimes::parts_ns() const {
  auto parts = choose_part_nests(kernel_, machine_);
  if (!parts.ok()) return std::numeric_limits<double>::infinity();
  return launch_ns(parts->facts) +
         nest_ns(parts->facts, priced_sizes(kernel_.body.symbols), machine_);
}

}  // namespace common
