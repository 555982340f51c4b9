// Softmax: structure that one pass over a row can compute, online or in two passes as the kernel
// prefers.
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::Node;
using common::ReduceAttr;
using common::UnaryOp;
using common::View;
using common::ViewAttr;

// What is summed is handed back to the rows of `x`, along the one axis of the softmax.
std::optional<ClassId> softmax_of(Rewriter& r, ClassId x, const RowSum& sum, bool log) {
  if (sum.axes.size() != 1) return std::nullopt;
  return r.add(
      {common::Op::kSoftmax, r.dtype(x), r.shape(x), {}, common::SoftmaxAttr{sum.axes[0], log}},
      {x});
}

// The maxima keep exp() from overflowing: any that were taken along the rows do.
bool is_row_maximum(const Node& max, const View& view, const RowSum& sum) {
  return attr<ReduceAttr>(max).axes == sum.axes && restores(view, sum.axes);
}

// The sum of the class named `summand` below `from`, past `op` if it is given.
std::optional<RowSum> sum_below(Rewriter& r, ClassId from, std::optional<UnaryOp> op,
                                ClassId summand) {
  Descent descent(r, from);
  if (op && !descent.through_unary(*op)) return std::nullopt;
  auto sum = row_sum_of(r, descent);
  if (!sum || r.graph().find(sum->of) != r.graph().find(summand)) return std::nullopt;
  return sum;
}

RuleMaker::Code shifted(RuleMaker& m, std::optional<UnaryOp> op) {
  return [&m, op](Rewriter& r, const Match& match) -> std::optional<ClassId> {
    auto sum = sum_below(r, match["s"], op, match["e"]);
    if (!sum ||
        !is_row_maximum(m.node(match, "max"), attr<ViewAttr>(m.node(match, "vm")).view, *sum)) {
      return std::nullopt;
    }
    return softmax_of(r, match["x"], *sum, op == UnaryOp::kLog);
  };
}

}  // namespace

void add_softmax_rules(RuleMaker& m) {
  using Reach = RuleMaker::Reach;
  const std::string difference = "(binary.sub@ ?x (view@vm (reduce.max@max ?x)))";
  const std::string exponentials = "?e:(unary.exp@ " + difference + ")";
  m.rule("softmax", Equivalence::kRounding, "(binary.div@ " + exponentials + " ?s)",
         shifted(m, std::nullopt), Reach::kDeep);
  m.rule("softmax-by-inverse", Equivalence::kRounding, "(binary.mul@ " + exponentials + " ?s)",
         shifted(m, UnaryOp::kRecip), Reach::kDeep);
  m.rule("log-softmax", Equivalence::kRounding,
         "(binary.sub@ ?d:" + difference + " ?s) ?e:(unary.exp@ ?d)", shifted(m, UnaryOp::kLog),
         Reach::kDeep);
  m.rule(
      "softmax-unshifted", Equivalence::kFinite, "(binary.div@ ?e:(unary.exp@ ?x) ?s)",
      [](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        auto sum = sum_below(r, match["s"], std::nullopt, match["e"]);
        if (!sum) return std::nullopt;
        return softmax_of(r, match["x"], *sum, false);
      },
      Reach::kDeep);
  // A probability too small for its type has a logarithm all the same.
  m.rule("log-of-softmax", Equivalence::kFinite, "(unary.log@ (softmax@s ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           common::Node softmax = m.node(match, "s");
           auto form = attr<common::SoftmaxAttr>(softmax);
           if (form.log) return std::nullopt;
           form.log = true;
           softmax.attr = form;
           return r.add(softmax, {match["x"]});
         });
  m.rule("exp-of-log-softmax", Equivalence::kRounding, "(unary.exp@ (softmax@s ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           common::Node softmax = m.node(match, "s");
           auto form = attr<common::SoftmaxAttr>(softmax);
           if (!form.log) return std::nullopt;
           form.log = false;
           softmax.attr = form;
           return r.add(softmax, {match["x"]});
         });
}

}  // namespace coordinator
