#include "common/ir/llir/view_inverse.h"

#include <algorithm>

namespace common {

namespace {

size_t at_index(int index) { return static_cast<size_t>(index); }

// One digit of a mixed-radix number: (i<var> // below) % size, times `weight` in the operand axis.
struct Digit {
  int var = 0;
  Expr weight = 1;
  Expr below = 1;
  Expr size;  // how many values it takes
};

std::optional<Digit> digit_of(const Expr::Term& term, const Shape& shape) {
  if (term.factors.empty()) return std::nullopt;
  Digit digit;
  digit.weight = term.coefficient;
  bool found = false;
  for (const Expr& factor : term.factors) {
    if (!factor.uses_index()) {
      digit.weight *= factor;
      continue;
    }
    if (found) return std::nullopt;
    found = true;
    Expr atom = factor;
    std::optional<Expr> modulus;
    if (atom.kind() == ExprKind::kMod) {
      modulus = atom.right();
      Expr left = atom.left();
      atom = left;
    }
    if (atom.kind() == ExprKind::kFloorDiv) {
      digit.below = atom.right();
      Expr left = atom.left();
      atom = left;
    }
    auto var = atom.as_var();
    if (!var || var->kind != Var::Kind::kIndex || digit.below.uses_index()) return std::nullopt;
    digit.var = var->id;
    if (modulus) {
      digit.size = *modulus;
    } else {
      auto rest = exact_div(shape[at_index(digit.var)], digit.below);
      if (!rest) return std::nullopt;
      digit.size = *rest;
    }
  }
  return found ? std::optional<Digit>(digit) : std::nullopt;
}

// Whether the digits, sorted by what is below them, cover exactly [0, total).
bool covers(std::vector<Digit>& digits, const Expr& total, Expr Digit::*below) {
  Expr reached = 1;
  std::vector<Digit> sorted;
  while (!digits.empty()) {
    auto next = std::find_if(digits.begin(), digits.end(),
                             [&](const Digit& d) { return d.*below == reached; });
    if (next == digits.end()) return false;
    reached = reached * next->size;
    sorted.push_back(*next);
    digits.erase(next);
  }
  digits = std::move(sorted);
  return reached == total;
}

}  // namespace

std::optional<std::vector<Expr>> invert_view(const View& view, const Shape& operand,
                                             const std::vector<Expr>& at) {
  if (!view.valid.empty()) return std::nullopt;
  std::vector<std::vector<Digit>> by_var(view.shape.size());
  std::vector<Expr> result(view.shape.size(), Expr(0));
  for (size_t axis = 0; axis < operand.size(); ++axis) {
    if (operand[axis].is_constant(1)) continue;
    const Expr& index = view.index[axis];
    if (index.sum_constant() != 0) return std::nullopt;
    std::vector<Digit> digits;
    for (const auto& term : index.terms()) {
      auto digit = digit_of(term, view.shape);
      if (!digit) return std::nullopt;
      digits.push_back(*digit);
    }
    if (!covers(digits, operand[axis], &Digit::weight)) return std::nullopt;
    for (size_t d = 0; d < digits.size(); ++d) {
      Expr value = floor_div(at[axis], digits[d].weight);
      if (d + 1 != digits.size()) value = mod(value, digits[d].size);
      result[at_index(digits[d].var)] += value * digits[d].below;
      by_var[at_index(digits[d].var)].push_back(digits[d]);
    }
  }
  for (size_t v = 0; v < by_var.size(); ++v) {
    if (by_var[v].empty() && view.shape[v].is_constant(1)) continue;
    if (!covers(by_var[v], view.shape[v], &Digit::below)) return std::nullopt;
  }
  return result;
}

std::optional<BorderedView> bordered_view(const View& view, const Shape& operand) {
  if (view.valid.empty()) return std::nullopt;
  BorderedView result{view, std::vector<Expr>(view.shape.size(), Expr(0)), 0};
  result.inner.valid.clear();
  for (const Validity& v : view.valid) {
    const auto found = std::find(view.index.begin(), view.index.end(), v.value);
    if (found == view.index.end()) return std::nullopt;
    const size_t axis = static_cast<size_t>(found - view.index.begin());
    const Expr before(-v.value.sum_constant());
    const auto var = (v.value + before).as_var();
    if (v.bound != operand[axis] || !var || var->kind != Var::Kind::kIndex) return std::nullopt;
    const size_t own = at_index(var->id);
    const Expr after = view.shape[own] - before - operand[axis];
    const bool is_around = before.is_constant() && before.constant() >= 0 && after.is_constant() &&
                           after.constant() >= 0;
    if (!is_around || result.inner.shape[own] != view.shape[own]) return std::nullopt;
    result.before[own] = before;
    result.inner.shape[own] = operand[axis];
    result.inner.index[axis] = Expr::var(*var);
    result.axes = std::max(result.axes, own + 1);
  }
  return result;
}

namespace {

std::optional<std::vector<Expr>> place_in_border(const View& view, const Shape& operand,
                                                 const std::vector<Expr>& at) {
  auto bordered = bordered_view(view, operand);
  if (!bordered) return std::nullopt;
  auto place = invert_view(bordered->inner, operand, at);
  for (size_t k = 0; place && k < place->size(); ++k) (*place)[k] += bordered->before[k];
  return place;
}

}  // namespace

std::optional<std::vector<Expr>> flow_forward(const Graph& graph, NodeId source, NodeId output,
                                              const std::vector<Expr>& at, bool into_border) {
  std::vector<std::optional<std::vector<Expr>>> reached(graph.nodes.size());
  reached[at_index(source)] = at;
  for (size_t id = at_index(source) + 1; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    for (NodeId operand : node.operands) {
      const auto& indices = reached[at_index(operand)];
      if (!indices) continue;
      switch (node.op) {
        case Op::kView:
          reached[id] = invert_view(attr<ViewAttr>(node).view, graph.node(operand).shape, *indices);
          if (!reached[id] && into_border && id == at_index(output)) {
            reached[id] =
                place_in_border(attr<ViewAttr>(node).view, graph.node(operand).shape, *indices);
          }
          break;
        case Op::kCast:
        case Op::kUnary:
        case Op::kBinary:
        case Op::kSelect:
        case Op::kPhilox:
          reached[id] = indices;
          break;
        default:
          break;
      }
      if (reached[id]) break;
    }
  }
  return reached[at_index(output)];
}

}  // namespace common
