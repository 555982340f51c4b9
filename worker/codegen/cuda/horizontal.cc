#include "worker/codegen/cuda/horizontal.h"

#include <algorithm>
#include <vector>

#include "common/base/cat.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/horizontal.h"
#include "common/ir/llir/in_place.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/loops/gpu_loops.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/body/ordered.h"
#include "worker/codegen/cuda/units.h"

namespace worker {

using common::cat;
using common::Expr;
using common::GpuFunction;
using common::Kernel;
using common::Result;

namespace {

// The number of a part's block among its own.
constexpr const char* kBlock = "block";

// `base`: the input whose content its output holds before the launch; -1: none.
Result<GpuFunction> emit_part(const Kernel& part, int base) {
  if (part.form == common::Template::kScatter && !part.nest) {
    common::Graph body = common::lower_structure(part.body, common::Kept::kNone);
    return one_thread_a_unit(emit_scatter(body, {.finds_base = base >= 0}), kBlock);
  }
  if (!part.nest) return common::invalid_input("a part of loops has no nest");
  common::Graph body = common::nest_body(part.body, *part.nest);
  LFARM_RETURN_IF_ERROR(common::verify(*part.nest, body));
  return common::lower_gpu_loops(body, *part.nest, kBlock);
}

Expr blocks_of(const GpuFunction& part) {
  return common::floor_div(part.body.units + Expr(part.block.units - 1), Expr(part.block.units));
}

// A part in braces, whose outputs have the names that a kernel of its own would give them. Its
// block has the threads that it needs; the others leave at once.
std::string part_text(const Kernel& kernel, const std::vector<size_t>& outputs,
                      const GpuFunction& function, int threads) {
  common::CodeWriter names(kernel.body.symbols);
  std::string text =
      cat("  {\n    const int64_t part_units = ", names.rare_text(function.body.units),
          ", part_blocks = (part_units + ", function.block.units - 1, ") / ", function.block.units,
          ";\n    if (block < part_blocks) {\n");
  if (function.block.threads < threads) {
    text += cat("      if (threadIdx.x >= ", function.block.threads, ") return;\n");
  }
  text += "      const int64_t units = part_units;\n";
  // Ascending, so that each is named before a declaration here takes its name.
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k] == k) continue;
    auto type =
        common::c_storage_type(kernel.body.node(kernel.body.outputs[outputs[k]].node).dtype);
    text += cat("      ", type, "* const out", k, " = out", outputs[k], ";\n");
  }
  return cat(text, function.body.text, "      return;\n    }\n    block -= part_blocks;\n  }\n");
}

// The prefetches of all parts, each for the part's own blocks.
std::string early_text(const Kernel& kernel, const std::vector<GpuFunction>& parts) {
  if (std::all_of(parts.begin(), parts.end(),
                  [](const auto& part) { return part.early.empty(); })) {
    return "";
  }
  common::CodeWriter names(kernel.body.symbols);
  std::string text = cat("  {\n  int64_t ", kBlock, " = blockIdx.x;\n");
  for (const GpuFunction& part : parts) {
    std::string blocks = names.rare_text(blocks_of(part));
    if (!part.early.empty()) {
      text +=
          cat("  if (", kBlock, " >= 0 && ", kBlock, " < ", blocks, ") {\n  ", part.early, "  }\n");
    }
    text += cat("  ", kBlock, " -= ", blocks, ";\n");
  }
  return text + "  }\n";
}

}  // namespace

Result<GpuFunction> emit_cuda_horizontal(const Kernel& kernel) {
  std::vector<GpuFunction> parts;
  std::vector<int> bases = common::in_place_inputs(kernel);
  GpuFunction result;
  result.block = {0, 1, 0};
  result.body.units = 0;
  const std::vector<std::vector<size_t>> outputs = common::horizontal_parts(kernel.body);
  for (size_t k = 0; k < outputs.size(); ++k) {
    LFARM_ASSIGN_OR_RETURN(GpuFunction part, emit_part(common::horizontal_part(kernel, outputs, k),
                                                       bases[outputs[k][0]]));
    if (part.is_split || !part.body.scratch.empty() || part.block.shared_bytes != 0) {
      return common::unsupported(cat("part ", k, " of a launch needs memory of its blocks' own"));
    }
    result.block.threads = std::max(result.block.threads, part.block.threads);
    result.body.units += blocks_of(part);
    parts.push_back(std::move(part));
  }
  result.early = early_text(kernel, parts);
  result.body.text = cat("  int64_t ", kBlock, " = blockIdx.x;\n");
  for (size_t k = 0; k < parts.size(); ++k) {
    result.body.text += part_text(kernel, outputs[k], parts[k], result.block.threads);
  }
  return result;
}

}  // namespace worker
