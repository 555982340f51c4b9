// Runs: published counts, every stop reason, scheduling, determinism, and incremental matching
// against matching everything each time.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "coordinator/egraph/runner.h"
#include "egraph_suites.h"

namespace coordinator {
namespace {

// Moves on by a fixed step each time it is read.
class TickingClock final : public common::Clock {
 public:
  explicit TickingClock(int64_t step_ns) : step_ns_(step_ns) {}
  int64_t now_ns() const override { return now_ns_ += step_ns_; }

 private:
  int64_t step_ns_;
  mutable int64_t now_ns_ = 0;
};

struct Prepared {
  egraph_suites::Loaded loaded;
  TickingClock clock{1000};

  explicit Prepared(const std::string& suite) {
    common::Status status = egraph_suites::load(*egraph_suites::make_suite(suite), loaded);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  RunReport run(const RunLimits& limits, Scheduling scheduling = simple(),
                const std::function<bool(const EGraph&)>& goal = {}) {
    RunReport report = Runner(*loaded.graph, loaded.rules, clock).run(limits, scheduling, goal);
    common::Status status = loaded.graph->check_invariants();
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(report.nodes, loaded.graph->node_count());
    EXPECT_EQ(report.classes, loaded.graph->class_count());
    return report;
  }
  std::string dump() {
    return loaded.graph->dump([&](Head head) { return loaded.names.name(head); });
  }
  static Scheduling simple() {
    Scheduling scheduling;
    scheduling.kind = Scheduling::Kind::kSimple;
    return scheduling;
  }
};

RunReport run_suite(const std::string& name) {
  TickingClock clock(1000);
  return egraph_suites::run_suite(name, clock).value();
}

TEST(EGraphSuites, AcReachesItsClosedForm) {
  uint64_t power3 = 3, power2 = 2;
  for (uint64_t n = 1; n <= 8; ++n, power3 *= 3, power2 *= 2) {
    RunReport report = run_suite(common::cat("ac", n));
    EXPECT_EQ(report.stop, StopReason::kSaturated);
    EXPECT_EQ(report.nodes, power3 - 2 * power2 + 1 + n) << n;
    EXPECT_EQ(report.classes, power2 - 1) << n;
  }
}

TEST(EGraphSuites, ChainReachesItsClosedForm) {
  RunReport report = run_suite("chain1000");
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.nodes, 3002u);
  EXPECT_EQ(report.classes, 2002u);
  EXPECT_EQ(report.rules[0].matches, 1000u);
}

TEST(EGraphSuites, MathmicroReachesThePublishedCounts) {
  RunReport report = run_suite("mathmicro10");
  EXPECT_EQ(report.stop, StopReason::kIterationLimit);
  EXPECT_EQ(report.iterations, 10u);
  EXPECT_EQ(report.nodes, 136'446u);
  EXPECT_EQ(report.classes, 58'464u);
}

TEST(EGraphSuites, UnknownNamesAreErrors) {
  common::SteadyClock clock;
  EXPECT_FALSE(egraph_suites::run_suite("frob7", clock).ok());
  EXPECT_FALSE(egraph_suites::run_suite("ac", clock).ok());
  EXPECT_FALSE(egraph_suites::run_suite("ac0", clock).ok());
}

TEST(Runner, StopsAtTheNodeLimitWithinOnePercent) {
  for (uint64_t limit : {500u, 5'000u, 50'000u}) {
    Prepared prepared("mathmicro30");
    RunLimits limits;
    limits.nodes = limit;
    RunReport report = prepared.run(limits);
    EXPECT_EQ(report.stop, StopReason::kNodeLimit);
    EXPECT_LE(report.nodes, limit + limit / 100);
    EXPECT_GE(report.nodes, limit / 2);
  }
}

// An apply function adds what it wants; the run stops before the call that might go too far.
TEST(Runner, ApplyFunctionsKeepTheNodeLimitToo) {
  for (uint64_t limit : {200u, 1'000u, 10'000u}) {
    EGraph graph;
    ClassId seed = graph.add(0, {});
    for (Head leaf = 1; leaf <= 50; ++leaf) graph.add(100, {seed, graph.add(1000 + leaf, {})});
    Rule rule;
    rule.name = "grow";
    rule.patterns = {term(100, {variable("a"), variable("b")})};
    rule.apply = [](EGraph& g, const Match& match) -> std::optional<ClassId> {
      ClassId grown = match["b"];
      for (Head k = 0; k < 9; ++k) grown = g.add(200 + k, {grown});
      g.add(100, {match["a"], grown});
      return std::nullopt;
    };
    std::vector<CompiledRule> rules{compile_rule(rule).value()};
    TickingClock clock(1000);
    RunLimits limits;
    limits.nodes = limit;
    limits.iterations = 1'000;
    RunReport report = Runner(graph, rules, clock).run(limits, Prepared::simple());
    EXPECT_EQ(report.stop, StopReason::kNodeLimit);
    EXPECT_LE(report.nodes, limit + limit / 100);
    EXPECT_GE(report.nodes, limit - limit / 10);
  }
}

TEST(Runner, StopsAtTheTimeLimit) {
  Prepared prepared("mathmicro30");
  prepared.clock = TickingClock(10'000'000);
  RunLimits limits;
  limits.seconds = 3;
  RunReport report = prepared.run(limits);
  EXPECT_EQ(report.stop, StopReason::kTimeLimit);
  EXPECT_GE(report.seconds, 3);
  EXPECT_LT(report.seconds, 3.2);
}

TEST(Runner, StopsAtTheMemoryLimit) {
  Prepared prepared("mathmicro30");
  RunLimits limits;
  limits.bytes = 2 << 20;
  RunReport report = prepared.run(limits);
  EXPECT_EQ(report.stop, StopReason::kMemoryLimit);
  EXPECT_GE(report.bytes, limits.bytes / 2);
  EXPECT_LE(report.bytes, limits.bytes * 3 / 2);
}

TEST(Runner, StopsAtTheIterationLimit) {
  Prepared prepared("chain100");
  RunLimits limits;
  limits.iterations = 7;
  RunReport report = prepared.run(limits);
  EXPECT_EQ(report.stop, StopReason::kIterationLimit);
  EXPECT_EQ(report.iterations, 7u);
  EXPECT_EQ(report.rules[0].applied, 7u);
}

TEST(Runner, StopsAtTheGoal) {
  Prepared prepared("ac6");
  RunReport report = prepared.run({}, Prepared::simple(),
                                  [](const EGraph& graph) { return graph.node_count() > 100; });
  EXPECT_EQ(report.stop, StopReason::kGoal);
  EXPECT_LT(report.nodes, 608u);  // saturated: 3^6 - 2^7 + 1 + 6
  RunReport at_once = prepared.run({}, Prepared::simple(), [](const EGraph&) { return true; });
  EXPECT_EQ(at_once.stop, StopReason::kGoal);
  EXPECT_EQ(at_once.iterations, 0u);
}

TEST(Runner, ReasonsHaveNames) {
  EXPECT_STREQ(stop_reason_name(StopReason::kSaturated), "saturated");
  EXPECT_STREQ(stop_reason_name(StopReason::kGoal), "goal");
  EXPECT_STREQ(stop_reason_name(StopReason::kNodeLimit), "node_limit");
  EXPECT_STREQ(stop_reason_name(StopReason::kTimeLimit), "time_limit");
  EXPECT_STREQ(stop_reason_name(StopReason::kIterationLimit), "iteration_limit");
  EXPECT_STREQ(stop_reason_name(StopReason::kMemoryLimit), "memory_limit");
}

TEST(Runner, BackoffBansAndStillSaturates) {
  Prepared prepared("ac7");
  Scheduling backoff;
  backoff.match_limit = 20;
  backoff.ban_length = 2;
  RunLimits limits;
  limits.iterations = 1000;
  RunReport report = prepared.run(limits, backoff);
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.nodes, 2187u - 256 + 1 + 7);
  EXPECT_GT(report.rules[1].banned, 2u);
}

TEST(Runner, AnInterruptedRunGoesOnWhereItStopped) {
  Prepared prepared("ac7");
  std::vector<CompiledRule>& rules = prepared.loaded.rules;
  Runner runner(*prepared.loaded.graph, rules, prepared.clock);
  RunLimits limits;
  limits.iterations = 1;
  RunReport report;
  int runs = 0;
  do {
    report = runner.run(limits, Prepared::simple());
  } while (report.stop == StopReason::kIterationLimit && ++runs < 100);
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.nodes, 2187u - 256 + 1 + 7);
  // A new term is all that the rules look at then.
  prepared.loaded.graph->add(
      prepared.loaded.names.number("+"),
      {0, prepared.loaded.graph->add(prepared.loaded.names.number("z"), {})});
  report = runner.run(limits, Prepared::simple());
  EXPECT_LT(report.rules[1].matches, 300u);
}

TEST(Runner, EqualInputGivesEqualBytes) {
  for (const char* suite : {"mathmicro7", "ac6"}) {
    Prepared first(suite), second(suite);
    RunLimits limits;
    limits.iterations = 7;
    Scheduling backoff;
    backoff.match_limit = 50;
    RunReport a = first.run(limits, backoff), b = second.run(limits, backoff);
    EXPECT_EQ(first.dump(), second.dump());
    for (size_t i = 0; i < a.rules.size(); ++i) {
      EXPECT_EQ(a.rules[i].matches, b.rules[i].matches);
      EXPECT_EQ(a.rules[i].banned, b.rules[i].banned);
    }
  }
}

// Random rules over three families of heads, with shared variables and deep patterns.
class RandomWorld {
 public:
  explicit RandomWorld(uint64_t seed) : seed_(seed) {}

