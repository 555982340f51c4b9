// Patterns from text, families and head variables, conditions, apply functions, several patterns.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "coordinator/egraph/pattern.h"
#include "coordinator/egraph/rule.h"
#include "coordinator/egraph/runner.h"
#include "egraph_suites.h"

namespace coordinator {
namespace {

// An e-graph whose terms and rules are text.
struct Lab {
  egraph_suites::Names names;
  EGraph graph{names.options()};
  std::vector<Rule> rules;
  common::SteadyClock clock;

  ClassId add(std::string_view text) {
    auto parsed = parse_term(text, names.resolver());
    EXPECT_TRUE(parsed.ok()) << text;
    return add_term(graph, *parsed).value();
  }
  Rule& rule(std::string_view pattern, std::string_view result) {
    rules.push_back(rewrite(std::string(pattern), pattern, result, names.resolver()).value());
    return rules.back();
  }
  Rule& rule(std::string_view pattern, ApplyFunction apply) {
    Rule rule;
    rule.name = pattern;
    rule.patterns = parse_terms(pattern, names.resolver()).value();
    rule.apply = std::move(apply);
    rules.push_back(std::move(rule));
    return rules.back();
  }
  RunReport run(uint64_t iterations = 100) {
    std::vector<CompiledRule> compiled = compile_rules(rules).value();
    RunLimits limits;
    limits.iterations = iterations;
    RunReport report = Runner(graph, compiled, clock).run(limits, {});
    common::Status status = graph.check_invariants();
    EXPECT_TRUE(status.ok()) << status.error().message;
    return report;
  }
  bool equal(std::string_view a, std::string_view b) {
    return graph.find(add(a)) == graph.find(add(b));
  }
};

TEST(Patterns, ParseAndBuildAgree) {
  egraph_suites::Names names;
  auto resolve = names.resolver();
  auto parsed = parse_terms(" (add ?a (mul ?b two)) ?m:(view@v ?x ...) ", resolve);
  ASSERT_TRUE(parsed.ok());
  Head add = names.number("add"), mul = names.number("mul"), two = names.number("two");
  PatternTerm first = term(add, {variable("a"), term(mul, {variable("b"), term(two)})});
  PatternTerm second = family_term(resolve("view", true).value(), "v", {variable("x")});
  second.class_variable = "m";
  second.open = true;
  EXPECT_EQ(*parsed, (std::vector<PatternTerm>{first, second}));
  auto bracket = parse_term("(slice[0, (3), 2] ?x)", resolve);
  ASSERT_TRUE(bracket.ok());
  EXPECT_EQ(bracket->symbol, names.number("slice[0, (3), 2]"));
}

TEST(Patterns, MalformedTextIsAnErrorWithAPlace) {
  egraph_suites::Names names;
  auto resolve = names.resolver();
  for (const char* text : {"(add ?a", "(add ?a))", ")", "(", "()", "? ", "(add ... ?a)", "",
                           "?x ?y", "?a:?b", "(add ?)"}) {
    EXPECT_FALSE(parse_term(text, resolve).ok()) << text;
  }
  EXPECT_FALSE(parse_term(std::string(5000, '('), resolve).ok());
  auto nothing = [](std::string_view, bool) { return std::nullopt; };
  auto unknown = parse_term("(frob ?a)", nothing);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("unknown head frob"), std::string::npos);
  EGraph graph(names.options());
  EXPECT_FALSE(add_term(graph, variable("x")).ok());
}

TEST(Rules, WrongRulesAreErrorsThatNameTheRule) {
  egraph_suites::Names names;
  auto resolve = names.resolver();
  auto message = [&](const char* pattern, const char* result) {
    auto rule = rewrite("bad", pattern, result, resolve);
    if (!rule.ok()) return rule.error().message;
    auto compiled = compile_rule(*rule);
    return compiled.ok() ? "" : compiled.error().message;
  };
  EXPECT_EQ(message("(f ?a)", "(g ?b)"), "rule bad: no pattern binds ?b");
  EXPECT_EQ(message("(f ?a)", "(@h ?a)"), "rule bad: no pattern binds @h");
  EXPECT_EQ(message("?a", "(g ?a)"), "rule bad: a pattern is a bare variable");
  EXPECT_EQ(message("(f ?_)", "?_"), "rule bad: no pattern binds ?_");
  EXPECT_EQ(message("(f ?a)", "(v@h ?a)"),
            "rule bad: a result names its heads; a family is no head");
  EXPECT_EQ(message("(@h ?a)", "?a"), "rule bad: (@name ...) stands in results only");
  EXPECT_EQ(message("(f ?a)", "(f ?a)"), "");
  Rule both = rewrite("both", "(f ?a)", "?a", resolve).value();
  both.apply = [](EGraph&, const Match&) { return std::nullopt; };
  EXPECT_FALSE(compile_rule(both).ok());
}

TEST(Rules, FamiliesBindTheHeadTheyMatch) {
  Lab lab;
  ClassId start = lab.add("(neg (view[1,0] (neg (view[0,1] x))))");
  lab.add("(neg (other y))");
  lab.rule("(neg (view@v ?x))", "(@v (neg ?x))");
  lab.rule("(neg (neg ?x))", "?x");
  RunReport report = lab.run();
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(lab.graph.find(start), lab.graph.find(lab.add("(view[1,0] (view[0,1] x))")));
  EXPECT_FALSE(lab.equal("(neg (other y))", "(other (neg y))"));
}

TEST(Rules, TheSameHeadVariableIsTheSameHead) {
  Lab lab;
  lab.add("(view[a] (view[a] x))");
  lab.add("(view[a] (view[b] y))");
  lab.rule("(view@v (view@v ?x))", "?x");
  lab.run();
  EXPECT_TRUE(lab.equal("(view[a] (view[a] x))", "x"));
  EXPECT_FALSE(lab.equal("(view[a] (view[b] y))", "y"));
}

TEST(Rules, ApplyFunctionsSeeHeadsNodesAndClasses) {
  Lab lab;
  ClassId start = lab.add("(concat[1] x y z)");
  ClassId pair = lab.add("(concat[2] x y)");
  int calls = 0;
  lab.rule("(concat@c ?first ...)", [&](EGraph& graph, const Match& match) {
    ++calls;
    BoundHead bound = match.head("c");
    EXPECT_EQ(graph.head(bound.node), bound.head);
    EXPECT_EQ(graph.children(bound.node)[0], match["first"]);
    EXPECT_EQ(match.classes[0], match["first"]);
    EXPECT_EQ(graph.class_of(bound.node), match.root);
    if (graph.arity(bound.node) == 2) return std::optional<ClassId>();
    return std::optional<ClassId>(graph.add(lab.names.number("joined"), {match["first"]}));
  });
  RunReport report = lab.run();
  EXPECT_EQ(lab.graph.find(start), lab.graph.find(lab.add("(joined x)")));
  EXPECT_EQ(lab.graph.node_count(lab.graph.find(pair)), 1u);
  EXPECT_EQ(report.rules[0].applied, 1u);
  EXPECT_EQ(report.rules[0].nodes_added, 1u);
  EXPECT_GE(calls, 2);
}

TEST(Rules, SeveralPatternsShareVariables) {
  Lab lab;
  ClassId left = lab.add("(mul a x)"), right = lab.add("(mul a y)");
  lab.add("(mul b z)");
  lab.rule("?m:(mul ?a ?p) ?n:(mul ?a ?q)", [&](EGraph& graph, const Match& match) {
    if (match["m"] == match["n"]) return std::optional<ClassId>();
    ClassId both = graph.add(lab.names.number("pair"), {match["m"], match["n"]});
    graph.merge(match["m"], graph.add(lab.names.number("first"), {both}));
    return std::optional<ClassId>();
  });
  lab.run();
  EXPECT_EQ(lab.graph.find(left), lab.graph.find(lab.add("(first (pair (mul a x) (mul a y)))")));
  EXPECT_EQ(lab.graph.find(right), lab.graph.find(lab.add("(first (pair (mul a y) (mul a x)))")));
  EXPECT_EQ(lab.graph.node_count_with_head(lab.names.number("pair")), 2u);
}

TEST(Rules, ANodeThatUsesAClassTwiceMatchesOnce) {
  Lab lab;
  lab.add("(add (g x) (g x))");
  lab.rule("(add ?a ?a)", "(twice ?a)");
  lab.rule("(add (g ?a) ?b)", "(left ?a ?b)");
  RunReport report = lab.run();
  EXPECT_EQ(report.rules[0].matches, 1u);
  EXPECT_EQ(report.rules[1].matches, 1u);
}

TEST(Rules, EachMatchIsTriedOnce) {
  Lab lab;
  auto add_leaves = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) lab.add(common::cat("(f (g leaf", i, "))"));
  };
  lab.rule("(f (g ?a))", "(h ?a)");
  std::vector<CompiledRule> compiled = compile_rules(lab.rules).value();
  Runner runner(lab.graph, compiled, lab.clock);
  add_leaves(0, 10);
  EXPECT_EQ(runner.run({}, {}).rules[0].matches, 10u);
  add_leaves(10, 13);  // few: found from what is new
  EXPECT_EQ(runner.run({}, {}).rules[0].matches, 3u);
  add_leaves(13, 90);  // most: found by looking at all
  EXPECT_EQ(runner.run({}, {}).rules[0].matches, 77u);
  EXPECT_EQ(runner.run({}, {}).rules[0].matches, 0u);
}

