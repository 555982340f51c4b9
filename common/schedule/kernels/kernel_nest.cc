#include "common/schedule/kernels/kernel_nest.h"

#include "common/ir/llir/grouped_form.h"
#include "common/ir/llir/in_place.h"
#include "common/ir/nest/lower_structure.h"
#include "common/schedule/cpu_nest.h"
#include "common/schedule/gpu_nest.h"
#include "common/schedule/kernels/attention_tiling.h"
#include "common/schedule/kernels/kernel_tiling.h"
#include "common/schedule/part_nests.h"
#include "common/schedule/template_fit.h"

namespace common {
namespace {

// What follows from a tile's product, which is in memory.
Result<LoopNest> epilogue_nest(const Graph& body, const VectorTerms& terms) {
  CpuNestOptions options;
  options.context = epilogue_context(body);
  LFARM_ASSIGN_OR_RETURN(LoopNest nest, choose_cpu_nest(body, {}, terms, options));
  nest.is_epilogue = true;
  return nest;
}

Result<std::optional<LoopNest>> cpu_nest(const Kernel& kernel, const VectorTerms& terms) {
  CpuNestOptions options;
  if (kernel.form == Template::kTile) {
    Graph body = lower_structure(kernel.body, Kept::kContractions);
    // Rows in the order of their groups are for GPUs.
    if (has_row_order(body)) {
      LFARM_ASSIGN_OR_RETURN(
          LoopNest nest, choose_cpu_nest(lower_structure(body, Kept::kNone), {}, terms, options));
      return std::optional(std::move(nest));
    }
    if (kernel.schedule.empty() && is_skinny_product(body, &options.inner_axis)) {
      auto nest = choose_cpu_nest(lower_structure(body, Kept::kNone), {}, terms, options);
      if (nest.ok()) return std::optional(std::move(*nest));
    }
    if (template_holds(kernel)) return std::optional<LoopNest>();
    LFARM_ASSIGN_OR_RETURN(LoopNest nest, epilogue_nest(body, terms));
    return std::optional(std::move(nest));
  }
  if (kernel.form != Template::kLoops &&
      (kernel.form != Template::kFourier || template_holds(kernel))) {
    return std::optional<LoopNest>();
  }
  LFARM_ASSIGN_OR_RETURN(LoopNest nest, choose_cpu_nest(lower_structure(kernel.body, Kept::kNone),
                                                        kernel.schedule, terms, options));
  return std::optional(std::move(nest));
}

Result<std::optional<LoopNest>> gpu_nest(const Kernel& kernel, const GpuMachine& machine) {
  // What no template computes has loops.
  bool is_left =
      (kernel.form == Template::kTile || kernel.form == Template::kAttention) && !kernel.tiling;
  bool has_loops = kernel.form == Template::kLoops || kernel.form == Template::kFourier ||
                   is_left || (kernel.form == Template::kScatter && is_looped_scatter(kernel, 0));
  if (!has_loops) return std::optional<LoopNest>();
  Schedule schedule = kernel.form == Template::kLoops ? kernel.schedule : Schedule();
  LFARM_ASSIGN_OR_RETURN(
      TimedNest chosen,
      choose_gpu_nest(lower_structure(kernel.body, Kept::kNone), schedule, machine));
  return std::optional(std::move(chosen.nest));
}

// Whether loops compute the whole body, which leaves nothing to the template.
bool is_looped(const Kernel& kernel) { return kernel.nest && !kernel.nest->is_epilogue; }

}  // namespace

Result<std::optional<LoopNest>> kernel_nest(const Kernel& kernel, const NestMachine& machine) {
  return is_gpu(machine.kind) ? gpu_nest(kernel, machine.gpu) : cpu_nest(kernel, machine.vectors);
}

Status add_nest(Kernel& kernel, const NestMachine& machine) {
  auto add_tiling = [&] {
    if (!kernel.tiling && !is_looped(kernel)) kernel.tiling = kernel_tiling(kernel, machine);
  };
  // A GPU's loops compute what its templates cannot; a processor's templates what is too much for
  // loops.
  if (is_gpu(machine.kind)) add_tiling();
  if (!kernel.nest) {
    LFARM_ASSIGN_OR_RETURN(kernel.nest, kernel_nest(kernel, machine));
  }
  if (!is_gpu(machine.kind)) add_tiling();
  return {};
}

void add_nests(Program& program, const NestMachine& machine) { NestMemo(machine).add(program); }

// Of a scatter without loops it stays empty. Where no nest can be found for a part, none has one.
std::vector<LoopNest> NestMemo::part_nests(const Kernel& kernel, const Digest& fingerprint) {
  auto [known, is_new] = known_parts_.try_emplace(fingerprint);
  if (!is_new) return known->second;
  if (!is_gpu(machine_.kind)) {
    auto nests = choose_cpu_part_nests(kernel, machine_.vectors);
    if (nests.ok()) known->second = std::move(*nests);
    return known->second;
  }
  auto chosen = choose_part_nests(kernel, machine_.gpu);
  if (!chosen.ok()) return {};
  return known->second = std::move(chosen->nests);
}

void NestMemo::add(Program& program) {
  std::vector<Digest> kernels;
  for (const Kernel& kernel : program.kernels) kernels.push_back(kernel_fingerprint(kernel));
  add(program, kernels);
}

void NestMemo::add(Program& program, std::span<const Digest> kernels) {
  for (size_t k = 0; k < kernels.size(); ++k) {
    Kernel& kernel = program.kernels[k];
    if (kernel.form == Template::kHorizontal) {
      if (kernel.part_nests.empty()) kernel.part_nests = part_nests(kernel, kernels[k]);
      continue;
    }
    // A tiling was given together with the nest that it needs.
    if (kernel.tiling || is_looped(kernel)) continue;
    auto [known, is_new] = known_.try_emplace(kernels[k]);
    if (is_new) {
      Kernel chosen = kernel;
      if (add_nest(chosen, machine_).ok()) {
        known->second = {std::move(chosen.nest), std::move(chosen.tiling)};
      }
    }
    if (!kernel.nest) kernel.nest = known->second.nest;
    if (!is_looped(kernel)) kernel.tiling = known->second.tiling;
  }
}

}  // namespace common
