// Contractions: any sum of products is an einsum over views of its operands, which covers matmul in
// every layout, batched and grouped forms, outer products and convolution (through its unfolding).
#include "coordinator/rules/contraction.h"

#include <algorithm>

#include "common/base/contains.h"
#include "common/ir/hlir/gemm_form.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::contains;
using common::ContractAttr;
using common::DType;
using common::Expr;
using common::Node;
using common::Op;
using common::ReduceAttr;
using common::Shape;
using common::Var;
using common::View;
using common::ViewAttr;

std::optional<ClassId> contraction_of(Rewriter& r, const Node& reduce, ClassId a, ClassId b) {
  DType dtype = r.dtype(a);
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return std::nullopt;
  const auto& axes = attr<ReduceAttr>(reduce).axes;
  Factor fa = make_factor(r, a);
  Factor fb = make_factor(r, b);
  std::vector<int> out;
  Shape shape;
  View back;  // axes that no factor depends on come back after the contraction
  back.shape = reduce.shape;
  bool has_free_axis = false;  // without one it is a plain reduction
  bool has_sum = false;
  int kept = 0;
  for (int axis = 0; axis < static_cast<int>(r.shape(a).size()); ++axis) {
    const Expr& extent = r.shape(a)[static_cast<size_t>(axis)];
    bool in_a = contains(fa.labels, axis);
    bool in_b = contains(fb.labels, axis);
    if (contains(axes, axis)) {
      if (in_a != in_b || (!in_a && !extent.is_constant(1))) return std::nullopt;
      has_sum = has_sum || in_a;
      continue;
    }
    if (in_a || in_b) {
      has_free_axis = has_free_axis || in_a != in_b;
      out.push_back(axis);
      shape.push_back(extent);
      back.index.push_back(Expr::index(kept));
    }
    ++kept;
  }
  if (!has_free_axis || !has_sum) return std::nullopt;
  return r.view(contract(r, dtype, fa, fb, std::move(out), std::move(shape)), back);
}

// A number by which all of an operand is multiplied, and the operand without it.
struct Scaled {
  ClassId cls;
  double factor;
};
std::optional<Scaled> scaled(Rewriter& r, ClassId cls) {
  auto product = [&](ClassId at) -> std::optional<Scaled> {
    auto found = r.find_binary(at, BinaryOp::kMul);
    if (!found) return std::nullopt;
    for (size_t k : {size_t{1}, size_t{0}}) {
      auto value = r.uniform_value(found->operands[k]);
      if (value) return Scaled{found->operands[1 - k], *value};
    }
    return std::nullopt;
  };
  if (auto direct = product(cls)) return direct;
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    const View& view = attr<ViewAttr>(*found.node).view;
    auto inner = view.valid.empty() ? product(found.operands[0]) : std::nullopt;
    if (inner) return Scaled{r.view(inner->cls, view), inner->factor};
  }
  return std::nullopt;
}

// Grouped heads: a batch label of which one operand needs only the quotient by R becomes two, the
// group, which both have, and the member, a free label of the other operand. So R small products
// with the same matrix are one product with R times the rows, and nothing is repeated.
class GroupSplit {
 public:
  GroupSplit(Rewriter& r, const Node& contraction, ClassId a, ClassId b)
      : r_(r), c_(attr<ContractAttr>(contraction)), node_(contraction), a_(a), b_(b) {}

  std::optional<ClassId> find() {
    for (size_t k = 0; k < c_.out.size(); ++k) {
      int label = c_.out[k];
      if (!contains(c_.a, label) || !contains(c_.b, label)) continue;
      const Expr& extent = node_.shape[k];
      if (!extent.is_constant()) continue;
      for (bool left : {false, true}) {
        auto result = split(label, extent.constant(), left);
        if (result) return result;
      }
    }
    return std::nullopt;
  }

 private:
  // The smallest quotient by which the view uses the axis; 0 when there is none.
  static int64_t divisor_of(const View& view, int axis) {
    int64_t divisor = 0;
    std::function<void(const Expr&)> walk = [&](const Expr& e) {
      if (e.kind() == common::ExprKind::kFloorDiv) {
        if (e.left() == Expr::index(axis) && e.right().is_constant()) {
          int64_t value = e.right().constant();
          divisor = divisor == 0 ? value : std::min(divisor, value);
        }
        return;
      }
      for (const Expr::Term& term : e.terms()) {
        for (const Expr& factor : term.factors) {
          if (factor.kind() == common::ExprKind::kFloorDiv) walk(factor);
        }
      }
    };
    for (const Expr& e : view.index) walk(e);
    return divisor;
  }