TEST(Rules, ConditionsAreAskedAgainWhenFactsChange) {
  // A fact per class: true once the class has a node with head `safe`.
  class Safe : public TypedAnalysis<uint8_t> {
   public:
    explicit Safe(Head head) : head_(head) {}
    uint8_t make(const EGraph& graph, NodeId node) const override {
      return graph.head(node) == head_;
    }
    bool join(uint8_t& into, const uint8_t& from) const override {
      bool changed = from > into;
      into |= from;
      return changed;
    }

   private:
    Head head_;
  };
  egraph_suites::Names names;
  Safe safe(names.number("safe"));
  EGraph graph(names.options(&safe));
  auto resolve = names.resolver();
  ClassId top = add_term(graph, parse_term("(div x (f y))", resolve).value()).value();
  std::vector<Rule> rules;
  rules.push_back(rewrite("guarded", "(div ?a ?b)", "(fast ?a ?b)", resolve,
                          [&](const EGraph&, const Match& match) { return safe[match["b"]] != 0; })
                      .value());
  rules.push_back(rewrite("f", "(f ?a)", "(g (g ?a))", resolve).value());
  rules.push_back(rewrite("g", "(g (g ?a))", "(h ?a)", resolve).value());
  rules.push_back(rewrite("h", "(h ?a)", "safe", resolve).value());
  std::vector<CompiledRule> compiled = compile_rules(rules).value();
  common::SteadyClock clock;
  RunReport report = Runner(graph, compiled, clock).run({}, {});
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_GE(report.rules[0].rejected, 1u);
  EXPECT_EQ(report.rules[0].applied, 1u);
  ClassId fast = add_term(graph, parse_term("(fast x (f y))", resolve).value()).value();
  EXPECT_EQ(graph.find(top), graph.find(fast));
}

TEST(Rules, NonIncrementalRulesSeeEverythingEveryTime) {
  Lab lab;
  lab.add("(count x)");
  lab.add("(f (f (f (f y))))");
  lab.rule("(f (f ?a))", "(f ?a)");
  int seen = 0;
  lab.rule("(count ?a)",
           [&](EGraph&, const Match&) {
             ++seen;
             return std::optional<ClassId>();
           })
      .incremental = false;
  RunReport report = lab.run();
  EXPECT_EQ(static_cast<uint64_t>(seen), report.iterations);
  EXPECT_GE(seen, 2);
}

}  // namespace
}  // namespace coordinator
