// Explanations: if these fail, a chain of equalities does not prove what it claims, or a rule is
// credited with what another did.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/egraph/runner.h"
#include "egraph_suites.h"

namespace coordinator {
namespace {

class Stopped final : public common::Clock {
 public:
  int64_t now_ns() const override { return 0; }
};

struct Explained {
  egraph_suites::Names names;
  EGraph graph;
  std::vector<CompiledRule> rules;
  Stopped clock;

  explicit Explained(bool explanations = true) : graph(options(explanations)) {}
  EGraphOptions options(bool explanations) {
    EGraphOptions out = names.options();
    out.explanations = explanations;
    return out;
  }
  ClassId add(const char* text) {
    return add_term(graph, parse_term(text, names.resolver()).value()).value();
  }
  void rule(const char* name, const char* pattern, const char* result) {
    rules.push_back(compile_rule(rewrite(name, pattern, result, names.resolver()).value()).value());
  }
  RunReport run() { return Runner(graph, rules, clock).run(RunLimits{}, Scheduling{}); }
  std::function<std::string(Head)> head_name() {
    return [this](Head head) { return names.name(head); };
  }
};

TEST(Explain, AChainNamesRulesAndWhatCongruencesRestOn) {
  Explained e;
  ClassId left = e.add("(f (* x one))");
  ClassId right = e.add("(f x)");
  e.rule("mul-one", "(* ?a one)", "?a");
  e.run();
  auto text = e.graph.explain(left, right, e.head_name());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text,
            "c3 = c4:\n"
            "  c3 (f c2) = c4 (f c0) by congruence\n"
            "c2 = c0:\n"
            "  c2 (* c0 c1) = c0 x by mul-one\n");
}

TEST(Explain, AMergeFromOutsideIsGivenAndOneOfAnAnalysisIsItsOwn) {
  struct FoldTwoAndThree final : public Analysis {
    Head folds = kNone;
    ClassId into = kNone;
    void make_class(const EGraph&, ClassId, NodeId) override {}
    bool update(const EGraph&, ClassId, NodeId) override { return false; }
    MergeEffect merge(const EGraph&, ClassId, ClassId) override { return {}; }
    void modify(EGraph& graph, ClassId cls) override {
      if (graph.head(graph.nodes(cls)[0]) == folds) graph.merge(cls, into);
    }
  } analysis;
  egraph_suites::Names names;
  EGraphOptions options = names.options(&analysis);
  options.explanations = true;
  EGraph graph(std::move(options));
  ClassId five = graph.add(names.number("five"), {});
  analysis.folds = names.number("sum");
  analysis.into = five;
  ClassId sum = graph.add(names.number("sum"), {});
  ClassId other = graph.add(names.number("other"), {});
  graph.merge(other, sum);
  graph.rebuild();
  EXPECT_EQ(graph.explain(other, five, [&](Head head) { return names.name(head); }).value(),
            "c2 = c0:\n"
            "  c2 other = c0 five by given\n");
  EXPECT_EQ(graph.explain(1, five, [&](Head head) { return names.name(head); }).value(),
            "c1 = c0:\n"
            "  c1 sum = c0 five by analysis\n");
}

TEST(Explain, UnequalClassesAndGraphsWithoutExplanationsAreErrors) {
  Explained with, without(false);
  for (Explained* e : {&with, &without}) {
    ClassId x = e->add("x"), y = e->add("y");
    EXPECT_FALSE(e->graph.explain(x, y, e->head_name()).ok());
    EXPECT_FALSE(e->graph.explain(x, 99, e->head_name()).ok());
    e->graph.merge(x, y);
    EXPECT_EQ(e->graph.explain(x, y, e->head_name()).ok(), e == &with);
  }
}

// The unions of rules alone, replayed on the nodes as they were made, must give the same classes.
TEST(Explain, UnionsOfRulesAndCongruenceGiveTheSameClasses) {
  for (const char* suite : {"mathmicro8", "ac5", "chain50"}) {
    SCOPED_TRACE(suite);
    egraph_suites::Loaded loaded;
    ASSERT_TRUE(egraph_suites::load(*egraph_suites::make_suite(suite), loaded, true).ok());
    RunLimits limits;
    limits.iterations = 8;
    Stopped clock;
    Runner(*loaded.graph, loaded.rules, clock).run(limits, Scheduling{});
    ASSERT_TRUE(loaded.graph->check_invariants().ok());
    const ProofForest& proofs = *loaded.graph->proofs();
    auto count = static_cast<ClassId>(loaded.graph->class_ids());
    EGraph replay;
    // A head of its own for each class first, so that ids agree.
    for (ClassId c = 0; c < count; ++c) replay.add(1'000'000 + c, {});
    for (ClassId c = 0; c < count; ++c) {
      std::vector<ClassId> children(proofs.children(c).begin(), proofs.children(c).end());
      replay.merge(replay.add(proofs.head(c), children), c);
    }
    size_t unions = 0, congruences = 0;
    for (ClassId c = 0; c < count; ++c) {
      for (const ProofForest::Step& step : proofs.path(c, proofs.root(c))) {
        congruences += step.reason == ProofForest::kCongruence;
        if (step.reason == ProofForest::kCongruence) continue;
        EXPECT_NE(step.reason, ProofForest::kGiven);
        unions += replay.merge(step.from, step.to);
      }
    }
    replay.rebuild();
    EXPECT_GT(unions, 5u);
    if (suite[0] == 'm') {
      EXPECT_GT(congruences, 50u);
    }
    for (ClassId c = 1; c < count; ++c) {
      ASSERT_EQ(replay.find(c) == replay.find(0), loaded.graph->find(c) == loaded.graph->find(0));
      ClassId representative = loaded.graph->find(c);
      ASSERT_EQ(replay.find(c), replay.find(representative)) << c;
    }
    EXPECT_EQ(replay.class_count(), loaded.graph->class_count());
  }
}

TEST(Explain, KeepingExplanationsChangesNothingElse) {
  auto run = [](bool explanations) {
    egraph_suites::Loaded loaded;
    EXPECT_TRUE(
        egraph_suites::load(*egraph_suites::make_suite("mathmicro7"), loaded, explanations).ok());
    RunLimits limits;
    limits.iterations = 7;
    Stopped clock;
    Runner(*loaded.graph, loaded.rules, clock).run(limits, Scheduling{});
    return loaded.graph->dump([&](Head head) { return loaded.names.name(head); });
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Explain, RulesAreCreditedForWhatTheyHelpedTo) {
  Explained e;
  ClassId root = e.add("(f (* (h x) one))");
  e.rule("mul-one", "(* ?a one)", "?a");
  e.rule("f-to-g", "(f ?a)", "(g (k ?a))");
  e.rule("commute", "(* ?a ?b)", "(* ?b ?a)");
  RunReport report = e.run();
  auto node_of = [&](ClassId cls, const char* head) {
    NodeId found = kNone;
    e.graph.for_each_node(e.graph.find(cls), [&](NodeId n) {
      if (e.names.name(e.graph.head(n)) == head) found = n;
    });
    return found;
  };
  // g(k(h(x))): the root by f-to-g, its new operand too, h(x) instead of the product by mul-one.
  NodeId g = node_of(root, "g");
  ClassId k = e.graph.children(g)[0];
  NodeId made = node_of(k, "k");
  NodeId h = node_of(e.graph.children(made)[0], "h");
  count_helped(e.graph, std::vector<NodeId>{g, made, h}, report);
  EXPECT_EQ(report.rules[0].helped, 1u);
  EXPECT_EQ(report.rules[1].helped, 2u);
  EXPECT_EQ(report.rules[2].helped, 0u);
  EXPECT_GT(report.rules[2].applied, 0u);
}

}  // namespace
}  // namespace coordinator
