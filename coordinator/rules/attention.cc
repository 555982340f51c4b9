// Attention: a softmax of scores along the keys, times values, normalised before the product or
// after it. Rules only offer the lowering; what one kernel can hold is decided on the chosen graph
// (common/ir/hlir/attention_form.h).
#include <algorithm>
#include <initializer_list>
#include <set>

#include "coordinator/rules/contraction.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::ContractAttr;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::View;
using common::ViewAttr;

// Scores are scaled, capped and masked in a few steps.
constexpr size_t kClassesMax = 64;

bool is_elementwise(const Node& node) {
  return node.op == Op::kUnary || node.op == Op::kBinary || node.op == Op::kSelect ||
         node.op == Op::kCast || node.op == Op::kView;
}

// The classes reached from `cls` by `step`, which calls back with each neighbour.
template <class Step>
std::set<ClassId> reached(const Rewriter& r, ClassId cls, Step&& step) {
  std::set<ClassId> seen{r.graph().find(cls)};
  std::vector<ClassId> open(seen.begin(), seen.end());
  while (!open.empty() && seen.size() < kClassesMax) {
    ClassId next = open.back();
    open.pop_back();
    step(next, [&](ClassId neighbour) {
      neighbour = r.graph().find(neighbour);
      if (seen.insert(neighbour).second) open.push_back(neighbour);
    });
  }
  return seen;
}

// The class and those it is made of by elementwise operations and views.
std::set<ClassId> made_of(const Rewriter& r, ClassId cls) {
  return reached(r, cls, [&](ClassId from, auto&& visit) {
    r.graph().for_each_node(from, [&](NodeId n) {
      if (!is_elementwise(r.node(n))) return;
      for (ClassId child : r.graph().children(n)) visit(child);
    });
  });
}

bool is_made_of_scores(const Rewriter& r, ClassId cls) {
  for (ClassId part : made_of(r, cls)) {
    for (const Rewriter::Found& softmax : r.find_all(part, Op::kSoftmax)) {
      if (common::attr<common::SoftmaxAttr>(*softmax.node).log) continue;
      for (ClassId score : made_of(r, softmax.operands[0])) {
        if (r.find(score, Op::kContract)) return true;
      }
    }
  }
  return false;
}

// The classes of nodes of these kinds that the class's values lead to by elementwise operations and
// views.
std::set<ClassId> fed(const Rewriter& r, ClassId cls, std::initializer_list<Op> ops) {
  std::set<ClassId> found;
  reached(r, cls, [&](ClassId from, auto&& visit) {
    r.graph().for_each_parent(from, [&](NodeId n) {
      ClassId parent = r.graph().class_of(n);
      if (std::find(ops.begin(), ops.end(), r.node(n).op) != ops.end()) found.insert(parent);
      if (is_elementwise(r.node(n))) visit(parent);
    });
  });
  return found;
}

// Whether a softmax of the class's values is multiplied and summed. That of a router is not: its
// values are sorted, and a few of them are taken.
bool feeds_attention(const Rewriter& r, ClassId cls) {
  std::set<ClassId> softmax = fed(r, cls, {Op::kSoftmax});
  return std::any_of(softmax.begin(), softmax.end(), [&](ClassId probabilities) {
    return !fed(r, probabilities, {Op::kContract, Op::kReduce}).empty();
  });
}

// ---- Rounded probabilities -------------------------------------------------------------------

// Views on a way, which may lead back to where it began.
constexpr int kViewsMax = 4;

// Below the cast that widens: the values before they were rounded to a narrower type, right after a
// softmax, seen through views.
std::optional<ClassId> before_rounding(Rewriter& r, ClassId cls, common::DType wide, int views) {
  if (auto narrow = r.find(cls, Op::kCast)) {
    ClassId whole = narrow->operands[0];
    if (r.dtype(whole) == wide && r.find(whole, Op::kSoftmax)) return whole;
  }
  if (views == 0) return std::nullopt;
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    if (auto whole = before_rounding(r, found.operands[0], wide, views - 1)) {
      return r.view(*whole, attr<ViewAttr>(*found.node).view);
    }
  }
  return std::nullopt;
}