  void fill(egraph_suites::Loaded& out, bool incremental) const {
    common::Random random(seed_);
    out.graph.emplace(out.names.options());
    auto resolve = out.names.resolver();
    for (int i = 0; i < 12; ++i) {
      auto term = parse_term(random_term(random, 4, nullptr), resolve);
      EXPECT_TRUE(add_term(*out.graph, *term).ok());
    }
    std::vector<Rule> rules;
    while (rules.size() < 5) {
      std::vector<std::string> bound;
      std::string pattern = random_term(random, 2, &bound);
      if (random.chance(0.3)) pattern += common::cat(" ", random_term(random, 1, &bound));
      if (pattern[0] != '(' || bound.empty() || pattern.find(" ?", 1) == std::string::npos) {
        continue;
      }
      if (pattern.find(") ?") != std::string::npos && pattern.back() != ')') continue;
      std::string pick = bound[random.below(bound.size())];
      std::string other = bound[random.below(bound.size())];
      std::string result = random.chance(0.4) ? pick : common::cat("(g ", pick, " ", other, ")");
      auto rule = rewrite(common::cat(pattern, " => ", result), pattern, result, resolve);
      if (!rule.ok() || !compile_rule(*rule).ok()) continue;
      rule->incremental = incremental;
      rules.push_back(*rule);
    }
    out.rules = compile_rules(rules).value();
  }

