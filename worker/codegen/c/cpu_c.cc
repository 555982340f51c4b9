#include "worker/codegen/c/cpu_c.h"

#include "common/base/cat.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/loops/cpu_loops.h"
#include "worker/codegen/body/ordered.h"
#include "worker/codegen/c/attention.h"
#include "worker/codegen/c/entry_text.h"
#include "worker/codegen/c/fourier.h"
#include "worker/codegen/c/horizontal.h"
#include "worker/codegen/c/support.h"
#include "worker/codegen/c/tile/tile.h"
#include "worker/codegen/text/support.h"

namespace worker {

using common::cat;
using common::FunctionBody;
using common::Graph;
using common::Kept;
using common::Kernel;
using common::lower_structure;
using common::Result;
using common::Template;

namespace {

Kept kept_by(Template form) {
  if (form == Template::kTile) return Kept::kContractions;
  return form == Template::kFourier ? Kept::kTransforms : Kept::kNone;
}

Result<FunctionBody> emit_template(const Kernel& kernel, const Graph& body,
                                   const common::VectorUnit& unit) {
  bool is_tiled = kernel.form == Template::kTile || kernel.form == Template::kAttention ||
                  kernel.form == Template::kFourier;
  if (is_tiled && !kernel.tiling)
    return common::invalid_input("a kernel of a template has no tiling");
  switch (kernel.form) {
    case Template::kTile:
      return emit_tile(body, *kernel.tiling, unit, kernel.nest);
    case Template::kAttention:
      return emit_attention(body, *kernel.tiling, unit);
    case Template::kFourier:
      return emit_fourier(body, *kernel.tiling);
    case Template::kScan:
      return emit_scan(body);
    case Template::kScatter:
      return emit_scatter(body, {.are_few = true});
    case Template::kSort:
      return emit_sort(body);
    default:
      return common::invalid_input("a kernel of loops has no nest");
  }
}

}  // namespace

std::string CpuCodeGenerator::preamble() const {
  return cat(cpu_support_base(), c_support_number(), c_support_basic_math(),
             cpu_support_float_math(), cpu_support_trigonometry(), c_support_library_math(),
             c_support_philox(), cpu_support_sort(), cpu_support_transpose(), cpu_support_dots(),
             unit_.has_pairs ? cpu_support_pairs() : cpu_support_half_dots(),
             unit_.has_tiles ? cpu_support_tiles() : "");
}

Result<KernelSource> CpuCodeGenerator::generate(const Kernel& kernel) const {
  LFARM_RETURN_IF_ERROR(common::verify(kernel.body));
  if (kernel.form == Template::kGemm) {
    return common::invalid_input("a gemm kernel is a library call and has no code");
  }
  if (kernel.form == Template::kHorizontal) return emit_c_horizontal(kernel);
  bool is_loops = kernel.nest && !kernel.nest->is_epilogue;
  Graph body = kernel.body;
  if (is_loops) {
    body = common::nest_body(kernel.body, *kernel.nest);
  } else if (kernel.form != Template::kAttention) {
    // An attention's structure is what its code is made of.
    body = lower_structure(kernel.body, kept_by(kernel.form));
  }
  if (kernel.nest) LFARM_RETURN_IF_ERROR(common::verify(*kernel.nest, body));
  LFARM_ASSIGN_OR_RETURN(FunctionBody function, is_loops ? lower_cpu_loops(body, *kernel.nest)
                                                         : emit_template(kernel, body, unit_));
  KernelSource source;
  source.entry.name = entry_name(kernel);
  source.text =
      cat(c_function_head("", source.entry.name, body, function, kernel.form == Template::kScatter),
          function.text, "}\n");
  source.entry.units = function.units;
  source.entry.scratch_bytes = function.scratch_bytes;
  return source;
}

}  // namespace worker
