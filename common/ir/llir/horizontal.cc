#include "common/ir/llir/horizontal.h"

#include "common/base/cat.h"
#include "common/ir/llir/in_place.h"

namespace common {

bool can_be_part(const Kernel& kernel) {
  return kernel.body.outputs.size() == 1 &&
         (kernel.form == Template::kLoops || kernel.form == Template::kScatter);
}

Kernel horizontal_part(const Kernel& kernel, size_t part) {
  Kernel result;
  Graph body = kernel.body;
  body.outputs = {kernel.body.outputs[part]};
  result.body = without_dead_nodes(body);
  bool scatters = result.body.node(result.body.outputs[0].node).op == Op::kScatter;
  result.form = scatters ? Template::kScatter : Template::kLoops;
  if (part < kernel.part_nests.size() && !kernel.part_nests[part].groups.empty()) {
    result.nest = kernel.part_nests[part];
  }
  return result;
}

Status verify_horizontal(const Kernel& kernel) {
  size_t parts = kernel.body.outputs.size();
  if (kernel.form != Template::kHorizontal) {
    if (kernel.part_nests.empty()) return {};
    return invalid_input("nests of parts in a kernel that has none");
  }
  if (parts < 2 || parts > kHorizontalPartsMax) {
    return invalid_input(cat("a horizontal kernel of ", parts, " parts"));
  }
  if (kernel.nest) return invalid_input("a horizontal kernel's nests are its parts'");
  if (kernel.part_nests.empty()) return {};
  if (kernel.part_nests.size() != parts) return invalid_input("nests for some parts alone");
  for (size_t k = 0; k < parts; ++k) {
    Kernel part = horizontal_part(kernel, k);
    bool scatters = part.form == Template::kScatter;
    if (scatters && !part.nest) continue;
    if (scatters && !is_looped_scatter(kernel, k)) {
      return invalid_input(cat("part ", k, ": this scatter has no loops"));
    }
    if (!part.nest) return invalid_input(cat("part ", k, " has no nest"));
    Status nest = verify(*part.nest, nest_body(part.body, *part.nest));
    if (!nest.ok()) return invalid_input(cat("the nest of part ", k, ": ", nest.error().message));
    if (part.nest->is_epilogue || part.nest->threads.blocks > 1) {
      return invalid_input(cat("part ", k, " leaves sums to other blocks"));
    }
  }
  return {};
}

}  // namespace common