 private:
  // With `variables`, a pattern; leaves become variables half of the time.
  static std::string random_term(common::Random& random, int depth,
                                 std::vector<std::string>* variables) {
    if (depth == 0 || (variables == nullptr && random.chance(0.2))) {
      if (variables != nullptr && random.chance(0.8)) {
        variables->push_back(common::cat("?", static_cast<char>('a' + random.below(3))));
        return variables->back();
      }
      return common::cat("leaf", random.below(3));
    }
    static const char* kHeads[] = {"g", "f", "view[0]", "view[1]", "h"};
    size_t pick = random.below(5);
    std::string head = kHeads[pick];
    if (variables != nullptr && head[0] == 'v' && random.chance(0.7)) head = "view@v";
    size_t arity = pick == 0 ? 2 : pick == 4 ? 3 : 1;
    std::string out = common::cat("(", head);
    for (size_t i = 0; i < arity; ++i) {
      int below = random.chance(0.3) ? 0 : depth - 1;
      out += common::cat(" ", random_term(random, below, variables));
    }
    return out + ")";
  }

  uint64_t seed_;
};

TEST(Runner, IncrementalMatchingFindsWhatFullMatchingFinds) {
  int saturated = 0;
  uint64_t saved = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomWorld world(seed);
    TickingClock clock(1);
    for (uint64_t iterations : {1, 2, 3, 8}) {
      SCOPED_TRACE(common::cat("seed ", seed, ", ", iterations, " iterations"));
      egraph_suites::Loaded incremental, full;
      world.fill(incremental, true);
      world.fill(full, false);
      ClassId start_classes = static_cast<ClassId>(full.graph->class_ids());
      RunLimits limits;
      limits.iterations = iterations;
      limits.nodes = 100'000;
      RunReport a =
          Runner(*incremental.graph, incremental.rules, clock).run(limits, Prepared::simple());
      RunReport b = Runner(*full.graph, full.rules, clock).run(limits, Prepared::simple());
      ASSERT_TRUE(incremental.graph->check_invariants().ok());
      ASSERT_TRUE(full.graph->check_invariants().ok());
      if (a.stop == StopReason::kNodeLimit || b.stop == StopReason::kNodeLimit) break;
      ASSERT_EQ(a.nodes, b.nodes);
      ASSERT_EQ(a.classes, b.classes);
      ASSERT_EQ(a.iterations, b.iterations);
      for (ClassId x = 0; x < start_classes; ++x) {
        for (ClassId y = 0; y < x; ++y) {
          ASSERT_EQ(incremental.graph->find(x) == incremental.graph->find(y),
                    full.graph->find(x) == full.graph->find(y));
        }
      }
      for (size_t r = 0; r < a.rules.size(); ++r) {
        ASSERT_LE(a.rules[r].matches, b.rules[r].matches) << a.rules[r].name;
        saved += b.rules[r].matches - a.rules[r].matches;
      }
      saturated += a.stop == StopReason::kSaturated;
    }
  }
  EXPECT_GT(saturated, 50);
  EXPECT_GT(saved, 1000u);
}

}  // namespace
}  // namespace coordinator