// The probabilities of class `cls` as they were before they were rounded; empty where they were
// not.
std::optional<ClassId> unrounded(Rewriter& r, ClassId cls, int views = kViewsMax) {
  for (const Rewriter::Found& found : r.find_all(cls, Op::kCast)) {
    if (!common::is_half(r.dtype(found.operands[0]))) continue;
    auto whole = before_rounding(r, found.operands[0], r.dtype(cls), kViewsMax);
    if (whole) return whole;
  }
  if (views == 0) return std::nullopt;
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    if (auto whole = unrounded(r, found.operands[0], views - 1)) {
      return r.view(*whole, attr<ViewAttr>(*found.node).view);
    }
  }
  return std::nullopt;
}

// ---- Normalisation after the product --------------------------------------------------------

struct Seen {
  ClassId base;
  View view;
};
// The class as it is, and whatever it is a view of.
std::vector<Seen> ways_to_see(const Rewriter& r, ClassId cls) {
  std::vector<Seen> ways{{r.graph().find(cls), common::view_identity(r.shape(cls))}};
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    const View& view = attr<ViewAttr>(*found.node).view;
    if (view.valid.empty()) ways.push_back({r.graph().find(found.operands[0]), view});
  }
  return ways;
}

// Sums of exponentials along one axis, and how they are read.
struct Total {
  ClassId sums;
  ClassId exponentials;
  int axis;
  View view;
};
std::vector<Total> totals_of(const Rewriter& r, ClassId cls, bool inverse) {
  std::vector<Seen> ways = ways_to_see(r, cls);
  if (inverse) {
    std::vector<Seen> below;
    for (const Seen& way : ways) {
      auto found = r.find_unary(way.base, common::UnaryOp::kRecip);
      if (!found) continue;
      for (const Seen& inner : ways_to_see(r, found->operands[0])) {
        auto view = common::view_compose(way.view, inner.view, r.symbols());
        if (view) below.push_back({inner.base, *std::move(view)});
      }
    }
    ways = std::move(below);
  }
  std::vector<Total> totals;
  for (const Seen& way : ways) {
    for (const Rewriter::Found& found : r.find_all(way.base, Op::kReduce)) {
      const auto& reduce = attr<common::ReduceAttr>(*found.node);
      bool is_sum = reduce.op == common::ReduceOp::kSum && reduce.axes.size() == 1;
      if (!is_sum || !r.find_unary(found.operands[0], common::UnaryOp::kExp)) continue;
      ClassId exponentials = r.graph().find(found.operands[0]);
      totals.push_back({way.base, exponentials, reduce.axes[0], way.view});
    }
  }
  return totals;
}

// Products of exponentials and values, divided by the exponentials' sums: what each output is
// divided by belongs to the very row that it was made of.
class NormaliseBefore {
 public:
  NormaliseBefore(Rewriter& r, const Total& total) : r_(r), total_(total) {}

