// Softmax: structure that one pass over a row can compute, online or in two passes as the kernel
// prefers.
#include "coordinator/rules/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::Node;
using common::ReduceAttr;
using common::View;
using common::ViewAttr;

// `sums` and `maxima` were reduced along one axis and handed back to their rows.
std::optional<ClassId> softmax_of(Rewriter& r, const Node& max, const View& max_view,
                                  const Node& sum, const View& sum_view, ClassId x, bool log) {
  const auto& axes = attr<ReduceAttr>(max).axes;
  if (axes.size() != 1 || axes != attr<ReduceAttr>(sum).axes) return std::nullopt;
  if (!restores(max_view, axes) || !restores(sum_view, axes)) return std::nullopt;
  return r.add(
      {common::Op::kSoftmax, r.dtype(x), r.shape(x), {}, common::SoftmaxAttr{axes[0], log}}, {x});
}

RuleMaker::Code shifted(RuleMaker& m, bool log) {
  return [&m, log](Rewriter& r, const Match& match) {
    return softmax_of(r, m.node(match, "max"), attr<ViewAttr>(m.node(match, "vm")).view,
                      m.node(match, "sum"), attr<ViewAttr>(m.node(match, "vs")).view, match["x"],
                      log);
  };
}

// Without the maxima, which only keep exp() from overflowing.
RuleMaker::Code unshifted(RuleMaker& m) {
  return [&m](Rewriter& r, const Match& match) {
    const Node& sum = m.node(match, "sum");
    const View& view = attr<ViewAttr>(m.node(match, "vs")).view;
    return softmax_of(r, sum, view, sum, view, match["x"], false);
  };
}

}  // namespace

void add_softmax_rules(RuleMaker& m) {
  m.family("softmax");
  const std::string exponentials = "?e:(unary.exp@ (binary.sub@ ?x (view@vm (reduce.max@max ?x))))";
  m.rule("softmax", Claim::kRounding,
         "(binary.div@ " + exponentials + " (view@vs (reduce.sum@sum ?e)))", shifted(m, false));
  m.rule("softmax-by-inverse", Claim::kRounding,
         "(binary.mul@ " + exponentials + " (view@vs (unary.recip@ (reduce.sum@sum ?e))))",
         shifted(m, false));
  m.rule("log-softmax", Claim::kRounding,
         "(binary.sub@ ?d:(binary.sub@ ?x (view@vm (reduce.max@max ?x))) "
         "(view@vs (unary.log@ (reduce.sum@sum (unary.exp@ ?d)))))",
         shifted(m, true));
  m.rule("softmax-unshifted", Claim::kFinite,
         "(binary.div@ ?e:(unary.exp@ ?x) (view@vs (reduce.sum@sum ?e)))", unshifted(m));
  // A probability too small for its type has a logarithm all the same.
  m.rule("log-of-softmax", Claim::kFinite, "(unary.log@ (softmax@s ?x))",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           common::Node softmax = m.node(match, "s");
           auto form = attr<common::SoftmaxAttr>(softmax);
           if (form.log) return std::nullopt;
           form.log = true;
           softmax.attr = form;
           return r.add(softmax, {match["x"]});
         });
  m.rule("exp-of-log-softmax", Claim::kRounding, "(unary.exp@ (softmax@s ?x))",
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
