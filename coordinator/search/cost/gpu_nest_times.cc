#include "coordinator/search/cost/gpu_nest_times.h"

#include <limits>
#include <optional>

#include "common/cost/gpu_time.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/horizontal.h"
#include "common/ir/nest/lower_structure.h"
#include "common/schedule/gpu_nest.h"
#include "coordinator/search/cost/gpu_cost.h"

namespace coordinator {

using common::GpuKernelFacts;
using common::Kernel;
using common::Template;

bool has_nest_times(Template form) {
  return form == Template::kLoops || form == Template::kHorizontal;
}

GpuNestTimes::GpuNestTimes(Template form, const common::Graph& body,
                           const common::GpuMachine& machine)
    : machine_(machine) {
  if (form == Template::kLoops) body_ = common::lower_structure(body, common::Kept::kNone);
  kernel_.form = form;
  kernel_.body = body;
}

double GpuNestTimes::predict_ns(const common::Schedule& schedule) {
  auto [known, is_new] = known_.try_emplace(schedule, 0);
  if (is_new) {
    known->second = common::kGpuLaunchNs +
                    (kernel_.form == Template::kHorizontal ? parts_ns() : loops_ns(schedule));
  }
  return known->second;
}

double GpuNestTimes::loops_ns(const common::Schedule& schedule) const {
  auto nest = common::choose_gpu_nest(body_, schedule, machine_);
  return nest.ok() ? nest->predicted_ns : std::numeric_limits<double>::infinity();
}

double GpuNestTimes::parts_ns() const {
  std::vector<int64_t> sizes = common::representative_sizes(kernel_.body.symbols);
  std::optional<GpuKernelFacts> all;
  for (size_t k = 0; k < kernel_.body.outputs.size(); ++k) {
    Kernel part = common::horizontal_part(kernel_, k);
    GpuKernelFacts facts;
    if (part.form == Template::kLoops) {
      auto nest = common::choose_gpu_nest(common::lower_structure(part.body, common::Kept::kNone),
                                          {}, machine_, false);
      if (!nest.ok()) return std::numeric_limits<double>::infinity();
      facts = nest->facts;
    } else {
      facts = gpu_facts(part.form, profile_kernel(part, sizes));
    }
    all = all ? common::one_launch(*all, facts) : facts;
  }
  return common::gpu_kernel_time(*all, machine_).total_ns;
}

}  // namespace coordinator
