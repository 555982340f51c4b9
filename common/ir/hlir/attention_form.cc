#include "common/ir/hlir/attention_form.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/builder.h"

namespace common {
namespace {

using Indices = std::vector<Expr>;

// Rows of keys, values and results live in registers and small arrays.
constexpr int64_t kWidthMax = 1024;
// Bodies are small; what is larger than this is no attention.
constexpr size_t kVisitsMax = 2000;

bool is_elementwise(const Node& node) {
  return node.op == Op::kUnary || node.op == Op::kBinary || node.op == Op::kSelect ||
         node.op == Op::kCast;
}

bool is_plain_view(const Node& node) {
  return node.op == Op::kView && attr<ViewAttr>(node).view.valid.empty();
}

Indices through(const View& view, const Indices& indices,
                const std::function<Expr(const Expr&)>& simplify) {
  Indices result;
  result.reserve(view.index.size());
  for (const Expr& e : view.index) result.push_back(simplify(with_indices(e, indices)));
  return result;
}

// A value that the kernel would compute, at the indices where it is needed.
using Demand = std::pair<NodeId, Indices>;

class Finder {
 public:
  Finder(const Graph& graph, NodeId product, const std::function<bool(NodeId)>& is_stored)
      : graph_(graph), is_stored_(is_stored) {
    form_.product = product;
  }

  std::optional<AttentionForm> find() {
    if (!label_product()) return std::nullopt;
    const Node& product = graph_.node(form_.product);
    for (int side : {0, 1}) {
      form_.probabilities = side;
      const auto& c = attr<ContractAttr>(product);
      if (!sort_labels(side == 0 ? c.a : c.b, side == 0 ? c.b : c.a, c.out)) continue;
      NodeId operand = product.operands[at(side)];
      Indices indices = label_indices(side == 0 ? c.a : c.b);
      auto found = demands(operand, indices, Op::kSoftmax);
      if (found.size() != 1 || !take_softmax(found[0])) continue;
      if (!take_scores(found[0].second)) continue;
      share_rows();
      return finish(operand, indices);
    }
    return std::nullopt;
  }

 private:
  // ---- labels
  bool label_product() {
    const Node& product = graph_.node(form_.product);
    if (product.op != Op::kContract) return false;
    const auto& c = attr<ContractAttr>(product);
    for (const auto* labels : {&c.a, &c.b}) {
      const Shape& shape = graph_.node(product.operands[labels == &c.a ? 0 : 1]).shape;
      for (size_t k = 0; k < labels->size(); ++k) {
        size_t label = at((*labels)[k]);
        if (label >= form_.label_size.size()) form_.label_size.resize(label + 1, Expr(1));
        form_.label_size[label] = shape[k];
      }
    }
    extents_ = form_.label_size;
    bounds_ = Bounds(graph_.symbols, extents_);
    return true;
  }

  // By role, if `p` labels the probabilities and `v` the values.
  bool sort_labels(const std::vector<int>& p, const std::vector<int>& v,
                   const std::vector<int>& out) {
    form_.batch.clear();
    form_.rows.clear();
    form_.columns.clear();
    for (int label : out) {
      bool in_p = contains(p, label);
      (in_p && contains(v, label) ? form_.batch
       : in_p                     ? form_.rows
                                  : form_.columns)
          .push_back(label);
    }
    int summed = 0;
    for (const auto* labels : {&p, &v}) {
      for (int label : *labels) {
        if (contains(out, label)) continue;
        if (!contains(p, label) || !contains(v, label)) return false;
        form_.key = label;
        ++summed;
      }
    }
    return summed == 2 && is_small(form_.size(form_.columns));
  }

  static bool is_small(const Expr& size) {
    return size.is_constant() && size.constant() >= 1 && size.constant() <= kWidthMax;
  }

  Indices label_indices(const std::vector<int>& labels) const {
    Indices indices;
    for (int label : labels) indices.push_back(bounds_.simplify(Expr::index(label)));
    return indices;
  }
  Expr key_index() const { return bounds_.simplify(Expr::index(form_.key)); }
  bool uses_key(const Expr& e) const { return e.uses({Var::Kind::kIndex, form_.key}); }

