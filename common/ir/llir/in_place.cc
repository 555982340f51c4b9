#include "common/ir/llir/in_place.h"

namespace common {

std::vector<int> in_place_inputs(const Kernel& kernel) {
  std::vector<int> inputs;
  if (kernel.form != Template::kScatter && kernel.form != Template::kHorizontal) return inputs;
  const Graph& body = kernel.body;
  std::vector<int> uses = use_counts(body);
  for (const GraphOutput& output : body.outputs) {
    inputs.push_back(-1);
    const Node& result = body.node(output.node);
    if (result.op != Op::kScatter) continue;
    NodeId base = result.operands[0];
    bool is_own = body.node(base).op == Op::kInput && uses[static_cast<size_t>(base)] == 1;
    if (is_own) inputs.back() = attr<InputAttr>(body.node(base)).position;
  }
  return inputs;
}

}  // namespace common
