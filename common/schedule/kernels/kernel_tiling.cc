#include "common/schedule/kernels/kernel_tiling.h"

#include "common/ir/hlir/attention_form.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/body/contraction.h"
#include "common/schedule/attention/gpu_attention_tiling.h"
#include "common/schedule/kernels/attention_tiling.h"
#include "common/schedule/kernels/fourier_tiling.h"
#include "common/schedule/kernels/ordered_tiling.h"
#include "common/schedule/kernels/register_tiling.h"
#include "common/schedule/products/product_tiling.h"
#include "common/schedule/template_fit.h"

namespace common {
namespace {

std::optional<Tiling> cpu_tiling(const Kernel& kernel, const VectorUnit& unit) {
  if (kernel.form == Template::kAttention) {
    auto form = attention_form(kernel.body);
    if (!form) return std::nullopt;
    return to_tiling(choose_attention_tiling(kernel.body, *form, kernel.schedule, unit));
  }
  if (kernel.form == Template::kFourier) {
    auto form = fourier_form(kernel.body);
    if (!form) return std::nullopt;
    const DType dtype = kernel.body.node(form->any()).dtype;
    return to_tiling(choose_fourier_tiling(fourier_row(kernel.body, *form), dtype, unit));
  }
  if (kernel.form != Template::kTile) return std::nullopt;
  Graph body = lower_structure(kernel.body, Kept::kContractions);
  NodeId id = only_contraction(body);
  if (id < 0) return std::nullopt;
  return to_tiling(choose_register_tiling(Contraction(body, id), kernel.schedule, unit));
}

template <class T>
std::optional<Tiling> tiling_of(const std::optional<T>& t) {
  return t ? std::optional(to_tiling(*t)) : std::nullopt;
}

std::optional<Tiling> gpu_tiling(const Kernel& kernel, const NestMachine& machine) {
  const auto processors = static_cast<int64_t>(machine.gpu.processors);
  const bool has_warpgroups = machine.kind == Machine::kGpuWarpgroups;
  if (kernel.form == Template::kTile) {
    const bool holds = template_holds(kernel) || (has_warpgroups && warpgroups_hold(kernel));
    if (!holds) return std::nullopt;
    return choose_product_tiling(lower_structure(kernel.body, Kept::kContractions), kernel.schedule,
                                 {has_warpgroups, processors});
  }
  if (kernel.form == Template::kAttention) {
    if (!template_holds(kernel)) return std::nullopt;
    return choose_gpu_attention_tiling(kernel.body, kernel.schedule, processors, has_warpgroups);
  }
  if (kernel.form == Template::kSort) {
    return tiling_of(choose_sort_tiling(lower_structure(kernel.body, Kept::kNone)));
  }
  if (kernel.form == Template::kScan) {
    return tiling_of(choose_scan_tiling(lower_structure(kernel.body, Kept::kNone)));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Tiling> kernel_tiling(const Kernel& kernel, const NestMachine& machine) {
  if (is_gpu(machine.kind)) return gpu_tiling(kernel, machine);
  return cpu_tiling(kernel, machine.unit);
}

}  // namespace common
