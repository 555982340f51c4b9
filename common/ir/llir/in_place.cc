#include "common/ir/llir/in_place.h"

#include "common/ir/llir/scatter_form.h"

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

bool is_looped_scatter(const Kernel& kernel, size_t output) {
  const Node& scatter = kernel.body.node(kernel.body.outputs[output].node);
  if (scatter.op != Op::kScatter || attr<ScatterAttr>(scatter).mode != ScatterMode::kAssign) {
    return false;
  }
  std::vector<int> bases = in_place_inputs(kernel);
  return output < bases.size() && bases[output] >= 0 && has_distinct_places(kernel.body, scatter);
}

}  // namespace common
