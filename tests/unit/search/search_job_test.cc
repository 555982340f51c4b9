// The job's search: if these fail, searches are not reproducible, run duplicates, or end badly.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/llir/kernel_identity.h"
#include "common/ir/llir/load_time.h"
#include "coordinator/search/genes/genome.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::GraphBuilder;
using common::InputKind;
using common::ReduceOp;
using common::TaskKind;
using common::TaskOutcome;
using common::UnaryOp;
using IrNode = common::NodeId;

common::Graph model() {
  GraphBuilder b;
  IrNode h = b.input(InputKind::kUser, DType::kFloat32, {8, 32}, "x");
  for (int layer = 0; layer < 3; ++layer) {
    IrNode w = b.input(InputKind::kWeight, DType::kFloat32, {32, 32}, "w");
    IrNode y = b.unary(UnaryOp::kTanh, b.matmul(h, b.permute(w, {1, 0})));
    IrNode top = b.reduce(ReduceOp::kMax, y, {1}, true);
    IrNode e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, y, top));
    h = b.binary(BinaryOp::kAdd, h,
                 b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {1}, true)));
  }
  b.output(h);
  return b.finish();
}

// A device whose times follow from kernels' identities alone.
CandidateResult measure(const CandidateTask& task) {
  CandidateResult result;
  result.worker = "simulated";
  for (const common::Kernel& kernel : task.payload.program.kernels) {
    uint64_t noise = common::kernel_fingerprint(kernel).prefix64() % 1000;
    result.report.kernel_ns.push_back(500 + noise);
    result.report.kernels.emplace_back();
  }
  std::vector<char> at_load = common::load_time_calls(task.payload.program);
  for (size_t c = 0; c < at_load.size(); ++c) {
    const common::Call& call = task.payload.program.calls[c];
    if (at_load[c]) continue;
    result.report.total_ns += result.report.kernel_ns[static_cast<size_t>(call.kernel)];
  }
  result.report.runs = 10;
  return result;
}

struct Trace {
  std::vector<std::string> fingerprints;  // without comparisons
  common::Result<SearchOutcome> outcome = common::internal_error("not run");
};

// Keeps up to `parallel` candidates in flight and answers them in an order drawn from `order_seed`.
Trace run(const SearchOptions& options, size_t parallel, uint64_t order_seed,
          const std::function<CandidateResult(const CandidateTask&)>& device = measure,
          const MeasurementSource* earlier = nullptr) {
  auto search = JobSearch::create(model(), options, earlier);
  EXPECT_TRUE(search.ok());
  common::Random random(order_seed);
  Trace trace;
  std::vector<CandidateTask> flying;
  while (!(*search)->done()) {
    for (auto& task : (*search)->propose(static_cast<int>(parallel - flying.size()))) {
      bool is_candidate = task.payload.kind != TaskKind::kComparison;
      if (is_candidate) trace.fingerprints.push_back(task.fingerprint.hex());
      flying.push_back(std::move(task));
    }
    if (flying.empty() && (*search)->done()) break;
    if (flying.empty()) {
      ADD_FAILURE() << "the search neither proposes nor ends";
      break;
    }
    size_t k = random.below(flying.size());
    (*search)->on_result(flying[k].id, device(flying[k]));
    flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(k));
  }
  trace.outcome = (*search)->outcome();
  return trace;
}

SearchOptions options(int64_t budget, uint64_t seed = 1) {
  SearchOptions o;
  o.budget = budget;
  o.seed = seed;
  o.target.name = "cpu-test";
  return o;
}

// What people are told: from the plain program's result on there is a best, it is a whole program
// that was measured, and it never rises; what is expected is another number.
TEST(JobSearch, TheBestIsMeasuredAndNeverRises) {
  auto search = JobSearch::create(model(), options(48), nullptr);
  ASSERT_TRUE(search.ok());
  int64_t least = 0;
  int expected = 0;
  while (!(*search)->done()) {
    for (const CandidateTask& task : (*search)->propose(4)) {
      CandidateResult result = measure(task);
      // A program that is wrong has no time.
      if (task.id % 7 == 3) result.outcome = TaskOutcome::kWrong;
      (*search)->on_result(task.id, result);
      bool is_whole = task.region < 0 && result.outcome == TaskOutcome::kOk;
      auto ns = static_cast<int64_t>(result.report.total_ns);
      if (is_whole) least = least == 0 ? ns : std::min(least, ns);
      SearchStatus status = (*search)->status();
      EXPECT_EQ(status.best_ns, least) << task.id;
      EXPECT_GT(status.best_ns, 0) << task.id;
      expected += status.expected_ns > 0 && status.expected_ns != status.best_ns ? 1 : 0;
    }
  }
  SearchStatus status = (*search)->status();
  EXPECT_EQ(status.best_ns, (*search)->outcome()->plan.provenance.best_ns);
  EXPECT_EQ(status.expected_ns, status.best_ns);
  EXPECT_LT(status.best_ns, status.baseline_ns);
  EXPECT_GT(expected, 10);
}