  // ---- walking
  bool is_read(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op == Op::kInput || node.op == Op::kConstant || node.op == Op::kIota ||
           (node.op != Op::kView && is_stored_(id));
  }

  Indices inside(const Node& view, const Indices& indices) const {
    return through(attr<ViewAttr>(view).view, indices,
                   [this](const Expr& e) { return bounds_.simplify(e); });
  }

  // All demands for nodes of operation `op` below elementwise nodes and plain views.
  std::vector<Demand> demands(NodeId from, const Indices& indices, Op op) {
    std::vector<Demand> found;
    std::set<Demand> seen;
    std::vector<Demand> open{{from, indices}};
    while (!open.empty() && seen.size() < kVisitsMax) {
      Demand demand = std::move(open.back());
      open.pop_back();
      if (is_read(demand.first) || !seen.insert(demand).second) continue;
      const Node& node = graph_.node(demand.first);
      if (node.op == op) {
        found.push_back(demand);
      } else if (is_plain_view(node)) {
        open.emplace_back(node.operands[0], inside(node, demand.second));
      } else if (is_elementwise(node)) {
        for (NodeId operand : node.operands) open.emplace_back(operand, demand.second);
      }
    }
    return found;
  }

  // The loop indices that the value depends on. Obstacles are noted: they would be read at the
  // indices where they are needed.
  std::set<int> dependencies(NodeId id, const Indices& indices) {
    Demand demand{id, indices};
    if (auto it = known_.find(demand); it != known_.end()) return it->second;
    std::set<int> result;
    auto note = [&](const Expr& e) {
      e.visit_vars([&](Var v) {
        if (v.kind == Var::Kind::kIndex) result.insert(v.id);
      });
    };
    const Node& node = graph_.node(id);
    bool uniform = node.op == Op::kConstant && uniform_constant(node).has_value();
    if (id == form_.softmax || id == form_.scores || form_.greatest == id) {
      for (const Expr& e : indices) note(e);
    } else if (is_read(id)) {
      if (!uniform) {
        for (const Expr& e : indices) note(e);
      }
    } else if (node.op == Op::kView) {
      for (const Validity& v : attr<ViewAttr>(node).view.valid) {
        note(bounds_.simplify(with_indices(v.value, indices)));
        note(bounds_.simplify(with_indices(v.bound, indices)));
      }
      result.merge(dependencies(node.operands[0], inside(node, indices)));
    } else if (is_elementwise(node)) {
      for (NodeId operand : node.operands) result.merge(dependencies(operand, indices));
    } else if (node.op == Op::kGather && reads_stored(node.operands[0])) {
      for (const Coordinate& c : attr<GatherAttr>(node).coordinates) {
        if (c.slot < 0) note(bounds_.simplify(with_indices(c.expr, indices)));
      }
      for (size_t k = 1; k < node.operands.size(); ++k) {
        result.merge(dependencies(node.operands[k], indices));
      }
    } else {
      if (!contains(form_.obstacles, id)) form_.obstacles.push_back(id);
      for (const Expr& e : indices) note(e);
    }
    known_[demand] = result;
    return result;
  }

  bool reads_stored(NodeId id) const {
    while (graph_.node(id).op == Op::kView) id = graph_.node(id).operands[0];
    return is_read(id);
  }

  // ---- the parts
  bool take_softmax(const Demand& found) {
    const Node& node = graph_.node(found.first);
    const auto& softmax = attr<SoftmaxAttr>(node);
    if (softmax.log || node.dtype != graph_.node(form_.product).dtype) return false;
    for (size_t k = 0; k < found.second.size(); ++k) {
      bool is_axis = static_cast<int>(k) == softmax.axis;
      if (is_axis ? found.second[k] != key_index() : uses_key(found.second[k])) return false;
    }
    if (node.shape[at(softmax.axis)] != form_.label_size[at(form_.key)]) return false;
    form_.softmax = found.first;
    return true;
  }

  // The contraction of rows with keys; another one is an obstacle.
  bool take_scores(const Indices& row) {
    row_ = row;
    NodeId exponents = graph_.node(form_.softmax).operands[0];
    auto found = demands(exponents, row, Op::kContract);
    for (const Demand& demand : found) {
      bool once = std::count_if(found.begin(), found.end(), [&](const Demand& other) {
                    return other.first == demand.first;
                  }) == 1;
      if (once && fits_scores(demand)) return true;
    }
    return false;
  }