  static Shape split_shape(const Shape& shape, size_t axis, int64_t groups, int64_t members) {
    Shape result = shape;
    result[axis] = Expr(groups);
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(axis) + 1, Expr(members));
    return result;
  }

  // `view` with `axis` split in two; empty when it depends on the second of these.
  std::optional<View> by_group(const View& view, size_t axis, int64_t groups, int64_t members) {
    Shape shape = split_shape(view.shape, axis, groups, members);
    auto position = static_cast<int>(axis);
    View both = renamed(view, shape, [&](int index) {
      if (index != position) return Expr::index(index > position ? index + 1 : index);
      return Expr(members) * Expr::index(position) + Expr::index(position + 1);
    });
    common::Bounds bounds = common::loop_bounds(shape, r_.symbols());
    for (Expr& e : both.index) e = bounds.simplify(e);
    for (common::Validity& v : both.valid) {
      v = {bounds.simplify(v.value), bounds.simplify(v.bound)};
    }
    std::vector<int> axes;
    for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
      if (k != position + 1) axes.push_back(k);
    }
    if (contains(used_axes(both), position + 1)) return std::nullopt;
    return narrowed(both, axes);
  }

  // Replaces the label by itself and, if `member` is one, a new label behind it.
  static std::vector<int> with_member(std::vector<int> labels, int label, int member) {
    auto it = std::find(labels.begin(), labels.end(), label);
    labels.insert(it + 1, member);
    return labels;
  }

  // How the class may be read, through one view or two.
  std::vector<std::pair<ClassId, View>> views_of(ClassId cls) const {
    std::vector<std::pair<ClassId, View>> views;
    for (const Rewriter::Found& outer : r_.find_all(cls, Op::kView)) {
      const View& view = attr<ViewAttr>(*outer.node).view;
      views.emplace_back(outer.operands[0], view);
      for (const Rewriter::Found& inner : r_.find_all(outer.operands[0], Op::kView)) {
        auto both = common::view_compose(view, attr<ViewAttr>(*inner.node).view, r_.symbols());
        if (both) views.emplace_back(inner.operands[0], *std::move(both));
      }
    }
    return views;
  }

  std::optional<ClassId> split(int label, int64_t extent, bool left) {
    const std::vector<int>& shared = left ? c_.a : c_.b;
    const std::vector<int>& other = left ? c_.b : c_.a;
    auto axis_of = [label](const std::vector<int>& labels) {
      return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
    };
    for (const auto& [base, view] : views_of(left ? a_ : b_)) {
      int64_t members = divisor_of(view, static_cast<int>(axis_of(shared)));
      if (members < 2 || members > extent || extent % members != 0) continue;
      int64_t groups = extent / members;
      auto grouped = by_group(view, axis_of(shared), groups, members);
      if (!grouped) continue;
      Factor with_groups{r_.view(base, *grouped), shared};
      ClassId rest = left ? b_ : a_;
      int member = static_cast<int>(c_.a.size() + c_.b.size());
      Factor with_members{reshaped(rest, axis_of(other), groups, members),
                          with_member(other, label, member)};
      // A group of one needs no label.
      Shape shape = split_shape(node_.shape, axis_of(c_.out), groups, members);
      std::vector<int> out = with_member(c_.out, label, member);
      if (left) std::swap(with_groups, with_members);
      ClassId product = contract(r_, node_.dtype, with_members, with_groups, out, shape);
      common::Bounds bounds(r_.symbols(), {});
      return r_.view(product, common::view_reshape(shape, node_.shape, bounds));
    }
    return std::nullopt;
  }

  ClassId reshaped(ClassId cls, size_t axis, int64_t groups, int64_t members) {
    const Shape& shape = r_.shape(cls);
    common::Bounds bounds(r_.symbols(), {});
    return r_.view(cls,
                   common::view_reshape(shape, split_shape(shape, axis, groups, members), bounds));
  }

  Rewriter& r_;
  const ContractAttr& c_;
  const Node& node_;
  ClassId a_;
  ClassId b_;
};

