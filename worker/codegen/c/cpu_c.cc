#include "worker/codegen/c/cpu_c.h"

#include "common/base/cat.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/loops/cpu_loops.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/body/ordered.h"
#include "worker/codegen/c/attention.h"
#include "worker/codegen/c/fourier.h"
#include "worker/codegen/c/support.h"
#include "worker/codegen/c/tile.h"
#include "worker/codegen/text/support.h"

namespace worker {

using common::c_storage_type;
using common::cat;
using common::CodeWriter;
using common::FunctionBody;
using common::Graph;
using common::Kept;
using common::Kernel;
using common::lower_structure;
using common::Node;
using common::Result;
using common::Scratch;
using common::Template;

namespace {

// The signature, the symbols and the typed pointers.
// With `in_place`, an output may be the memory of an input, so pointers promise nothing.
std::string prologue(const std::string& entry, const Graph& body, const FunctionBody& function,
                     bool in_place) {
  std::string_view restricted = in_place ? "" : "restrict ";
  std::string text = cat("void ", entry,
                         "(void* const* restrict buffers, const int64_t* restrict symbols, "
                         "int64_t begin, int64_t end, void* restrict scratch) {\n");
  for (size_t k = 0; k < body.symbols.size(); ++k) {
    text += cat("  const int64_t s", k, " = symbols[", k, "];\n");
  }
  auto pointer = [&](std::string_view qualifier, common::DType dtype, std::string_view name,
                     size_t number, size_t buffer) {
    text += cat("  ", qualifier, c_storage_type(dtype), "* ", restricted, "const ", name, number,
                " = __builtin_assume_aligned(buffers[", buffer, "], 64);\n");
  };
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    pointer("const ", body.inputs[k].dtype, "in", k, k);
  }
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    pointer("", body.node(body.outputs[k].node).dtype, "out", k, body.inputs.size() + k);
  }
  CodeWriter names(body.symbols);
  for (const Scratch::Piece& piece : function.scratch) {
    text += cat("  ", piece.type, "* restrict const ", piece.name,
                " = __builtin_assume_aligned((char*)scratch + ", names.rare_text(piece.offset),
                ", 64);\n");
  }
  return text;
}

Kept kept_by(Template form) {
  if (form == Template::kTile) return Kept::kContractions;
  return form == Template::kFourier ? Kept::kTransforms : Kept::kNone;
}

Result<FunctionBody> emit_template(const Kernel& kernel, const Graph& body,
                                   const VectorUnit& unit) {
  switch (kernel.form) {
    case Template::kTile:
      return emit_tile(body, kernel.schedule, unit, kernel.nest);
    case Template::kAttention:
      return emit_attention(body, kernel.schedule, unit.bytes);
    case Template::kFourier:
      return emit_fourier(body, unit.bytes);
    case Template::kScan:
      return emit_scan(body);
    case Template::kScatter:
      return emit_scatter(body, {.are_few = true});
    case Template::kSort:
      return emit_sort(body);
    case Template::kHorizontal:
      return common::unsupported("a horizontal kernel is for a GPU");
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
  source.text = cat(prologue(source.entry.name, body, function, kernel.form == Template::kScatter),
                    function.text, "}\n");
  source.entry.units = function.units;
  source.entry.scratch_bytes = function.scratch_bytes;
  return source;
}

}  // namespace worker