  bool fits_scores(const Demand& demand) {
    const Node& node = graph_.node(demand.first);
    if (node.dtype != graph_.node(form_.softmax).dtype) return false;
    const auto& c = attr<ContractAttr>(node);
    // Depth labels become loop indices of their own.
    std::map<int, Expr> index;
    for (size_t k = 0; k < c.out.size(); ++k) index[c.out[k]] = demand.second[k];
    extents_ = form_.label_size;
    Expr depth = 1;
    for (size_t k = 0; k < c.a.size(); ++k) {
      if (index.count(c.a[k]) != 0) continue;
      if (!contains(c.b, c.a[k])) return false;
      index[c.a[k]] = Expr::index(static_cast<int>(extents_.size()));
      extents_.push_back(graph_.node(node.operands[0]).shape[k]);
      depth *= extents_.back();
    }
    for (int label : c.b) {
      if (index.count(label) == 0) return false;
    }
    if (!is_small(depth)) return false;
    bounds_ = Bounds(graph_.symbols, extents_);
    known_.clear();
    form_.obstacles.clear();
    form_.scores = demand.first;
    std::set<int> used[2];
    for (int side : {0, 1}) {
      Indices indices;
      for (int label : side == 0 ? c.a : c.b) indices.push_back(bounds_.simplify(index[label]));
      used[side] = dependencies(node.operands[at(side)], indices);
    }
    form_.queries = used[0].count(form_.key) != 0 ? 1 : 0;
    if (used[form_.queries].count(form_.key) != 0) return false;
    key_uses_ = used[1 - form_.queries];
    return true;
  }

  // Rows that have keys of their own share nothing.
  void share_rows() {
    std::vector<int> rows;
    for (int label : form_.rows) {
      if (key_uses_.count(label) == 0) rows.push_back(label);
    }
    std::vector<int> batch;
    for (int label : attr<ContractAttr>(graph_.node(form_.product)).out) {
      if (!contains(rows, label) && !contains(form_.columns, label)) batch.push_back(label);
    }
    form_.rows = std::move(rows);
    form_.batch = std::move(batch);
  }

  // The maximum along the row of what the softmax takes, wherever it is handed back to the row.
  void find_greatest(NodeId from, const Indices& indices) {
    const Node& softmax = graph_.node(form_.softmax);
    int axis = attr<SoftmaxAttr>(softmax).axis;
    Indices wanted = row_;
    wanted.erase(wanted.begin() + axis);
    std::optional<NodeId> found;
    for (const Demand& demand : demands(from, indices, Op::kReduce)) {
      const Node& node = graph_.node(demand.first);
      const auto& reduce = attr<ReduceAttr>(node);
      if (reduce.op == ReduceOp::kMax && reduce.axes == std::vector<int>{axis} &&
          node.operands[0] == softmax.operands[0] && demand.second == wanted) {
        found = demand.first;
      }
    }
    form_.greatest = found;
  }

  std::optional<AttentionForm> finish(NodeId probabilities, const Indices& indices) {
    const Node& product = graph_.node(form_.product);
    find_greatest(probabilities, indices);
    NodeId exponents = graph_.node(form_.softmax).operands[0];
    dependencies(exponents, row_);
    dependencies(probabilities, indices);
    const auto& c = attr<ContractAttr>(product);
    NodeId values = product.operands[at(1 - form_.probabilities)];
    dependencies(values, label_indices(form_.probabilities == 0 ? c.b : c.a));
    form_.weights.scales_rows = scales_rows(probabilities, indices, nullptr);
    if (!form_.weights.scales_rows) find_rounding(probabilities, indices);
    form_.weights.keeps_zero = form_.weights.scales_rows || keeps_zero(probabilities);
    note_hidden(exponents, row_);
    note_members();
    note_masks(exponents);
    return std::move(form_);
  }

  bool depends_on_key(NodeId id, const Indices& indices) {
    return dependencies(id, indices).count(form_.key) != 0;
  }

