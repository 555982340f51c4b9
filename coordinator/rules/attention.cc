// Attention: a softmax of scores along the keys, times values. Rules only offer the lowering; what
// one kernel can hold is decided on the chosen graph (common/ir/attention_form.h).
#include <set>

#include "coordinator/rules/contraction.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::Node;
using common::Op;

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

bool feeds_softmax(const Rewriter& r, ClassId cls) {
  bool feeds = false;
  reached(r, cls, [&](ClassId from, auto&& visit) {
    r.graph().for_each_parent(from, [&](NodeId n) {
      feeds = feeds || r.node(n).op == Op::kSoftmax;
      if (is_elementwise(r.node(n))) visit(r.graph().class_of(n));
    });
  });
  return feeds;
}

}  // namespace

void add_attention_rules(RuleMaker& m) {
  m.rule(
      "attention-in-one-kernel", Claim::kBits, "(contract@c ?a ?b)",
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
      "scores-in-attention", Claim::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& c = m.node(match, "c");
        if (!m.is_abstract(match, "c") || reuses_operands(common::attr<common::ContractAttr>(c)) ||
            !feeds_softmax(r, match.root)) {
          return std::nullopt;
        }
        return r.add(c, {match["a"], match["b"]}, Lowering::kAttention);
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