  std::optional<ClassId> rewrite(ClassId products) {
    for (const Seen& product : ways_to_see(r_, products)) {
      for (const Rewriter::Found& found : r_.find_all(product.base, Op::kContract)) {
        for (size_t side : {size_t{0}, size_t{1}}) {
          auto result = with_probabilities(found, side, product.view);
          if (result) return result;
        }
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<ClassId> with_probabilities(const Rewriter::Found& found, size_t side,
                                            const View& seen) {
    const Node& c = *found.node;
    for (const Seen& weight : ways_to_see(r_, found.operands[side])) {
      if (weight.base != total_.exponentials || r_.dtype(weight.base) != c.dtype) continue;
      const auto& labels = attr<ContractAttr>(c);
      if (!reads_its_row(weight.view, side == 0 ? labels.a : labels.b, labels.out, seen)) continue;
      std::vector<ClassId> operands = found.operands;
      operands[side] = r_.view(probabilities(), weight.view);
      return r_.view(r_.add(c, operands, Lowering::kAbstract), seen);
    }
    return std::nullopt;
  }

  // At every place of the result the exponentials that were multiplied are those that were summed.
  bool reads_its_row(const View& weight, const std::vector<int>& labels,
                     const std::vector<int>& out, const View& seen) const {
    const Shape& shape = r_.shape(total_.exponentials);
    auto key = static_cast<int>(seen.shape.size());
    View places;
    places.shape = seen.shape;
    places.shape.push_back(shape[static_cast<size_t>(total_.axis)]);
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      auto it = std::find(out.begin(), out.end(), labels[axis]);
      if (it != out.end()) {
        places.index.push_back(seen.index[static_cast<size_t>(it - out.begin())]);
        continue;
      }
      if (weight.shape[axis] != places.shape.back()) return false;
      places.index.push_back(Expr::index(key));
    }
    auto read = common::view_compose(places, weight, r_.symbols());
    if (!read) return false;
    size_t kept = 0;
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      const Expr& at = read->index[static_cast<size_t>(axis)];
      if (axis == total_.axis) {
        if (at != Expr::index(key)) return false;
        continue;
      }
      const Expr& row = total_.view.index[kept++];
      if (at != row && !shape[static_cast<size_t>(axis)].is_constant(1)) return false;
    }
    return true;
  }

  ClassId probabilities() {
    View rows;
    rows.shape = r_.shape(total_.exponentials);
    for (int axis = 0; axis < static_cast<int>(rows.shape.size()); ++axis) {
      if (axis != total_.axis) rows.index.push_back(Expr::index(axis));
    }
    return r_.binary(BinaryOp::kDiv, total_.exponentials, r_.view(total_.sums, rows));
  }

  Rewriter& r_;
  const Total& total_;
};

std::optional<ClassId> normalised_before(Rewriter& r, ClassId products, ClassId by, bool inverse) {
  for (const Total& total : totals_of(r, by, inverse)) {
    auto result = NormaliseBefore(r, total).rewrite(products);
    if (result) return result;
  }
  return std::nullopt;
}

void add_normalisation(RuleMaker& m) {
  auto rule = [&m](const char* name, const char* pattern, bool inverse) {
    m.rule(
        name, Equivalence::kRounding, pattern,
        [inverse](Rewriter& r, const Match& match) {
          return normalised_before(r, match["p"], match["s"], inverse);
        },
        RuleMaker::Reach::kDeep);
  };
  rule("normalised-before-product", "(binary.div@ ?p ?s)", false);
  rule("normalised-before-product-by-inverse", "(binary.mul@ ?p ?s)", true);
  rule("normalised-before-product-by-inverse-turned", "(binary.mul@ ?s ?p)", true);
}

}  // namespace

void add_attention_rules(RuleMaker& m) {
  add_normalisation(m);
  // A row of probabilities that are not rounded may be normalised after the product.
  m.rule(
      "probabilities-stay-wide", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        // Rewriting may move what the match holds.
        Node c = m.node(match, "c");
        if (!m.is_abstract(match, "c") || c.dtype != common::DType::kFloat32) return std::nullopt;
        std::vector<ClassId> operands{match["a"], match["b"]};
        for (ClassId& operand : operands) {
          if (auto whole = unrounded(r, operand)) {
            operand = *whole;
            return r.add(c, operands, Lowering::kAbstract);
          }
        }
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
  m.rule(
      "attention-in-one-kernel", Equivalence::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& c = m.node(match, "c");
        ClassId a = match["a"], b = match["b"];
        if (!m.is_abstract(match, "c")) return std::nullopt;
        if (!is_made_of_scores(r, a) && !is_made_of_scores(r, b)) return std::nullopt;
        // In groups the rows of several heads share what is read of values and keys.
        if (grouped(r, c, a, b)) return std::nullopt;
        return r.add(c, {a, b}, Lowering::kAttention);
      },
      RuleMaker::Reach::kDeep);
  // Scores that no other rule makes a contraction of their own, for lack of reuse.
  m.rule(
      "scores-in-attention", Equivalence::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& c = m.node(match, "c");
        if (!m.is_abstract(match, "c") || reuses_operands(common::attr<common::ContractAttr>(c)) ||
            !feeds_attention(r, match.root)) {
          return std::nullopt;
        }
        return r.add(c, {match["a"], match["b"]}, Lowering::kAttention);
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