  std::optional<double> uniform(NodeId id) const {
    while (is_plain_view(graph_.node(id))) id = graph_.node(id).operands[0];
    const Node& node = graph_.node(id);
    return node.op == Op::kConstant ? uniform_constant(node) : std::nullopt;
  }

  // `rounded`: the types that casts on the way round to are added, if it is given; else no cast may
  // be on the way.
  bool scales_rows(NodeId id, const Indices& indices, std::set<DType>* rounded) {
    const Node& node = graph_.node(id);
    if (id == form_.softmax) return true;
    if (is_plain_view(node)) return scales_rows(node.operands[0], inside(node, indices), rounded);
    if (node.op == Op::kCast && rounded != nullptr) {
      const Node& operand = graph_.node(node.operands[0]);
      if (!is_float(node.dtype) || !is_float(operand.dtype)) return false;
      if (dtype_size(node.dtype) < dtype_size(operand.dtype)) rounded->insert(node.dtype);
      return scales_rows(node.operands[0], indices, rounded);
    }
    if (node.op == Op::kSelect && !depends_on_key(node.operands[0], indices)) {
      auto linear = [&](NodeId operand) {
        return uniform(operand) == 0.0 || scales_rows(operand, indices, rounded);
      };
      return linear(node.operands[1]) && linear(node.operands[2]);
    }
    return false;
  }

  void find_rounding(NodeId probabilities, const Indices& indices) {
    std::set<DType> rounded;
    if (!scales_rows(probabilities, indices, &rounded)) return;
    if (rounded.size() == 1 && is_half(*rounded.begin()))
      form_.weights.rounds_to = *rounded.begin();
  }

  bool keeps_zero(NodeId id) const {
    const Node& node = graph_.node(id);
    if (id == form_.softmax || uniform(id) == 0.0) return true;
    if (is_plain_view(node) || node.op == Op::kCast) {
      return is_float(node.dtype) && keeps_zero(node.operands[0]);
    }
    if (node.op == Op::kSelect) return keeps_zero(node.operands[1]) && keeps_zero(node.operands[2]);
    return false;
  }

  // ---- what positions alone hide
  std::optional<Expr> whole_number(NodeId id, const Indices& indices) const {
    const Node& node = graph_.node(id);
    if (!is_integer(node.dtype)) return std::nullopt;
    if (node.op == Op::kIota) return indices[0];
    if (node.op == Op::kConstant) {
      auto value = uniform_constant(node);
      if (!value || std::abs(*value) > 1e15) return std::nullopt;
      return Expr(static_cast<int64_t>(*value));
    }
    if (is_plain_view(node)) return whole_number(node.operands[0], inside(node, indices));
    if (node.op != Op::kBinary || node.dtype != DType::kInt64 || is_read(id)) return std::nullopt;
    BinaryOp op = attr<BinaryAttr>(node).op;
    if (op != BinaryOp::kAdd && op != BinaryOp::kSub) return std::nullopt;
    auto a = whole_number(node.operands[0], indices);
    auto b = whole_number(node.operands[1], indices);
    if (!a || !b) return std::nullopt;
    return bounds_.simplify(op == BinaryOp::kAdd ? *a + *b : *a - *b);
  }

  // Where the key is visible, the expression is not negative. Whether a limit says so.
  bool note_limit(const Expr& e) {
    Expr step = e.substitute([&](Var v) -> Expr {
      bool is_key = v.kind == Var::Kind::kIndex && v.id == form_.key;
      return is_key ? Expr::var(v) + 1 : Expr::var(v);
    });
    Expr slope = step - e;
    Expr key = Expr::index(form_.key);
    bool is_first = slope.is_constant(1) && !uses_key(e - key);
    bool is_last = slope.is_constant(-1) && !uses_key(e + key);
    if (is_first) form_.hidden.first.push_back(key - e);
    if (is_last) form_.hidden.last.push_back(e + key);
    return is_first || is_last;
  }