// Predictions and results go by them.
TEST(JobSearch, EveryStrategySendsTheHashesOfBodies) {
  for (SearchStrategy strategy :
       {SearchStrategy::kRandom, SearchStrategy::kGenetic, SearchStrategy::kModel}) {
    SearchOptions o = options(32);
    o.strategy = strategy;
    int sent = 0;
    run(o, 4, 1, [&](const CandidateTask& task) {
      ++sent;
      EXPECT_EQ(task.bodies, common::body_hashes(task.payload.program)) << task.origin;
      return measure(task);
    });
    EXPECT_GE(sent, 32);
  }
}

TEST(JobSearch, SameSeedSameCandidatesWhateverTheOrderOfResults) {
  Trace reference = run(options(48), 4, 1);
  ASSERT_TRUE(reference.outcome.ok());
  for (size_t parallel : {1u, 2u, 8u}) {
    for (uint64_t order = 2; order < 5; ++order) {
      Trace other = run(options(48), parallel, order);
      EXPECT_EQ(other.fingerprints, reference.fingerprints) << parallel << " in flight";
      EXPECT_EQ(other.outcome->plan, reference.outcome->plan);
    }
  }
  EXPECT_NE(run(options(48, 2), 4, 1).fingerprints, reference.fingerprints);
}

TEST(JobSearch, CandidatesInFlightAreWhatTheSequenceFollows) {
  SearchOptions narrow = options(48), wide = options(48);
  narrow.in_flight = 4;
  wide.in_flight = 40;
  Trace reference = run(wide, 4, 1);
  EXPECT_NE(run(narrow, 4, 1).fingerprints, reference.fingerprints);
  for (size_t parallel : {1u, 8u, 40u}) {
    EXPECT_EQ(run(wide, parallel, 2).fingerprints, reference.fingerprints) << parallel;
  }
  // As many as that are sent before anything is known, and no more.
  for (const SearchOptions& o : {narrow, wide}) {
    auto search = JobSearch::create(model(), o, nullptr);
    ASSERT_TRUE(search.ok());
    EXPECT_EQ(static_cast<int64_t>((*search)->propose(100).size()), o.in_flight);
  }
}

TEST(JobSearch, APolicyThatIsNoneIsRefused) {
  SearchOptions o = options(8);
  o.policy = "sloppy";
  auto search = JobSearch::create(model(), o, nullptr);
  ASSERT_FALSE(search.ok());
  EXPECT_EQ(search.error().code, common::Code::kInvalidInput);
}

// exp(x) / sum(exp(x)): a softmax only while no exponential overflows.
TEST(JobSearch, OnlyTheRelaxedPolicyTakesRulesForFiniteValues) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {8, 32}, "x");
  IrNode e = b.unary(UnaryOp::kExp, x);
  b.output(b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {1}, true)));
  common::Graph graph = b.finish();
  std::map<std::string, bool> has_softmax;
  std::map<std::string, common::Digest> keys;
  for (const char* policy : {"strict", "relaxed"}) {
    SearchOptions o = options(24);
    o.policy = policy;
    auto search = JobSearch::create(graph, o, nullptr);
    ASSERT_TRUE(search.ok()) << search.error().message;
    while (!(*search)->done()) {
      for (const CandidateTask& task : (*search)->propose(1)) {
        for (const common::Kernel& kernel : task.payload.program.kernels) {
          for (const common::Node& node : kernel.body.nodes) {
            has_softmax[policy] = has_softmax[policy] || node.op == common::Op::kSoftmax;
          }
        }
        (*search)->on_result(task.id, measure(task));
      }
    }
    auto outcome = (*search)->outcome();
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    EXPECT_EQ(outcome->plan.key.policy, policy);
    keys[policy] = outcome->plan.key.digest();
  }
  EXPECT_FALSE(has_softmax["strict"]);
  EXPECT_TRUE(has_softmax["relaxed"]);
  EXPECT_NE(keys["strict"], keys["relaxed"]);
}

