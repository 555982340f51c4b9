#include "common/ir/hlir/fourier_form.h"

namespace common {

bool is_kernel_length(int64_t points) {
  if (points < 1 || points > kMostKernelPoints) return false;
  for (int64_t factor : {2, 3, 5, 7}) {
    while (points % factor == 0) points /= factor;
  }
  return points == 1;
}

bool is_same_transform(const Node& a, const Node& b) {
  if (a.op != Op::kFourier || b.op != Op::kFourier) return false;
  return a.operands == b.operands && a.shape == b.shape &&
         attr<FourierAttr>(a).inverse == attr<FourierAttr>(b).inverse;
}

std::optional<FourierForm> fourier_form(const Graph& body) {
  FourierForm form;
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    if (node.op != Op::kFourier) continue;
    if (form.any() >= 0 && !is_same_transform(body.node(form.any()), node)) return std::nullopt;
    const Expr& points = body.node(node.operands[0]).shape.back();
    if (!points.is_constant() || !is_kernel_length(points.constant())) return std::nullopt;
    NodeId& part = attr<FourierAttr>(node).imaginary ? form.imaginary : form.real;
    if (part >= 0) return std::nullopt;
    part = static_cast<NodeId>(i);
  }
  if (form.any() < 0) return std::nullopt;
  return form;
}

}  // namespace common