  // What follows from the condition being `holds`. Whether nothing else does.
  bool note_condition(NodeId id, const Indices& indices, bool holds) {
    const Node& node = graph_.node(id);
    if (auto known = uniform(id)) return (*known != 0) == holds;
    if (is_read(id)) return false;
    if (is_plain_view(node)) return note_condition(node.operands[0], inside(node, indices), holds);
    if (node.op == Op::kUnary && attr<UnaryAttr>(node).op == UnaryOp::kNot) {
      return note_condition(node.operands[0], indices, !holds);
    }
    if (node.op != Op::kBinary) return false;
    BinaryOp op = attr<BinaryAttr>(node).op;
    if (op == (holds ? BinaryOp::kAnd : BinaryOp::kOr)) {
      bool first = note_condition(node.operands[0], indices, holds);
      return note_condition(node.operands[1], indices, holds) && first;
    }
    if (op != BinaryOp::kLess && op != BinaryOp::kLessEqual && op != BinaryOp::kEqual) return false;
    auto a = whole_number(node.operands[0], indices);
    auto b = whole_number(node.operands[1], indices);
    if (!a || !b || (op == BinaryOp::kEqual && !holds)) return false;
    Expr strict = op == BinaryOp::kLess ? 1 : 0;
    bool is_limit = note_limit(holds ? *b - *a - strict : *a - *b - (Expr(1) - strict));
    if (op == BinaryOp::kEqual) is_limit = note_limit(*a - *b) && is_limit;
    return is_limit;
  }

  // The node hides keys by its position alone, wherever it is needed.
  void note_position(NodeId id, bool is_exact) {
    auto [it, is_new] = positional_.emplace(id, is_exact);
    it->second = it->second && is_exact;
  }

  // Between floats: what is hidden is as low, or infinite, in any of them.
  bool is_rounding(const Node& node) const {
    return node.op == Op::kCast && is_float(node.dtype) &&
           is_float(graph_.node(node.operands[0]).dtype);
  }

  void note_hidden(NodeId id, const Indices& indices) {
    const Node& node = graph_.node(id);
    if (id == form_.scores || is_read(id)) return;
    if (is_plain_view(node)) note_hidden(node.operands[0], inside(node, indices));
    if (is_rounding(node)) note_hidden(node.operands[0], indices);
    if (node.op == Op::kBinary && attr<BinaryAttr>(node).op == BinaryOp::kAdd) {
      for (NodeId operand : node.operands) {
        if (auto is_exact = note_added(operand, indices)) note_position(operand, *is_exact);
      }
    }
    if (node.op != Op::kSelect) return;
    for (int side : {1, 2}) {
      if (uniform(node.operands[at(side)]) != -HUGE_VAL) continue;
      note_position(node.operands[0], note_condition(node.operands[0], indices, side == 2));
      note_hidden(node.operands[at(3 - side)], indices);
    }
  }

  // A mask that adds to a score so little that nothing of it remains, or nothing: it hides a key
  // from every row that sees another. Whether positions say all of it; empty where there are none.
  std::optional<bool> note_added(NodeId id, const Indices& indices) {
    const Node& node = graph_.node(id);
    if (is_read(id)) return std::nullopt;
    if (is_plain_view(node)) return note_added(node.operands[0], inside(node, indices));
    if (is_rounding(node)) return note_added(node.operands[0], indices);
    if (node.op != Op::kSelect) return std::nullopt;
    for (int side : {1, 2}) {
      auto hidden = uniform(node.operands[at(side)]);
      if (!hidden || *hidden > AttentionForm::kHiddenScore ||
          uniform(node.operands[at(3 - side)]) != 0.0)
        continue;
      std::vector<Expr> first = form_.hidden.first, last = form_.hidden.last;
      bool is_exact = note_condition(node.operands[0], indices, side == 2);
      if (every_row_sees_a_key()) return is_exact;
      form_.hidden.first = std::move(first);
      form_.hidden.last = std::move(last);
    }
    return std::nullopt;
  }

  bool every_row_sees_a_key() const {
    const Expr& keys = form_.label_size[at(form_.key)];
    auto holds = [&](const Expr& e) { return bounds_.provably_non_negative(e); };
    for (const Expr& first : form_.hidden.first) {
      if (!holds(keys - 1 - first)) return false;
      for (const Expr& last : form_.hidden.last) {
        if (!holds(last - first)) return false;
      }
    }
    return std::all_of(form_.hidden.last.begin(), form_.hidden.last.end(), holds);
  }

  bool is_positional(NodeId id) const {
    auto known = positional_.find(id);
    return known != positional_.end() && known->second;
  }