// Remembers every kernel as soon as it was measured, as a farm's store does.
class Store : public MeasurementSource {
 public:
  std::optional<int64_t> kernel_ns(const common::Digest& kernel) const override {
    auto it = times.find(kernel);
    return it == times.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<TuningRecord> record(TuningRecordKind, const common::Digest& key) const override {
    auto it = tuning_records.find(key);
    return it == tuning_records.end() ? std::nullopt : std::optional(it->second);
  }
  std::map<common::Digest, int64_t> times;
  std::map<common::Digest, TuningRecord> tuning_records;
};

TEST(JobSearch, ItsOwnMeasurementsInTheStoreDoNotChangeItsCourse) {
  Trace reference = run(options(48), 4, 1);
  Store store;
  auto remember = [&](const CandidateTask& task) {
    CandidateResult result = measure(task);
    for (size_t k = 0; k < task.payload.program.kernels.size(); ++k) {
      store.times[common::kernel_fingerprint(task.payload.program.kernels[k])] =
          static_cast<int64_t>(result.report.kernel_ns[k]);
    }
    return result;
  };
  EXPECT_EQ(run(options(48), 4, 1, remember, &store).fingerprints, reference.fingerprints);
}

TEST(JobSearch, KnownKernelsAreReused) {
  Store store;
  auto remember = [&](const CandidateTask& task) {
    CandidateResult result = measure(task);
    for (size_t k = 0; k < task.payload.program.kernels.size(); ++k) {
      store.times[common::kernel_fingerprint(task.payload.program.kernels[k])] =
          static_cast<int64_t>(result.report.kernel_ns[k]);
    }
    return result;
  };
  run(options(48), 4, 1, remember, &store);
  auto search = JobSearch::create(model(), options(48), &store);
  ASSERT_TRUE(search.ok());
  EXPECT_GT((*search)->status().reused, 0);
}

TEST(JobSearch, NeverSendsAProgramTwiceAndKeepsItsBudget) {
  Trace trace = run(options(64), 4, 1);
  EXPECT_LE(trace.fingerprints.size(), 64u);
  std::set<std::string> distinct(trace.fingerprints.begin(), trace.fingerprints.end());
  // A finalist may equal the baseline or the single region's best, so only those may repeat.
  EXPECT_GE(distinct.size() + 3, trace.fingerprints.size());
}

TEST(JobSearch, MoreBudgetNeverEndsWorseOnADeviceWithoutNoise) {
  int64_t previous = INT64_MAX;
  for (int64_t budget : {1, 2, 8, 32, 128}) {
    Trace trace = run(options(budget), 4, 1);
    ASSERT_TRUE(trace.outcome.ok());
    EXPECT_LE(trace.outcome->plan.provenance.best_ns, previous) << budget;
    previous = trace.outcome->plan.provenance.best_ns;
  }
}

TEST(JobSearch, FallsBackToThePlainLowering) {
  auto only_plain = [](const CandidateTask& task) {
    CandidateResult result = measure(task);
    bool is_lowering = task.origin == "lowering" || task.origin == "comparison";
    if (!is_lowering) result.outcome = TaskOutcome::kWrong;
    return result;
  };
  Trace trace = run(options(16), 4, 1, only_plain);
  ASSERT_TRUE(trace.outcome.ok()) << trace.outcome.error().message;
  EXPECT_EQ(trace.outcome->plan.provenance.best_ns, trace.outcome->plan.provenance.baseline_ns);
}

// The first clients run it, and short searches end with it.
TEST(JobSearch, TheFirstProgramIsTheCostModelsChoice) {
  auto search = JobSearch::create(model(), options(16), nullptr);
  ASSERT_TRUE(search.ok());
  common::Program chosen = (*search)->best_program();
  CandidateTask first = (*search)->propose(1).at(0);
  EXPECT_EQ(first.payload.kind, TaskKind::kBaseline);
  EXPECT_EQ(first.payload.program, chosen);
  (*search)->on_result(first.id, measure(first));
  // What it taught of its parts is not asked for again.
  for (const CandidateTask& task : (*search)->propose(4)) {
    for (const common::Kernel& kernel : task.payload.program.kernels) {
      bool is_new = std::none_of(chosen.kernels.begin(), chosen.kernels.end(),
                                 [&](const common::Kernel& known) { return known == kernel; });
      if (is_new) return;
    }
    ADD_FAILURE() << "candidate " << task.id << " holds nothing new";
  }
}

TEST(JobSearch, PartsOfAFirstProgramThatFailedAreTriedByThemselves) {
  auto search = JobSearch::create(model(), options(32), nullptr);
  ASSERT_TRUE(search.ok());
  CandidateTask first = (*search)->propose(1).at(0);
  CandidateResult wrong = measure(first);
  wrong.outcome = TaskOutcome::kWrong;
  (*search)->on_result(first.id, wrong);
  const std::vector<common::Kernel>& parts = first.payload.program.kernels;
  size_t known = 0;
  while (!(*search)->done()) {
    for (const CandidateTask& task : (*search)->propose(1)) {
      (*search)->on_result(task.id, measure(task));
      const std::vector<common::Kernel>& kernels = task.payload.program.kernels;
      bool is_part = task.region >= 0 &&
                     std::all_of(kernels.begin(), kernels.end(), [&](const common::Kernel& kernel) {
                       return common::contains(parts, kernel);
                     });
      if (is_part) known += kernels.size();
    }
  }
  EXPECT_EQ(known, parts.size());
  EXPECT_TRUE((*search)->outcome().ok());
}

TEST(JobSearch, SaysWhyNothingWorked) {
  auto broken = [](const CandidateTask&) {
    CandidateResult result;
    result.outcome = TaskOutcome::kWrong;
    result.message = "output 0 differs";
    return result;
  };
  for (int64_t budget : {1, 16}) {
    Trace trace = run(options(budget), 4, 1, broken);
    ASSERT_FALSE(trace.outcome.ok());
    EXPECT_EQ(trace.outcome.error().code, common::Code::kVerification);
    EXPECT_NE(trace.outcome.error().message.find("output 0 differs"), std::string::npos);
  }
}

TEST(JobSearch, ARepeatedBlockIsOneRegion) {
  auto search = JobSearch::create(model(), options(8), nullptr);
  ASSERT_TRUE(search.ok());
  EXPECT_EQ((*search)->status().regions, 1);
}

// One layer: a matmul, then something elementwise.
common::Graph layer(int64_t size, UnaryOp op) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {8, size}, "x");
  IrNode w = b.input(InputKind::kWeight, DType::kFloat32, {size, size}, "w");
  b.output(b.binary(BinaryOp::kAdd, x, b.unary(op, b.matmul(x, w))));
  return b.finish();
}

