#include "common/schedule/kernel_nest.h"

#include "common/ir/nest/lower_structure.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/cpu_nest.h"
#include "common/schedule/gpu_nest.h"
#include "common/schedule/template_fit.h"

namespace common {
namespace {

// What follows from a tile's product, which is in memory.
Result<LoopNest> epilogue_nest(const Graph& body) {
  CpuNestOptions options;
  options.context = epilogue_context(body);
  LFARM_ASSIGN_OR_RETURN(LoopNest nest, choose_cpu_nest(body, {}, options));
  nest.is_epilogue = true;
  return nest;
}

Result<std::optional<LoopNest>> cpu_nest(const Kernel& kernel, bool has_pairs) {
  CpuNestOptions options;
  options.dot_pairs = has_pairs;
  if (kernel.form == Template::kTile) {
    Graph body = lower_structure(kernel.body, Kept::kContractions);
    if (kernel.schedule.empty() && is_skinny_product(body, &options.inner_axis)) {
      auto nest = choose_cpu_nest(lower_structure(body, Kept::kNone), {}, options);
      if (nest.ok()) return std::optional(std::move(*nest));
    }
    if (template_holds(kernel)) return std::optional<LoopNest>();
    LFARM_ASSIGN_OR_RETURN(LoopNest nest, epilogue_nest(body));
    return std::optional(std::move(nest));
  }
  if (kernel.form != Template::kLoops &&
      (kernel.form != Template::kFourier || template_holds(kernel))) {
    return std::optional<LoopNest>();
  }
  LFARM_ASSIGN_OR_RETURN(LoopNest nest, choose_cpu_nest(lower_structure(kernel.body, Kept::kNone),
                                                        kernel.schedule, options));
  return std::optional(std::move(nest));
}

Result<std::optional<LoopNest>> gpu_nest(const Kernel& kernel) {
  // Whether an attention fits into shared memory its template knows: what does not is loops.
  bool has_loops = kernel.form == Template::kLoops || kernel.form == Template::kFourier ||
                   kernel.form == Template::kAttention ||
                   (kernel.form == Template::kTile && !template_holds(kernel));
  if (!has_loops) return std::optional<LoopNest>();
  Schedule schedule = kernel.form == Template::kLoops ? kernel.schedule : Schedule();
  LFARM_ASSIGN_OR_RETURN(LoopNest nest,
                         choose_gpu_nest(lower_structure(kernel.body, Kept::kNone), schedule));
  return std::optional(std::move(nest));
}

}  // namespace

Result<std::optional<LoopNest>> kernel_nest(const Kernel& kernel, Machine machine) {
  return is_gpu(machine) ? gpu_nest(kernel) : cpu_nest(kernel, machine == Machine::kCpuPairs);
}

void add_nests(Program& program, Machine machine) { NestMemo(machine).add(program); }

void NestMemo::add(Program& program) {
  for (Kernel& kernel : program.kernels) {
    if (kernel.nest) continue;
    auto [known, is_new] = known_.try_emplace(kernel_fingerprint(kernel));
    if (is_new) {
      auto nest = kernel_nest(kernel, machine_);
      if (nest.ok()) known->second = std::move(*nest);
    }
    kernel.nest = known->second;
  }
}

}  // namespace common