  bool holds_scores(NodeId id) const {
    while (is_plain_view(graph_.node(id))) id = graph_.node(id).operands[0];
    return contains(form_.members, id);
  }

  // From the softmax down, as long as what hides a key is not changed any more.
  void note_masks(NodeId id) {
    const Node& node = graph_.node(id);
    if (id == form_.scores || is_read(id)) return;
    if (is_plain_view(node) || node.op == Op::kCast) return note_masks(node.operands[0]);
    if (node.op == Op::kBinary && attr<BinaryAttr>(node).op == BinaryOp::kAdd) {
      for (size_t side : {0, 1}) {
        NodeId mask = node.operands[side], scores = node.operands[1 - side];
        if (holds_scores(mask) || !holds_scores(scores) || uniform(mask)) continue;
        form_.hidden.masks.push_back({mask, true, false, is_positional(mask)});
        note_masks(scores);
      }
    }
    if (node.op != Op::kSelect || holds_scores(node.operands[0])) return;
    for (int side : {1, 2}) {
      if (uniform(node.operands[at(side)]) != -HUGE_VAL) continue;
      NodeId condition = node.operands[0];
      form_.hidden.masks.push_back({condition, false, side == 1, is_positional(condition)});
      note_masks(node.operands[at(3 - side)]);
    }
  }

  // What holds the scores, from the product down.
  void note_members() {
    std::map<NodeId, bool> holds;
    std::function<bool(NodeId)> visit = [&](NodeId id) {
      if (id == form_.scores) return true;
      if (auto it = holds.find(id); it != holds.end()) return it->second;
      const Node& node = graph_.node(id);
      bool inside = id == form_.softmax || id == form_.greatest || id == form_.product ||
                    is_plain_view(node) || (is_elementwise(node) && !is_read(id));
      bool result = false;
      if (inside) {
        for (NodeId operand : node.operands) result = visit(operand) || result;
      }
      if (result && node.op != Op::kView) form_.members.push_back(id);
      return holds[id] = result;
    };
    visit(form_.product);
    form_.members.push_back(form_.scores);
  }

  const Graph& graph_;
  const std::function<bool(NodeId)>& is_stored_;
  AttentionForm form_;
  std::vector<Expr> extents_;  // of the labels, then of the depth's
  Bounds bounds_;
  Indices row_;  // where the softmax is needed
  std::set<int> key_uses_;
  std::map<NodeId, bool> positional_;  // whether limits say all that a mask hides
  std::map<Demand, std::set<int>> known_;
};

}  // namespace

Expr AttentionForm::size(const std::vector<int>& labels) const {
  Expr result = 1;
  for (int label : labels) result *= label_size[at(label)];
  return result;
}

std::optional<AttentionForm> attention_form(const Graph& graph, NodeId product,
                                            const std::function<bool(NodeId)>& is_stored) {
  DType dtype = graph.node(product).dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return std::nullopt;
  return Finder(graph, product, is_stored).find();
}

std::optional<AttentionForm> attention_form(const Graph& body) {
  auto nothing = [](NodeId) { return false; };
  std::optional<AttentionForm> found;
  int contractions = 0;
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    if (body.nodes[id].op != Op::kContract) continue;
    ++contractions;
    auto form = attention_form(body, static_cast<NodeId>(id), nothing);
    if (form && form->obstacles.empty()) found = std::move(form);
  }
  return contractions == 2 ? found : std::nullopt;
}

std::optional<std::vector<Expr>> demanded_at(const Graph& graph, NodeId from, std::vector<Expr> at,
                                             NodeId target,
                                             const std::function<Expr(const Expr&)>& simplify) {
  for (Expr& e : at) e = simplify(e);
  if (from == target) return at;
  const Node& node = graph.node(from);
  if (is_plain_view(node)) {
    return demanded_at(graph, node.operands[0], through(attr<ViewAttr>(node).view, at, simplify),
                       target, simplify);
  }
  if (!is_elementwise(node)) return std::nullopt;
  for (NodeId operand : node.operands) {
    if (auto found = demanded_at(graph, operand, at, target, simplify)) return found;
  }
  return std::nullopt;
}

}  // namespace common
