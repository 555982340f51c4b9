#include "coordinator/search/partition/rewrites/split_axes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/builder.h"
#include "coordinator/search/partition/rewrites/product_sum.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::Expr;
using common::ExprKind;
using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;
using common::ReduceAttr;
using common::View;
using common::ViewAttr;

bool is_reduction(const Node& node) {
  if (node.op != Op::kReduce) return false;
  common::ReduceOp op = attr<ReduceAttr>(node).op;
  return op != common::ReduceOp::kArgmax && op != common::ReduceOp::kArgmin;
}

// Part of an axis: its elements are `place` elements of the axis apart.
struct Digit {
  int64_t place = 1;
  int64_t radix = 1;
  int64_t stride = 0;  // in the memory of what is read, of the first view that was seen
};

// Axes of values that must stay alike, because elementwise operations join them.
struct AxisClass {
  bool is_open = true;            // every value of it can follow
  std::set<int64_t> places;       // where views cut it
  std::vector<Digit> digits;      // most significant first; empty: it stays whole
  std::optional<int64_t> stride;  // of an axis that stays whole beside one that is split
};

// What a node's axis number `axis` becomes: all of it, or one digit of it.
struct Part {
  int axis = 0;
  int digit = -1;
};

class Splitting {
 public:
  explicit Splitting(const Graph& graph) : graph_(graph), builder_(graph.symbols) {
    int axes = 0;
    for (const Node& node : graph.nodes) {
      first_.push_back(axes);
      axes += static_cast<int>(node.shape.size());
    }
    parent_.resize(at(axes));
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  // Empty where no axis is split.
  std::optional<Graph> run() {
    for (size_t id = 0; id < graph_.nodes.size(); ++id) join_operands(id);
    for (size_t id = 0; id < graph_.nodes.size(); ++id) look_at(id);
    for (const common::GraphOutput& output : graph_.outputs) close(at(output.node));
    bool any = false;
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (graph_.nodes[id].op == Op::kView) any |= split_by(id);
    }
    if (!any) return std::nullopt;
    inputs_ = builder_.inputs_like(graph_);
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      parts_.push_back(parts_of(id));
      copies_.push_back(copied(id));
    }
    for (const common::GraphOutput& output : graph_.outputs) {
      builder_.output_like(output, copies_[at(output.node)]);
    }
    return builder_.finish();
  }

 private:
  // ---- Which axes go together ----

  int find(int axis) {
    while (parent_[at(axis)] != axis) axis = parent_[at(axis)] = parent_[at(parent_[at(axis)])];
    return axis;
  }
  AxisClass& class_of(size_t id, int axis) { return classes_[find(first_[id] + axis)]; }

  bool follows(const Node& node) const {
    return common::is_elementwise(node.op) || is_reduction(node);
  }

  void join_operands(size_t id) {
    const Node& node = graph_.nodes[id];
    if (!follows(node)) return;
    for (NodeId operand : node.operands) {
      if (is_uniform(operand)) continue;
      std::vector<int> kept = kept_axes(node, graph_.node(operand).shape.size());
      for (size_t k = 0; k < kept.size(); ++k) {
        parent_[at(find(first_[id] + static_cast<int>(k)))] = find(first_[at(operand)] + kept[k]);
      }
    }
  }

  // Whether a view gives one element everywhere: whoever reads it has one of its own shape, so that
  // values do not have to stay alike for a constant that they share.
  bool is_uniform(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op != Op::kView || !attr<ViewAttr>(node).view.valid.empty()) return false;
    return std::ranges::none_of(attr<ViewAttr>(node).view.index,
                                [](const Expr& e) { return e.uses_index(); });
  }

  // Of an operand of this rank, the axes that the node has, in order.
  static std::vector<int> kept_axes(const Node& node, size_t rank) {
    std::vector<int> kept;
    for (int k = 0; k < static_cast<int>(rank); ++k) {
      bool is_reduced = node.op == Op::kReduce && common::contains(attr<ReduceAttr>(node).axes, k);
      if (!is_reduced) kept.push_back(k);
    }
    return kept;
  }

  void close(size_t id) {
    for (int k = 0; k < rank(id); ++k) class_of(id, k).is_open = false;
  }
  int rank(size_t id) const { return static_cast<int>(graph_.nodes[id].shape.size()); }

  // Products keep their axes, which rules know them by; so does what is neither elementwise nor a
  // reduction, and what it reads. Views can read anything and give anything.
  void look_at(size_t id) {
    const Node& node = graph_.nodes[id];
    if (node.op == Op::kView) {
      for (const Expr& e : attr<ViewAttr>(node).view.index) note_cuts(id, e);
    } else if (is_product_sum(graph_, node)) {
      const Node& product = graph_.node(node.operands[0]);
      if (product.operands[0] != product.operands[1]) close(at(node.operands[0]));
    } else if (!follows(node)) {
      close(id);
      for (NodeId operand : node.operands) close(at(operand));
    }
  }

  // Notes where an index is divided, as in (i1 // 32) % 32.
  void note_cuts(size_t id, const Expr& e) {
    for (const Expr::Term& term : e.terms()) {
      for (const Expr& atom : term.factors) {
        if (atom.kind() != ExprKind::kFloorDiv && atom.kind() != ExprKind::kMod) continue;
        auto index = atom.left().as_var();
        int64_t place = 1;
        if (!index && atom.left().kind() == ExprKind::kFloorDiv) {
          index = atom.left().left().as_var();
          if (atom.left().right().is_constant()) place = atom.left().right().constant();
        }
        if (!index || index->kind != common::Var::Kind::kIndex || !atom.right().is_constant()) {
          continue;
        }
        std::set<int64_t>& places = class_of(id, index->id).places;
        places.insert(place);
        places.insert(place * atom.right().constant());
      }
    }
  }

  // ---- Where axes are split ----

  // Splits the classes of a view's axes, if they lie in another order where it reads.
  bool split_by(size_t id) {
    const View& view = attr<ViewAttr>(graph_.nodes[id]).view;
    const size_t read = at(graph_.nodes[id].operands[0]);
    for (int k = 0; k < rank(read); ++k) {
      if (!class_of(read, k).digits.empty()) return false;  // it puts them together again
    }
    std::vector<Part> parts;
    bool any = false;
    for (int k = 0; k < rank(id); ++k) {
      AxisClass& axis = class_of(id, k);
      if (!axis.digits.empty() || axis.stride) return false;  // decided by another view
      for (int before = 0; before < k; ++before) {
        if (&class_of(id, before) == &axis) return false;  // two axes that must stay alike
      }
      std::vector<Digit> digits = digits_of(axis, view.shape[at(k)]);
      any |= !digits.empty();
      if (digits.empty()) parts.push_back({k, -1});
      for (size_t d = 0; d < digits.size(); ++d) parts.push_back({k, static_cast<int>(d)});
      trial_[k] = std::move(digits);
    }
    if (!any || !view.valid.empty()) return false;
    auto strides = strides_of(id, view, parts);
    if (!strides) return false;
    std::vector<int64_t> steps;
    std::ranges::copy_if(*strides, std::back_inserter(steps), [](int64_t s) { return s != 0; });
    if (std::ranges::is_sorted(steps, std::greater<>())) return false;
    for (size_t p = 0; p < parts.size(); ++p) {
      AxisClass& axis = class_of(id, parts[p].axis);
      if (parts[p].digit < 0) {
        axis.stride = (*strides)[p];
      } else {
        axis.digits.push_back(trial_[parts[p].axis][at(parts[p].digit)]);
        axis.digits.back().stride = (*strides)[p];
      }
    }
    return true;
  }

  // Empty where the axis stays whole.
  static std::vector<Digit> digits_of(const AxisClass& axis, const Expr& size) {
    if (!axis.is_open || axis.places.empty() || !size.is_constant()) return {};
    std::vector<Digit> digits;
    int64_t above = size.constant();
    for (auto place = axis.places.rbegin(); place != axis.places.rend(); ++place) {
      if (*place >= above) continue;
      if (*place < 1 || above % *place != 0) return {};
      digits.push_back({*place, above / *place, 0});
      above = *place;
    }
    if (above != 1) digits.push_back({1, above, 0});
    return digits.size() > 1 ? digits : std::vector<Digit>();
  }

  // By how much the parts move through what the view reads; empty where they do not step evenly.
  std::optional<std::vector<int64_t>> strides_of(size_t id, const View& view,
                                                 const std::vector<Part>& parts) {
    View split = view;
    split.shape.clear();
    std::vector<Expr> whole(view.shape.size(), Expr(0));
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto& digits = trial_[parts[p].axis];
      Expr index = Expr::index(static_cast<int>(p));
      bool is_whole = parts[p].digit < 0;
      split.shape.push_back(is_whole ? view.shape[at(parts[p].axis)]
                                     : Expr(digits[at(parts[p].digit)].radix));
      whole[at(parts[p].axis)] += is_whole ? index : index * digits[at(parts[p].digit)].place;
    }
    common::Bounds bounds = common::loop_bounds(split.shape, graph_.symbols);
    for (Expr& e : split.index) e = bounds.simplify(common::with_indices(e, whole));
    const common::Shape& operand = graph_.node(graph_.nodes[id].operands[0]).shape;
    auto steps = common::view_strides(split, operand, graph_.symbols);
    if (!steps) return std::nullopt;
    std::vector<int64_t> strides;
    for (const Expr& stride : steps->strides) {
      if (!stride.is_constant()) return std::nullopt;
      strides.push_back(stride.constant());
    }
    return strides;
  }

  // ---- The new graph ----

  // A node's axes as they lie in its copy: in the order of memory where one of them is split.
  std::vector<Part> parts_of(size_t id) {
    std::vector<Part> parts;
    std::vector<int64_t> strides;
    bool any = false;
    for (int k = 0; k < rank(id); ++k) {
      const AxisClass& axis = class_of(id, k);
      any |= !axis.digits.empty();
      if (axis.digits.empty()) {
        parts.push_back({k, -1});
        strides.push_back(axis.stride.value_or(INT64_MAX));
      }
      for (size_t d = 0; d < axis.digits.size(); ++d) {
        parts.push_back({k, static_cast<int>(d)});
        strides.push_back(axis.digits[d].stride);
      }
    }
    if (!any) return parts;
    // Axes that stay whole keep their order among each other, so that values that have no others,
    // such as means, keep theirs.
    int64_t behind = 0;
    for (size_t p = parts.size(); p-- > 0;) {
      if (parts[p].digit < 0) behind = strides[p] = std::max(strides[p], behind);
    }
    std::vector<size_t> order(parts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
    std::vector<Part> sorted;
    for (size_t p : order) sorted.push_back(parts[p]);
    return sorted;
  }

  bool is_split(size_t id) const {
    return std::ranges::any_of(parts_[id], [](const Part& part) { return part.digit >= 0; });
  }

  common::Shape shape_of(size_t id) {
    common::Shape shape;
    for (const Part& part : parts_[id]) {
      const AxisClass& axis = class_of(id, part.axis);
      shape.push_back(part.digit < 0 ? graph_.nodes[id].shape[at(part.axis)]
                                     : Expr(axis.digits[at(part.digit)].radix));
    }
    return shape;
  }

  NodeId copied(size_t id) {
    Node node = graph_.nodes[id];
    if (node.op == Op::kInput) return inputs_[at(attr<common::InputAttr>(node).position)];
    if (node.op == Op::kView) return viewed(id);
    if (is_reduction(node) && is_split(at(node.operands[0]))) return reduced(id);
    if (common::is_elementwise(node.op)) node.shape = shape_of(id);
    for (NodeId& operand : node.operands) {
      operand = common::is_elementwise(node.op) && is_uniform(operand)
                    ? uniform(operand, node.shape)
                    : copies_[at(operand)];
    }
    return builder_.raw(std::move(node));
  }

  NodeId uniform(NodeId id, const common::Shape& shape) {
    const Node& node = graph_.node(id);
    View view = attr<ViewAttr>(node).view;
    view.shape = shape;
    return builder_.view(copies_[at(node.operands[0])], view);
  }

  NodeId viewed(size_t id) {
    const Node& node = graph_.nodes[id];
    View view = attr<ViewAttr>(node).view;
    std::vector<Expr> whole(node.shape.size(), Expr(0));  // old indices by the new ones
    for (size_t p = 0; p < parts_[id].size(); ++p) {
      const Part& part = parts_[id][p];
      Expr index = Expr::index(static_cast<int>(p));
      whole[at(part.axis)] +=
          part.digit < 0 ? index : index * class_of(id, part.axis).digits[at(part.digit)].place;
    }
    view.shape = shape_of(id);
    common::Bounds bounds = common::loop_bounds(view.shape, graph_.symbols);
    for (Expr& e : view.index) e = bounds.simplify(common::with_indices(e, whole));
    for (common::Validity& each : view.valid) {
      each.value = bounds.simplify(common::with_indices(each.value, whole));
    }
    NodeId read = node.operands[0];
    std::vector<Expr> index;
    for (const Part& part : parts_[at(read)]) {
      Expr e = view.index[at(part.axis)];
      if (part.digit >= 0) {
        const auto& digits = class_of(at(read), part.axis).digits;
        e = common::floor_div(e, digits[at(part.digit)].place);
        if (part.digit > 0) e = common::mod(e, digits[at(part.digit)].radix);
      }
      index.push_back(bounds.simplify(e));
    }
    view.index = std::move(index);
    return builder_.view(widened(copies_[at(read)], view), view);
  }

  // What is computed for each of few elements and read along inner axes that it does not depend on
  // is computed along these, too: vectors then read it side by side. Changes the view.
  NodeId widened(NodeId read, View& view) {
    const size_t rank = view.shape.size();
    std::vector<char> depends(rank, 0);
    for (const Expr& e : view.index) {
      e.visit_vars([&](common::Var v) {
        if (v.kind == common::Var::Kind::kIndex) depends[at(v.id)] = 1;
      });
    }
    auto outer = std::ranges::find(depends, 1);
    bool is_repeated = outer != depends.begin() && outer != depends.end() &&
                       std::find(outer, depends.end(), 0) != depends.end();
    if (!is_repeated || !view.valid.empty()) return read;
    const auto cut = static_cast<size_t>(outer - depends.begin());
    std::vector<Expr> moved(rank, Expr(0));
    for (size_t k = cut; k < rank; ++k) moved[k] = Expr::index(static_cast<int>(k - cut));
    View inner{{}, common::with_indices(view.index, moved), {}, 0};
    inner.shape.assign(view.shape.begin() + static_cast<std::ptrdiff_t>(cut), view.shape.end());
    view.index.clear();
    for (size_t k = cut; k < rank; ++k) view.index.push_back(Expr::index(static_cast<int>(k)));
    return along(read, inner);
  }

  // The value along the view's axes: computed there as far as its sums are short.
  NodeId along(NodeId value, const View& view) {
    Node node = builder_.node(value);
    if (common::is_elementwise(node.op)) {
      node.shape = view.shape;
      for (NodeId& operand : node.operands) operand = along(operand, view);
      return builder_.raw(std::move(node));
    }
    if (!is_reduction(node) || !is_short(node)) return builder_.view(value, view);
    const common::Shape summed = builder_.shape(node.operands[0]);
    const auto& reduction = attr<ReduceAttr>(node);
    View longer{view.shape, {}, {}, 0};
    std::vector<int> axes;
    for (size_t k = 0, kept = 0; k < summed.size(); ++k) {
      if (!common::contains(reduction.axes, static_cast<int>(k))) {
        longer.index.push_back(view.index[kept++]);
        continue;
      }
      axes.push_back(static_cast<int>(longer.shape.size()));
      longer.index.push_back(Expr::index(axes.back()));
      longer.shape.push_back(summed[k]);
    }
    return builder_.reduce(reduction.op, builder_.view(node.operands[0], longer), axes);
  }

  bool is_short(const Node& reduction) const {
    constexpr int64_t kShort = 64;
    int64_t terms = 1;
    for (int axis : attr<ReduceAttr>(reduction).axes) {
      const Expr& size = builder_.node(reduction.operands[0]).shape[at(axis)];
      if (!size.is_constant() || size.constant() > kShort) return false;
      terms *= size.constant();
    }
    return terms <= kShort;
  }

  // First over the axes outside of one that stays, then over those inside: the first is a sum of
  // rows, whose vectors run along what lies side by side.
  NodeId reduced(size_t id) {
    const Node& node = graph_.nodes[id];
    const auto& reduction = attr<ReduceAttr>(node);
    const std::vector<Part>& parts = parts_[at(node.operands[0])];
    int last_kept = -1;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (!common::contains(reduction.axes, parts[p].axis)) last_kept = static_cast<int>(p);
    }
    std::vector<int> outside, inside;
    std::vector<Part> left;  // of the result, as axes of the operand
    for (size_t p = 0; p < parts.size(); ++p) {
      if (!common::contains(reduction.axes, parts[p].axis)) {
        left.push_back(parts[p]);
      } else if (static_cast<int>(p) < last_kept) {
        outside.push_back(static_cast<int>(p));
      } else {
        inside.push_back(static_cast<int>(p - outside.size()));
      }
    }
    NodeId x = copies_[at(node.operands[0])];
    if (!outside.empty()) x = builder_.reduce(reduction.op, x, outside);
    if (!inside.empty()) x = builder_.reduce(reduction.op, x, inside);
    std::vector<int> kept = kept_axes(node, at(rank(at(node.operands[0]))));
    std::vector<int> order;
    for (const Part& part : parts_[id]) {
      auto same = std::ranges::find_if(left, [&](const Part& one) {
        return one.axis == kept[at(part.axis)] && one.digit == part.digit;
      });
      order.push_back(static_cast<int>(same - left.begin()));
    }
    return builder_.permute(x, order);
  }

  const Graph& graph_;
  common::GraphBuilder builder_;
  std::vector<int> first_;                   // per node: the number of its first axis
  std::vector<int> parent_;                  // per axis: a tree of those that go together
  std::map<int, AxisClass> classes_;         // by the tree's root
  std::map<int, std::vector<Digit>> trial_;  // of the view that is looked at, by axis
  std::vector<NodeId> inputs_;
  std::vector<std::vector<Part>> parts_;  // per node
  std::vector<NodeId> copies_;            // per node
};

}  // namespace

Graph split_merged_axes(const Graph& graph) { return Splitting(graph).run().value_or(graph); }

}  // namespace coordinator
