#include "common/ir/hlir/view.h"

#include <numeric>

#include "common/base/check.h"
#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"

namespace common {
namespace {

Expr simplify_in(const Bounds& bounds, const Expr& expr) { return bounds.simplify(expr); }

void simplify_view(View& view, const std::vector<SymbolRange>& symbols) {
  Bounds bounds = loop_bounds(view.shape, symbols);
  for (Expr& e : view.index) e = simplify_in(bounds, e);
  std::vector<Validity> kept;
  for (Validity& v : view.valid) {
    v.value = simplify_in(bounds, v.value);
    if (bounds.provably_non_negative(v.value) && bounds.provably_less(v.value, v.bound)) continue;
    if (!contains(kept, v)) kept.push_back(v);
  }
  view.valid = std::move(kept);
  if (view.valid.empty()) view.fill = 0;
}

}  // namespace

Bounds loop_bounds(const Shape& shape, const std::vector<SymbolRange>& symbols) {
  return Bounds(symbols, shape);
}

View view_identity(const Shape& input) {
  View view;
  view.shape = input;
  for (size_t k = 0; k < input.size(); ++k) view.index.push_back(Expr::index(static_cast<int>(k)));
  return view;
}

View view_permute(const Shape& input, std::span<const int> order) {
  LFARM_CHECK(order.size() == input.size(), "permute must name every axis");
  View view;
  view.index.resize(input.size());
  for (size_t k = 0; k < order.size(); ++k) {
    view.shape.push_back(input[at(order[k])]);
    view.index[at(order[k])] = Expr::index(static_cast<int>(k));
  }
  return view;
}

std::optional<View> view_expand(const Shape& input, const Shape& shape) {
  if (input.size() > shape.size()) return std::nullopt;
  View view;
  view.shape = shape;
  size_t lead = shape.size() - input.size();
  for (size_t k = 0; k < input.size(); ++k) {
    if (input[k] == shape[lead + k]) {
      view.index.push_back(input[k].is_constant(1) ? Expr(0)
                                                   : Expr::index(static_cast<int>(lead + k)));
    } else if (input[k].is_constant(1)) {
      view.index.push_back(0);
    } else {
      return std::nullopt;
    }
  }
  return view;
}

namespace {

// Reads input axes [in_begin, in_end) from output axes [out_begin, out_end) of equal element
// count, by way of the row-major position within the group.
void reshape_group(const Shape& input, size_t in_begin, size_t in_end, const Shape& shape,
                   size_t out_begin, size_t out_end, View& view) {
  Expr position = 0;
  for (size_t k = out_begin; k < out_end; ++k) {
    position = position * shape[k] + Expr::index(static_cast<int>(k));
  }
  size_t top = in_begin;  // the outermost axis needs no remainder
  while (top < in_end && input[top].is_constant(1)) ++top;
  // Without elements nothing is read, and nothing can be divided by their number.
  for (size_t k = top; k < in_end; ++k) {
    if (input[k].is_constant(0) && in_end - top > 1) return;
  }
  Expr below = 1;
  for (size_t k = in_end; k-- > top;) {
    if (input[k].is_constant(1)) continue;
    Expr quotient = floor_div(position, below);
    view.index[k] = k == top ? quotient : mod(quotient, input[k]);
    below *= input[k];
  }
}

}  // namespace

View view_reshape(const Shape& input, const Shape& shape, const Bounds& symbols) {
  View view;
  view.shape = shape;
  view.index.assign(input.size(), Expr(0));
  size_t i = 0;
  size_t o = 0;
  // Greedy groups of equal element count keep divisions local, which symbolic sizes need.
  while (i < input.size() || o < shape.size()) {
    size_t i_begin = i;
    size_t o_begin = o;
    Expr in_count = 1;
    Expr out_count = 1;
    if (i < input.size()) in_count = input[i++];
    if (o < shape.size()) out_count = shape[o++];
    while (in_count != out_count) {
      bool grow_input =
          i < input.size() &&
          (o >= shape.size() || symbols.lower(out_count - in_count) > 0 ||
           (symbols.lower(in_count - out_count) <= 0 && exact_div(out_count, in_count)));
      if (grow_input) {
        in_count *= input[i++];
      } else if (o < shape.size()) {
        out_count *= shape[o++];
      } else if (i < input.size()) {
        in_count *= input[i++];
      } else {
        break;  // counts equal only for the symbol values that occur; one group then
      }
    }
    while (i < input.size() && input[i].is_constant(1)) ++i;
    reshape_group(input, i_begin, i, shape, o_begin, o, view);
  }
  return view;
}

View view_slice(const Shape& input, int axis, const Expr& start, const Expr& length, int64_t step) {
  View view = view_identity(input);
  view.shape[at(axis)] = length;
  view.index[at(axis)] = start + Expr(step) * Expr::index(axis);
  return view;
}

View view_pad(const Shape& input, int axis, const Expr& before, const Expr& after, double fill) {
  View view = view_identity(input);
  view.shape[at(axis)] = input[at(axis)] + before + after;
  view.index[at(axis)] = Expr::index(axis) - before;
  view.valid.push_back({view.index[at(axis)], input[at(axis)]});
  view.fill = fill;
  return view;
}

View view_unsqueeze(const Shape& input, int axis) {
  View view;
  view.shape = input;
  view.shape.insert(view.shape.begin() + axis, Expr(1));
  for (int k = 0; k < static_cast<int>(input.size()); ++k) {
    view.index.push_back(Expr::index(k < axis ? k : k + 1));
  }
  return view;
}

View view_squeeze(const Shape& input, int axis) {
  View view;
  for (int k = 0; k < static_cast<int>(input.size()); ++k) {
    if (k == axis) {
      view.index.push_back(0);
    } else {
      view.index.push_back(Expr::index(static_cast<int>(view.shape.size())));
      view.shape.push_back(input[at(k)]);
    }
  }
  return view;
}

View view_unfold(const Shape& input, int axis, const Expr& count, int64_t size, int64_t step) {
  View view = view_identity(input);
  view.shape[at(axis)] = count;
  view.index[at(axis)] =
      Expr(step) * Expr::index(axis) + Expr::index(static_cast<int>(input.size()));
  view.shape.push_back(size);
  return view;
}

std::optional<View> view_compose(const View& outer, const View& inner,
                                 const std::vector<SymbolRange>& symbols) {
  if (!outer.valid.empty() && !inner.valid.empty() && outer.fill != inner.fill) return std::nullopt;
  auto through = [&](const Expr& e) { return with_indices(e, outer.index); };
  View view;
  view.shape = outer.shape;
  view.valid = outer.valid;
  view.fill = outer.valid.empty() ? inner.fill : outer.fill;
  for (const Expr& e : inner.index) view.index.push_back(through(e));
  for (const Validity& v : inner.valid) view.valid.push_back({through(v.value), through(v.bound)});
  simplify_view(view, symbols);
  return view;
}

bool view_is_identity(const View& view, const Shape& input) {
  if (!view.valid.empty() || view.shape != input) return false;
  for (size_t k = 0; k < input.size(); ++k) {
    if (input[k].is_constant(1)) continue;  // the only position is 0, however it is written
    if (view.index[k] != Expr::index(static_cast<int>(k))) return false;
  }
  return true;
}

Expr view_offset(const View& view, const Shape& input, const std::vector<SymbolRange>& symbols) {
  Expr position = 0;
  for (size_t k = 0; k < input.size(); ++k) position = position * input[k] + view.index[k];
  return loop_bounds(view.shape, symbols).simplify(position);
}

std::optional<Strided> affine_form(const Expr& expr, int rank) {
  Strided result;
  result.strides.assign(static_cast<size_t>(rank), Expr(0));
  result.offset = expr.sum_constant();
  for (const auto& term : expr.terms()) {
    std::optional<Var> index;
    Expr rest = term.coefficient;
    for (const Expr& factor : term.factors) {
      auto var = factor.as_var();
      if (var && var->kind == Var::Kind::kIndex && !index && var->id < rank) {
        index = var;
      } else if (factor.uses_index()) {
        return std::nullopt;
      } else {
        rest *= factor;
      }
    }
    (index ? result.strides[at(index->id)] : result.offset) += rest;
  }
  return result;
}

std::optional<WindowAxis> window_axis(const Expr& position, const std::vector<bool>& is_place) {
  auto affine = affine_form(position, static_cast<int>(is_place.size()));
  if (!affine || !affine->offset.is_constant()) return std::nullopt;
  WindowAxis axis;
  axis.first = affine->offset.constant();
  for (size_t k = 0; k < is_place.size(); ++k) {
    const Expr& step = affine->strides[k];
    if (step.is_constant(0)) continue;
    int& found = is_place[k] ? axis.place : axis.tap;
    if (found >= 0 || !step.is_constant() || step.constant() < 0) return std::nullopt;
    found = static_cast<int>(k);
    (is_place[k] ? axis.place_step : axis.tap_step) = step.constant();
  }
  return axis;
}

std::optional<Strided> view_strides(const View& view, const Shape& input,
                                    const std::vector<SymbolRange>& symbols) {
  return affine_form(view_offset(view, input, symbols), static_cast<int>(view.shape.size()));
}

}  // namespace common