// An input, a computed value or a copied view. What is only ever seen through is not stored itself.
bool can_be_stored(const Rewriter& r, ClassId cls) {
  bool can = false;
  r.graph().for_each_node(r.graph().find(cls), [&](NodeId n) {
    can = can || r.node(n).op != Op::kView || r.lowering(n) == Lowering::kCopy;
  });
  return can;
}

// How an operand may be stored and read: its own class, or a view of another.
struct Operand {
  ClassId base;
  std::optional<View> view;
};
std::vector<Operand> ways_to_store(const Rewriter& r, ClassId cls) {
  std::vector<Operand> ways;
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    const View& view = attr<ViewAttr>(*found.node).view;
    if (view.valid.empty() && can_be_stored(r, found.operands[0])) {
      ways.push_back({found.operands[0], view});
    }
  }
  if (can_be_stored(r, cls)) ways.push_back({cls, std::nullopt});
  return ways;
}

// A kernel of nothing but the contraction is a matrix product to the library.
bool is_library_product(const Rewriter& r, const Node& contraction, const Operand& a,
                        const Operand& b) {
  common::Graph body;
  body.symbols = r.symbols();
  for (const Operand* operand : {&a, &b}) {
    const Shape& shape = r.shape(operand->base);
    DType dtype = r.dtype(operand->base);
    auto position = static_cast<int>(body.inputs.size());
    body.inputs.push_back({common::InputKind::kUser, dtype, shape, ""});
    body.nodes.push_back({Op::kInput, dtype, shape, {}, common::InputAttr{position}});
  }
  common::NodeId operands[2] = {0, 1};
  for (int k : {0, 1}) {
    const Operand& operand = k == 0 ? a : b;
    if (!operand.view) continue;
    operands[k] = static_cast<common::NodeId>(body.nodes.size());
    body.nodes.push_back({Op::kView,
                          r.dtype(operand.base),
                          operand.view->shape,
                          {static_cast<common::NodeId>(k)},
                          ViewAttr{*operand.view}});
  }
  Node root = contraction;
  root.operands = {operands[0], operands[1]};
  body.nodes.push_back(std::move(root));
  body.outputs.push_back(
      {common::OutputKind::kUser, static_cast<common::NodeId>(body.nodes.size() - 1), -1});
  return common::gemm_form(body).has_value();
}

// Nothing but elementwise work or a gather away from what is stored: cheaper to compute where it is
// used once than to store. (Storing the gathered experts of all tokens would copy each expert as
// often as it is chosen.)
bool is_light(const Rewriter& r, ClassId cls) {
  bool light = true;
  r.graph().for_each_node(r.graph().find(cls), [&](NodeId n) {
    Op op = r.node(n).op;
    light = light && (op == Op::kGather || op == Op::kUnary || op == Op::kBinary ||
                      op == Op::kSelect || op == Op::kCast);
  });
  return light;
}

bool suits_library(const Rewriter& r, const Node& c, ClassId a, ClassId b) {
  if (r.dtype(a) != c.dtype || r.dtype(b) != c.dtype) return false;
  bool reused = reuses_operands(attr<ContractAttr>(c));
  bool a_is_larger = attr<ContractAttr>(c).a.size() > attr<ContractAttr>(c).b.size();
  for (const Operand& left : ways_to_store(r, a)) {
    for (const Operand& right : ways_to_store(r, b)) {
      if (!reused && is_light(r, a_is_larger ? left.base : right.base)) continue;
      if (is_library_product(r, c, left, right)) return true;
    }
  }
  return false;
}

