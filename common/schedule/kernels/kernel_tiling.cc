#include "common/schedule/kernels/kernel_tiling.h"

#include "common/ir/hlir/attention_form.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/body/contraction.h"
#include "common/schedule/kernels/attention_tiling.h"
#include "common/schedule/kernels/fourier_tiling.h"
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

std::optional<Tiling> gpu_tiling(const Kernel& kernel, const NestMachine& machine) {
  const bool warpgroups = machine.kind == Machine::kGpuWarpgroups;
  const ProductMachine products{warpgroups, static_cast<int64_t>(machine.gpu.processors)};
  if (kernel.form == Template::kTile) {
    if (!template_holds(kernel) && !(warpgroups && warpgroups_hold(kernel))) return std::nullopt;
    return choose_product_tiling(lower_structure(kernel.body, Kept::kContractions), kernel.schedule,
                                 products);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Tiling> kernel_tiling(const Kernel& kernel, const NestMachine& machine) {
  if (is_gpu(machine.kind)) return gpu_tiling(kernel, machine);
  return cpu_tiling(kernel, machine.unit);
}

}  // namespace common
