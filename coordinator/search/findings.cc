#include "coordinator/search/findings.h"

#include <algorithm>
#include <cmath>

#include "common/ir/graph_hash.h"

namespace coordinator {

common::Digest region_key(const common::Graph& region, const common::Target& target,
                          const std::string& policy) {
  common::PlanKey key{common::graph_hash(region), target, policy,
                      std::string(common::kCompilerEpoch)};
  return common::Hasher().text("region").digest(key.digest()).finish();
}

common::Digest kernel_key(common::Template form, const common::Digest& body,
                          const common::Target& target) {
  return common::Hasher()
      .text("kernel")
      .u64(static_cast<uint64_t>(form))
      .digest(body)
      .text(target.name)
      .text(common::kCompilerEpoch)
      .finish();
}

// Equal keys say that the region is the same but for the numbers of its symbols; inputs of the same
// shapes say that those are, too, because a region's inputs show all the symbols that it uses.
bool fits(const Finding& finding, const common::Graph& region) {
  const common::Program& program = finding.program;
  bool is_alike = std::isfinite(finding.ns) && finding.ns >= 0 && !program.calls.empty() &&
                  program.symbols == region.symbols &&
                  program.inputs.size() == region.inputs.size() &&
                  program.outputs.size() == region.outputs.size() && common::verify(program).ok();
  if (!is_alike) return false;
  for (size_t k = 0; k < region.inputs.size(); ++k) {
    const common::GraphInput &a = program.inputs[k], &b = region.inputs[k];
    if (a.kind != b.kind || a.dtype != b.dtype || a.shape != b.shape) return false;
  }
  return std::all_of(program.buffers.begin(), program.buffers.end(),
                     [&](const common::Buffer& buffer) {
                       if (buffer.kind != common::BufferKind::kOutput) return true;
                       const common::Node& node =
                           region.node(region.outputs[static_cast<size_t>(buffer.position)].node);
                       return buffer.dtype == node.dtype && buffer.shape == node.shape;
                     });
}

}  // namespace coordinator