// Loop kernels that candidates try for the first time, and how many of these have a vector width of
// 16.
struct Loops {
  double wide = 0, all = 0;
  double share() const { return wide / all; }
};
void count_loops(const RegionCandidate& candidate, Loops& loops) {
  std::vector<char> at_load = common::load_time_calls(*candidate.program);
  std::set<int> run;
  for (size_t c = 0; c < at_load.size(); ++c) {
    if (!at_load[c]) run.insert(candidate.program->calls[c].kernel);
  }
  for (size_t k : candidate.untried) {
    const common::Kernel& kernel = candidate.program->kernels[k];
    if (run.count(static_cast<int>(k)) == 0) continue;
    if (kernel.form != common::Template::kLoops) continue;
    ++loops.all;
    loops.wide += common::schedule_value(kernel.schedule, kernel.form, "vector") == 16 ? 1 : 0;
  }
}

// Regions of one job share what they learn about kernels: on a device where wide loops are ten
// times as fast, a region that was never measured begins with them after another was searched.
TEST(GuidedSearch, WhatWonInOneRegionIsTriedInTheNext) {
  common::SteadyClock clock;
  RegionSpace first(layer(32, UnaryOp::kTanh), clock), second(layer(48, UnaryOp::kSigmoid), clock);
  auto wide_loops = [](const common::Kernel& kernel) {
    bool is_wide = kernel.form == common::Template::kLoops &&
                   common::schedule_value(kernel.schedule, kernel.form, "vector") == 16;
    return is_wide ? 1'000.0 : 10'000.0;
  };
  KernelTimes shared(nullptr, {{}}), fresh(nullptr, {{}});
  auto teacher = RegionSearch::create(first, shared, 1, SearchStrategy::kModel);
  for (int n = 0; n < 60; ++n) {
    auto candidate = teacher->propose();
    if (!candidate) break;
    double total = 0;
    std::vector<uint64_t> kernel_ns;
    for (const common::Kernel& kernel : candidate->program->kernels) {
      kernel_ns.push_back(static_cast<uint64_t>(wide_loops(kernel)));
      total += wide_loops(kernel);
    }
    shared.record(*candidate->program, candidate->bodies, kernel_ns);
    teacher->tell(*candidate, total);
    shared.learn();
  }
  Loops taught, untaught;
  auto pupil = RegionSearch::create(second, shared, 1, SearchStrategy::kModel);
  auto alone = RegionSearch::create(second, fresh, 1, SearchStrategy::kModel);
  constexpr int kFirst = 6;
  for (int n = 0; n < kFirst; ++n) {
    auto a = pupil->propose(), b = alone->propose();
    ASSERT_TRUE(a && b);
    count_loops(*a, taught);
    count_loops(*b, untaught);
  }
  EXPECT_GT(taught.share(), 0.6);
  EXPECT_LT(untaught.share(), 0.4);
}

TEST(Genome, HashIsIndependentOfTheOrderOfMutations) {
  GeneName a{GeneKind::kStore, 3, 0};
  GeneName b{GeneKind::kParameter, 3, 1};
  Genome x, y;
  x.set(a, 1);
  x.set(b, 16);
  y.set(b, 8);
  y.set(a, 1);
  EXPECT_NE(x.hash(), y.hash());
  y.set(b, 16);
  EXPECT_EQ(x.hash(), y.hash());
  y.erase(a);
  y.erase(b);
  EXPECT_EQ(y.hash(), Genome().hash());
}

}  // namespace
}  // namespace coordinator