// The sum of the products over the output's labels and, after these, the others.
std::optional<ClassId> as_sum(Rewriter& r, const Node& node, ClassId a, ClassId b) {
  const auto& c = attr<ContractAttr>(node);
  if (r.dtype(a) != node.dtype || r.dtype(b) != node.dtype) return std::nullopt;
  std::vector<int> labels = c.out;
  Shape shape = node.shape;
  for (size_t k = 0; k < c.a.size(); ++k) {
    if (contains(labels, c.a[k])) continue;
    labels.push_back(c.a[k]);
    shape.push_back(r.shape(a)[k]);
  }
  auto spread = [&](ClassId x, const std::vector<int>& own) {
    View view;
    view.shape = shape;
    for (int label : own) {
      auto place = std::find(labels.begin(), labels.end(), label) - labels.begin();
      view.index.push_back(Expr::index(static_cast<int>(place)));
    }
    return r.view(x, view);
  };
  ReduceAttr sum;
  sum.op = common::ReduceOp::kSum;
  for (size_t axis = c.out.size(); axis < labels.size(); ++axis) {
    sum.axes.push_back(static_cast<int>(axis));
  }
  if (sum.axes.empty()) return std::nullopt;
  ClassId product = r.binary(BinaryOp::kMul, spread(a, c.a), spread(b, c.b));
  return r.add({Op::kReduce, node.dtype, node.shape, {}, sum}, {product});
}

void add_lowerings(RuleMaker& m) {
  // Tiles pay by reuse: a matrix times a vector is computed where it is needed, or by a library.
  m.rule("contract-by-tiles", Equivalence::kBits, "(contract@c ?a ?b)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const Node& c = m.node(match, "c");
           if (!reuses_operands(attr<ContractAttr>(c))) return std::nullopt;
           return r.add(c, {match["a"], match["b"]}, Lowering::kTile);
         });
  // Those that other rules made: what the graph has as a sum of products is one already.
  m.rule(
      "contract-by-sums", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& c = m.node(match, "c");
        bool is_dot = m.is_abstract(match, "c") && !reuses_operands(attr<ContractAttr>(c));
        if (!is_dot || r.find(match.root, Op::kReduce)) return std::nullopt;
        return as_sum(r, c, match["a"], match["b"]);
      },
      RuleMaker::Reach::kDeep);
  m.rule(
      "contract-by-library", Equivalence::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& c = m.node(match, "c");
        ClassId a = match["a"], b = match["b"];
        if (!m.is_abstract(match, "c") || !suits_library(r, c, a, b)) return std::nullopt;
        return r.add(c, {a, b}, Lowering::kGemm);
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace

bool reuses_operands(const ContractAttr& c) {
  auto is_free = [&](const std::vector<int>& in, const std::vector<int>& not_in) {
    return std::any_of(in.begin(), in.end(), [&](int label) {
      return contains(c.out, label) && !contains(not_in, label);
    });
  };
  return is_free(c.a, c.b) && is_free(c.b, c.a);
}

std::optional<ClassId> grouped(Rewriter& r, const Node& contraction, ClassId a, ClassId b) {
  return GroupSplit(r, contraction, a, b).find();
}

void add_contraction_rules(RuleMaker& m) {
  m.rule(
      "sum-of-products", Equivalence::kRounding, "(reduce.sum@r (binary.mul@ ?a ?b))",
      [&m](Rewriter& r, const Match& match) {
        return contraction_of(r, m.node(match, "r"), match["a"], match["b"]);
      },
      RuleMaker::Reach::kDeep);
  m.rule(
      "grouped-heads", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) {
        if (!m.is_abstract(match, "c")) return std::optional<ClassId>();
        return grouped(r, m.node(match, "c"), match["a"], match["b"]);
      },
      RuleMaker::Reach::kDeep);
  // The result is smaller than the operands, or can be scaled where it is made.
  m.rule(
      "scale-after-contraction", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& c = m.node(match, "c");
        if (!m.is_abstract(match, "c")) return std::nullopt;
        ClassId a = match["a"], b = match["b"];
        auto left = scaled(r, a), right = scaled(r, b);
        if (!left && !right) return std::nullopt;
        double factor = (left ? left->factor : 1) * (right ? right->factor : 1);
        if (r.dtype(a) != c.dtype || r.dtype(b) != c.dtype) return std::nullopt;
        ClassId product =
            r.add(c, {left ? left->cls : a, right ? right->cls : b}, Lowering::kAbstract);
        return r.binary(BinaryOp::kMul, product, r.scalar(c.dtype, factor, c.shape));
      },
      RuleMaker::Reach::kDeep);
  add_lowerings(m);
}

}  // namespace coordinator
