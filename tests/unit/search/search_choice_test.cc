// Which program a search ends with: if these fail, a busy machine's accidents decide it, searches
// end slower than the plain plan, or claim more than was measured.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "common/ir/hlir/builder.h"
#include "coordinator/search/final_choice.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/partition/search_sizes.h"
#include "coordinator/search/whole_tasks.h"

namespace coordinator {
namespace {

using common::RivalReport;
using common::TaskKind;
using common::TaskOutcome;

// Programs that differ in nothing but the number of buffers, which is enough for fingerprints.
common::Program program(size_t buffers) {
  common::Program made;
  made.buffers.resize(buffers);
  return made;
}

std::vector<Contender> contenders(const std::vector<uint64_t>& total_ns) {
  std::vector<Contender> all;
  for (uint64_t ns : total_ns) all.push_back({program(all.size() + 1), ns});
  return all;
}

CandidateResult compared(uint64_t plain_ns, std::vector<RivalReport> rivals, double disturbed = 0) {
  CandidateResult result;
  result.outcome = TaskOutcome::kOk;
  result.report.total_ns = plain_ns;
  result.report.rivals = std::move(rivals);
  result.report.disturbed = disturbed;
  return result;
}

TEST(FinalChoice, RatiosDecideAndNotTimesOfOtherMinutes) {
  FinalChoice choice(contenders({35'000, 235'000, 236'000}));
  auto task = choice.next();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->payload.kind, TaskKind::kComparison);
  EXPECT_EQ(task->payload.rivals.size(), 2u);
  EXPECT_FALSE(choice.next()) << "one at a time";
  choice.tell(compared(36'000, {{9'600, 90, 3.75, 3.7, 3.8}, {9'500, 80, 3.79, 3.75, 3.83}}));
  ASSERT_TRUE(choice.is_decided());
  EXPECT_EQ(choice.choice().contender, 2u);
  EXPECT_EQ(choice.choice().total_ns, 9'500u);
  EXPECT_EQ(choice.choice().first_ns, 36'000u);
  EXPECT_EQ(choice.choice().speedup_low, 3.75);
  EXPECT_EQ(choice.choice().note, "");
}

TEST(FinalChoice, WhatIsNotFasterThanThePlainPlanIsNotChosen) {
  FinalChoice choice(contenders({100, 90}));
  choice.next();
  choice.tell(compared(100, {{104, 1, 0.96, 0.95, 0.97}}));
  ASSERT_TRUE(choice.is_decided());
  EXPECT_EQ(choice.choice().contender, 0u);
  EXPECT_EQ(choice.choice().speedup, 1);
}

TEST(FinalChoice, WhatCannotBeToldApartIsComparedAgainAndThenSaid) {
  FinalChoice choice(contenders({100, 90}));
  common::Digest last;
  uint32_t time_ms = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_FALSE(choice.is_decided());
    auto task = choice.next();
    ASSERT_TRUE(task);
    EXPECT_NE(task->fingerprint, last) << "its result would be known already";
    EXPECT_GT(task->payload.measure.time_max_ms, time_ms);
    last = task->fingerprint;
    time_ms = task->payload.measure.time_max_ms;
    choice.tell(compared(100, {{98, 30, 1.02, 0.8, 1.3}}, 0.9));
  }
  ASSERT_TRUE(choice.is_decided());
  EXPECT_EQ(
      choice.choice().note,
      "the best candidate and the plain plan cannot be told apart (0.80 to 1.30 times as fast);"
      " other work disturbed 90 % of the measurements: search again where the machine is "
      "quieter");
}

TEST(FinalChoice, ADisturbedComparisonIsMadeAgainAndTheLastOneCounts) {
  FinalChoice choice(contenders({100, 90, 91}));
  choice.next();
  choice.tell(compared(300, {{100, 90, 3.0, 1.5, 4.5}, {150, 90, 2.0, 1.2, 4.0}}, 0.8));
  EXPECT_FALSE(choice.is_decided());
  choice.next();
  choice.tell(compared(100, {{60, 1, 1.66, 1.65, 1.67}, {50, 1, 2.0, 1.98, 2.02}}, 0.8));
  ASSERT_TRUE(choice.is_decided());
  EXPECT_EQ(choice.choice().contender, 2u);
  EXPECT_EQ(choice.choice().note, "");
}

TEST(FinalChoice, WithoutAComparisonTheLeastTimeCounts) {
  CandidateResult refused;
  refused.outcome = TaskOutcome::kCompileError;
  for (const CandidateResult& answer : {refused, compared(100, {})}) {
    FinalChoice choice(contenders({100, 90, 80}));
    choice.next();
    choice.tell(answer);
    ASSERT_TRUE(choice.is_decided());
    EXPECT_EQ(choice.choice().contender, 2u);
    EXPECT_EQ(choice.choice().total_ns, 80u);
    EXPECT_EQ(choice.choice().speedup, 0) << "nothing was compared";
  }
}

TEST(FinalChoice, OneProgramNeedsNoComparison) {
  FinalChoice choice(contenders({100}));
  EXPECT_TRUE(choice.is_decided());
  EXPECT_FALSE(choice.next());
  EXPECT_EQ(choice.choice().total_ns, 100u);
}

TEST(FinalChoice, TheQuickestByThemselvesAreCompared) {
  FinalChoice choice(contenders({100, 60, 50, 90, 40, 70, 80}));
  auto task = choice.next();
  ASSERT_TRUE(task);
  ASSERT_EQ(task->payload.rivals.size(), 4u);
  EXPECT_EQ(task->payload.rivals[0].buffers.size(), 5u);
  EXPECT_EQ(task->payload.rivals[3].buffers.size(), 6u);
}

// ---- In a whole search -------------------------------------------------------------------------

common::Graph model() {
  common::GraphBuilder b;
  common::NodeId h = b.input(common::InputKind::kUser, common::DType::kFloat32, {8, 32}, "x");
  for (int layer = 0; layer < 2; ++layer) {
    common::NodeId w = b.input(common::InputKind::kWeight, common::DType::kFloat32, {32, 32}, "w");
    h = b.binary(common::BinaryOp::kAdd, h, b.unary(common::UnaryOp::kTanh, b.matmul(h, w)));
  }
  b.output(h);
  return b.finish();
}

// Takes as long as the program has kernels.
CandidateResult measure(const CandidateTask& task) {
  CandidateResult result;
  result.worker = "simulated";
  result.report.toolchain = "cc";
  auto ns_of = [](const common::Program& program) {
    uint64_t ns = 0;
    for (const common::Kernel& kernel : program.kernels) {
      ns += 500 + common::kernel_fingerprint(kernel).prefix64() % 1000;
    }
    return ns;
  };
  for (const common::Kernel& kernel : task.payload.program.kernels) {
    result.report.kernel_ns.push_back(500 + common::kernel_fingerprint(kernel).prefix64() % 1000);
    result.report.kernels.emplace_back();
  }
  result.report.total_ns = ns_of(task.payload.program);
  for (const common::Program& rival : task.payload.rivals) {
    uint64_t ns = ns_of(rival);
    double ratio = static_cast<double>(result.report.total_ns) / static_cast<double>(ns);
    result.report.rivals.push_back({ns, 0, ratio, ratio, ratio});
  }
  return result;
}

struct Ended {
  common::Result<SearchOutcome> outcome = common::internal_error("not run");
  std::vector<SearchOutcome> interim;
  std::vector<CandidateTask> sent;
  std::map<common::Digest, TuningRecord> tuning_records;
};

Ended search(SearchOptions options,
             const std::function<CandidateResult(const CandidateTask&)>& device = measure) {
  options.target.name = "cpu-test";
  auto made = JobSearch::create(model(), options, nullptr);
  EXPECT_TRUE(made.ok());
  Ended ended;
  while (!(*made)->done()) {
    std::vector<CandidateTask> tasks = (*made)->propose(4);
    EXPECT_NE(tasks.empty(), !(*made)->done()) << "the search neither proposes nor ends";
    if (tasks.empty()) break;
    for (CandidateTask& task : tasks) {
      (*made)->on_result(task.id, device(task));
      ended.sent.push_back(std::move(task));
      for (SearchOutcome& plan : (*made)->take_interim()) ended.interim.push_back(std::move(plan));
    }
  }
  ended.outcome = (*made)->outcome();
  ended.tuning_records = (*made)->tuning_records();
  return ended;
}

SearchOptions options(int64_t budget) {
  SearchOptions made;
  made.budget = budget;
  made.in_flight = 4;
  return made;
}

// A whole graph's references may take longer than a short search has, and the first program is
// waited for.
TEST(WholeCandidates, TakeAShareOfTheSearchForTheirReferences) {
  for (int64_t time_ms : {0, 4'000, 40'000}) {
    SearchOptions limited = options(12);
    limited.time_ms = time_ms;
    size_t finalists = 0;
    for (const CandidateTask& task : search(limited).sent) {
      bool is_finalist = task.payload.kind == TaskKind::kFinalist;
      uint32_t expected = !is_finalist       ? 1'500
                          : time_ms == 0     ? 6'000
                          : time_ms == 4'000 ? 1'500
                                             : 5'000;
      EXPECT_EQ(task.payload.verify.references_ms, expected) << task.origin << " " << time_ms;
      finalists += is_finalist ? 1 : 0;
    }
    EXPECT_GT(finalists, 0u);
  }
}

TEST(JobSearch, PlansNameTheToolchainOfTheirMeasurement) {
  Ended ended = search(options(12));
  ASSERT_TRUE(ended.outcome.ok());
  EXPECT_EQ(ended.outcome->plan.provenance.toolchain, "cc");
  ASSERT_FALSE(ended.interim.empty());
  EXPECT_EQ(ended.interim[0].plan.provenance.toolchain, "cc");
}

// Finalists that are measured while something else runs look slow, and are chosen all the same.
TEST(JobSearch, FinalistsAreComparedWithThePlainPlan) {
  auto busy_at_the_end = [](const CandidateTask& task) {
    CandidateResult result = measure(task);
    if (task.payload.kind == TaskKind::kFinalist) result.report.total_ns *= 25;
    return result;
  };
  Ended ended = search(options(48), busy_at_the_end);
  ASSERT_TRUE(ended.outcome.ok());
  const common::Provenance& provenance = ended.outcome->plan.provenance;
  EXPECT_GT(provenance.speedup.ratio, 1);
  EXPECT_LT(provenance.best_ns, provenance.baseline_ns);
  EXPECT_NEAR(provenance.speedup.ratio,
              static_cast<double>(provenance.baseline_ns) / static_cast<double>(provenance.best_ns),
              1e-3);
}

TEST(JobSearch, ThePlainPlanIsHandedOutFirstAndThenOnlyBetterOnes) {
  Ended ended = search(options(96));
  ASSERT_FALSE(ended.interim.empty());
  EXPECT_EQ(ended.interim[0].candidate, 0u);
  int64_t last_ns = ended.interim[0].plan.provenance.best_ns;
  EXPECT_EQ(last_ns, ended.interim[0].plan.provenance.baseline_ns);
  ASSERT_GE(ended.interim.size(), 2u) << "nothing better came on the way";
  for (size_t k = 1; k < ended.interim.size(); ++k) {
    EXPECT_LT(ended.interim[k].plan.provenance.best_ns, last_ns);
    last_ns = ended.interim[k].plan.provenance.best_ns;
  }
  EXPECT_LE(ended.outcome->plan.provenance.best_ns, last_ns);
}

// A plan that an earlier search found stays where a later one finds nothing better.
TEST(JobSearch, TheKeptPlanTakesPartInTheChoice) {
  Ended thorough = search(options(200));
  ASSERT_TRUE(thorough.outcome.ok());
  SearchOptions few = options(3);
  few.seed = 7;
  int64_t alone_ns = search(few).outcome->plan.provenance.best_ns;
  int64_t kept_ns = thorough.outcome->plan.provenance.best_ns;
  ASSERT_LT(kept_ns, alone_ns);
  for (const CandidateTask& task : thorough.sent) {
    if (task.id == thorough.outcome->candidate) {
      few.incumbent = std::make_shared<const common::Program>(task.payload.program);
    }
  }
  ASSERT_NE(few.incumbent, nullptr);
  Ended again = search(few);
  ASSERT_TRUE(again.outcome.ok());
  EXPECT_EQ(again.outcome->plan.provenance.best_ns, kept_ns);
}

// That the plain plan won says nothing against what earlier searches found of its parts.
TEST(JobSearch, AFinalistThatIsRightButSlowWithdrawsNothing) {
  auto plain_wins = [](const CandidateTask& task) {
    CandidateResult result = measure(task);
    for (RivalReport& rival : result.report.rivals) rival = {1'000'000, 0, 0.5, 0.5, 0.5};
    return result;
  };
  Ended ended = search(options(48), plain_wins);
  ASSERT_TRUE(ended.outcome.ok());
  EXPECT_EQ(ended.outcome->plan.provenance.best_ns, ended.outcome->plan.provenance.baseline_ns);
  ASSERT_FALSE(ended.tuning_records.empty());
  for (const auto& [key, record] : ended.tuning_records) EXPECT_GE(record.ns, 0);
}

// s0 rows times a square matrix.
common::Graph rows_graph(std::vector<common::SymbolRange> symbols, int64_t columns = 8) {
  common::GraphBuilder g(std::move(symbols));
  auto x = g.input(common::InputKind::kUser, common::DType::kFloat32,
                   {common::Expr::symbol(0), columns}, "x");
  auto w = g.input(common::InputKind::kWeight, common::DType::kFloat32, {columns, columns}, "w");
  g.output(g.matmul(x, w));
  return g.finish();
}

using Sizes = std::vector<std::vector<int64_t>>;

// Every loop over a symbol's size is run in several blocks with a ragged end, where the size
// allows, and at its ends, whatever the time.
TEST(VerifiedSizes, HaveSeveralBlocksAndRaggedEnds) {
  auto sizes = [](std::vector<common::SymbolRange> symbols) {
    return verified_sizes(rows_graph(std::move(symbols))).sizes;
  };
  EXPECT_EQ(sizes({{1, 4096}}), (Sizes{{32}, {2039}, {197}, {1}, {19}}));
  EXPECT_EQ(sizes({{2, 64}}), (Sizes{{32}, {64}, {2}, {19}}));
  EXPECT_EQ(sizes({{1, 4096}, {8, 2048}}),
            (Sizes{{32, 32}, {2039, 32}, {32, 2039}, {197, 32}, {32, 197}, {1, 8}, {19, 19}}));
  EXPECT_EQ(sizes({{7, 7}}), Sizes{{7}});
  EXPECT_EQ(verified_sizes(rows_graph({{1, 4096}})).always, 2U);
  EXPECT_EQ(verified_sizes(rows_graph({{7, 7}})).always, 1U);
}

// The interpreter must not take minutes: what a large graph has is less, and never nothing.
TEST(VerifiedSizes, AreSmallerForLargeGraphs) {
  auto large = [](int64_t columns) {
    common::VerifyOptions options = verified_sizes(rows_graph({{1, 4096}}, columns));
    return options.always > 1 ? options.sizes[1][0] : 0;
  };
  EXPECT_EQ(large(1024), 2039);
  EXPECT_EQ(large(2048), 1021);
  EXPECT_EQ(large(6000), 197);
  EXPECT_EQ(large(10000), 67);
  EXPECT_EQ(large(40000), 0);
}

// Schedules are measured over a range, and what is large is no larger than a machine can repeat.
TEST(SearchSizes, AreLeastTypicalAndLarge) {
  auto sizes = [](const common::Graph& graph, const char* target) {
    Sizes all;
    for (const auto& each : search_sizes(graph, {target})) all.push_back(each.sizes);
    return all;
  };
  EXPECT_EQ(sizes(rows_graph({{1, 4096}}), "cpu"), (Sizes{{32}, {1}, {2048}}));
  EXPECT_EQ(sizes(rows_graph({{1, 4096}}, 4096), "cpu"), (Sizes{{32}, {1}, {128}}));
  EXPECT_EQ(sizes(rows_graph({{1, 4096}}, 4096), "cuda-sm_90a"), (Sizes{{32}, {1}, {2048}}));
  EXPECT_EQ(sizes(rows_graph({{1, 4096}}, 16384), "cpu"), (Sizes{{32}, {1}}));
}

}  // namespace
}  // namespace coordinator
