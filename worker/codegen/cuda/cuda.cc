#include "worker/codegen/cuda/cuda.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/cost/gpu_machine.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/in_place.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/loops/gpu_loops.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/body/ordered.h"
#include "worker/codegen/cuda/attention/attention.h"
#include "worker/codegen/cuda/horizontal.h"
#include "worker/codegen/cuda/ordered.h"
#include "worker/codegen/cuda/support.h"
#include "worker/codegen/cuda/tile/tile.h"
#include "worker/codegen/cuda/units.h"
#include "worker/codegen/text/support.h"
#include "worker/codegen/text/support_parts.h"

namespace worker {

using common::c_storage_type;
using common::cat;
using common::CodeWriter;
using common::GpuFunction;
using common::Graph;
using common::Kept;
using common::Kernel;
using common::lower_structure;
using common::Result;
using common::Scratch;
using common::Template;

namespace {

// The signature, where this kernel may begin before earlier ones end its prefetches and the wait
// for them, and the pieces of scratch memory. With `in_place`, an output may be the memory of an
// input, so pointers promise nothing. Where kernels overlap inputs promise nothing: what they point
// to may still be written when the kernel begins, so that no load may go through the read-only path
// or before the wait.
std::string prologue(const std::string& entry, const Graph& body, const GpuFunction& function,
                     bool in_place, bool overlaps) {
  std::string_view restricted = in_place ? "" : " __restrict__";
  std::string_view restricted_input = overlaps ? "" : restricted;
  std::string text =
      cat("extern \"C\" __global__ void __launch_bounds__(", function.block.threads,
          function.resident > 1 ? cat(", ", function.resident) : "", ") ",
          function.cluster > 1 ? cat("__cluster_dims__(", function.cluster, ", 1, 1) ") : "", entry,
          "(");
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    text +=
        cat("const ", c_storage_type(body.inputs[k].dtype), "*", restricted_input, " in", k, ", ");
  }
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    text += cat(c_storage_type(body.node(body.outputs[k].node).dtype), "*", restricted, " out", k,
                ", ");
  }
  for (size_t k = 0; k < body.symbols.size(); ++k) text += cat("int64_t s", k, ", ");
  text += "int64_t units, char* scratch, int64_t scratch_stride";
  for (size_t k = 0; k < function.maps.size(); ++k) {
    text += cat(", const __grid_constant__ lf_tensor_map map", k);
  }
  text += ") {\n";
  if (overlaps) text += cat(function.early, function.waits ? "" : "  lf_wait_for_earlier();\n");
  CodeWriter names(body.symbols);
  if (function.is_split) text += "  char* const areas = scratch;\n";
  if (!function.body.scratch.empty()) text += "  scratch += blockIdx.x * scratch_stride;\n";
  for (const Scratch::Piece& piece : function.body.scratch) {
    text += cat("  ", piece.type, "* const ", piece.name, " = (", piece.type, "*)(scratch + ",
                names.rare_text(piece.offset), ");\n");
  }
  return text;
}

Result<GpuFunction> emit_template(const Kernel& kernel, const CudaMachine& machine) {
  auto no_tiling = [&] {
    return common::invalid_input(cat("a kernel of ", template_name(kernel.form), " has no tiling"));
  };
  if (kernel.form == Template::kAttention) {
    if (!kernel.tiling) return no_tiling();
    return emit_cuda_attention(kernel.body, *kernel.tiling, machine.warpgroups);
  }
  if (kernel.form == Template::kTile) {
    if (!kernel.tiling) return no_tiling();
    return emit_cuda_tile(lower_structure(kernel.body, Kept::kContractions), *kernel.tiling,
                          machine);
  }
  Graph body = lower_structure(kernel.body, Kept::kNone);
  switch (kernel.form) {
    case Template::kScan:
      return kernel.tiling ? emit_cuda_scan(body, *kernel.tiling) : no_tiling();
    case Template::kScatter:
      return one_thread_a_unit(
          emit_scatter(body, {.finds_base = common::in_place_inputs(kernel)[0] >= 0}));
    case Template::kSort:
      return kernel.tiling ? emit_cuda_sort(body, *kernel.tiling) : no_tiling();
    default:
      return common::invalid_input("a kernel of loops has no nest");
  }
}

// Whether an output may be the memory of an input.
bool works_in_place(const Kernel& kernel) {
  return std::any_of(
      kernel.body.outputs.begin(), kernel.body.outputs.end(),
      [&](const auto& output) { return kernel.body.node(output.node).op == common::Op::kScatter; });
}

Result<GpuFunction> emit_function(const Kernel& kernel, const CudaMachine& machine) {
  if (kernel.form == Template::kHorizontal) return emit_cuda_horizontal(kernel);
  if (!kernel.nest) return emit_template(kernel, machine);
  Graph body = common::nest_body(kernel.body, *kernel.nest);
  LFARM_RETURN_IF_ERROR(common::verify(*kernel.nest, body));
  return common::lower_gpu_loops(body, *kernel.nest);
}

}  // namespace

CudaCodeGenerator::CudaCodeGenerator(const common::Target& target) {
  machine_.overlaps = common::launches_overlap(target.name);
  machine_.warpgroups = common::machine_of(target) == common::Machine::kGpuWarpgroups;
}

namespace {

// Arithmetic is for every kernel: it is short, and macros paste most of its names.
std::vector<SupportPart> support_parts(bool warpgroups) {
  std::vector<SupportPart> parts = {
      {cuda_support_base(), true},      {c_support_number(), true},
      {c_support_basic_math(), true},   {cuda_support_float_math(), true},
      {c_support_library_math(), true}, {c_support_philox()},
      {cuda_support_overlap()},         {cuda_support_teams()},
      {cuda_support_blocks()},          {cuda_support_sort()},
      {cuda_support_vectors()},         {cuda_support_halves()},
      {cuda_support_probabilities()},   {cuda_support_mma()}};
  if (warpgroups) {
    parts.push_back({cuda_support_wgmma()});
    parts.push_back({cuda_support_tma()});
  }
  return parts;
}

}  // namespace

std::string CudaCodeGenerator::preamble() const {
  std::string all;
  for (const SupportPart& part : support_parts(machine_.warpgroups)) all += part.text;
  return all;
}

std::string CudaCodeGenerator::preamble_for(std::string_view texts) const {
  return needed_support(support_parts(machine_.warpgroups), texts);
}

Result<KernelSource> CudaCodeGenerator::generate(const Kernel& kernel) const {
  LFARM_RETURN_IF_ERROR(common::verify(kernel.body));
  if (kernel.form == Template::kGemm) {
    return common::invalid_input("a gemm kernel is a library call and has no code");
  }
  LFARM_ASSIGN_OR_RETURN(GpuFunction function, emit_function(kernel, machine_));
  KernelSource source;
  source.entry = {entry_name(kernel), function.body.units, function.body.scratch_bytes,
                  function.block};
  source.entry.waits = machine_.overlaps;
  if (machine_.overlaps) source.prefetch_bytes = function.early_bytes;
  source.entry.starts_from_bases = works_in_place(kernel);
  source.entry.maps = function.maps;
  source.text = cat(
      prologue(source.entry.name, kernel.body, function, works_in_place(kernel), machine_.overlaps),
      function.body.text, "}\n");
  return source;
}

}  // namespace worker
