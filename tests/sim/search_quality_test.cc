// Searches on a simulated device: if these fail, more budget can end in a worse plan, plans depend
// on who measured first, or what was learned is lost or not used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/llir/load_time.h"
#include "common/ir/roll/roll.h"
#include "common/wire/ir_codec.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/fusion_gate.h"
#include "tests/bench/search/simulated_device.h"
#include "tests/paths/paths.h"
#include "tests/unit/search/search_testing.h"

namespace coordinator {
namespace {

using bench::SimulatedDevice;

const common::Graph& model(const std::string& name) {
  static std::map<std::string, common::Graph> known;
  auto it = known.find(name);
  if (it == known.end()) {
    auto loaded = clients::load_model(paths::fixtures("/models/") + name + "/model.pt2");
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    it = known.emplace(name, std::move(loaded->graph)).first;
  }
  return it->second;
}

SearchOptions options(int64_t budget, uint64_t seed) {
  SearchOptions o;
  o.budget = budget;
  o.seed = seed;
  o.target.name = "cpu-simulated";
  return o;
}

struct Finished {
  common::Plan plan;
  EffectTable learned;
  std::map<common::Digest, TuningRecord> tuning_records;
};

// Keeps up to `parallel` candidates in flight and answers them in an order drawn from `order`.
template <class Device>
Finished search_graph(const common::Graph& graph, const SearchOptions& options, Device& device,
                      size_t parallel = 1, uint64_t order = 1,
                      const MeasurementSource* earlier = nullptr) {
  auto made = JobSearch::create(graph, options, earlier);
  EXPECT_TRUE(made.ok());
  JobSearch& job = **made;
  common::Random random(order);
  std::vector<CandidateTask> flying;
  while (!job.done()) {
    for (auto& task : job.propose(static_cast<int>(parallel - flying.size()))) {
      flying.push_back(std::move(task));
    }
    if (flying.empty() && job.done()) break;
    if (flying.empty()) {
      ADD_FAILURE() << "the search neither proposes nor ends";
      return {};
    }
    size_t k = random.below(flying.size());
    job.on_result(flying[k].id, device.measure(flying[k]));
    flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(k));
  }
  auto outcome = job.outcome();
  EXPECT_TRUE(outcome.ok());
  return {std::move(outcome->plan), job.learned(), job.tuning_records()};
}

template <class Device>
Finished search(const std::string& name, const SearchOptions& options, Device& device,
                size_t parallel = 1, uint64_t order = 1) {
  return search_graph(model(name), options, device, parallel, order);
}

constexpr SimulatedDevice::Noise kRecorded{0.03, 5, false};
constexpr const char* kModels[] = {"mlp", "mlp_dynamic", "kv_step", "llama"};

TEST(SearchQuality, MoreBudgetNeverEndsWorseOnRecordedMeasurements) {
  for (const char* name : kModels) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      // A kernel's measurement is the same whenever it is taken; that of the plan is their sum.
      SimulatedDevice device({0.03, seed, false});
      int64_t previous = std::numeric_limits<int64_t>::max();
      for (int64_t budget : {10, 100, 500}) {
        if (budget == 500 && seed != 1) continue;
        int64_t ns = search(name, options(budget, seed), device).plan.provenance.best_ns;
        EXPECT_LE(ns, previous) << name << ", seed " << seed << ", budget " << budget;
        previous = ns;
      }
    }
  }
}

TEST(SearchQuality, SameSeedAndMeasurementsGiveTheSameBytesWhoeverIsFirst) {
  for (const char* name : kModels) {
    SimulatedDevice device({0.03, 9, true});
    common::Bytes reference = common::encode_plan(search(name, options(60, 3), device).plan);
    for (size_t parallel : {2u, 5u, 12u}) {
      for (uint64_t order : {1u, 2u}) {
        SimulatedDevice another({0.03, 9, true});
        auto plan = search(name, options(60, 3), another, parallel, order).plan;
        EXPECT_EQ(common::encode_plan(plan), reference) << name << ", " << parallel;
      }
    }
  }
}

// Four seeds of these measurements end after 545 to 1,760 candidates, whatever they may take.
TEST(SearchQuality, EndsEarlyWhenMoreCandidatesAreWorthLittle) {
  SearchOptions o = options(3'000, 1);
  SimulatedDevice device(kRecorded);
  common::Plan whole = search("mlp", o, device).plan;
  o.stop_gain = 0.01;
  common::Plan part = search("mlp", o, device).plan;
  EXPECT_LT(part.provenance.search.candidates, 2'400);
  EXPECT_GT(part.provenance.search.candidates, 60);
  EXPECT_EQ(search("mlp", o, device, 8, 2).plan, part);
  EXPECT_LE(static_cast<double>(part.provenance.best_ns),
            1.05 * static_cast<double>(whole.provenance.best_ns));
}

TEST(SearchQuality, PlansHoldPredictedBesideMeasuredTimes) {
  SimulatedDevice device(kRecorded);
  common::Plan plan = search("llama", options(60, 1), device).plan;
  EXPECT_EQ(plan.provenance.prediction.calibration, "measured");
  EXPECT_GT(plan.provenance.prediction.ns, 0);
  EXPECT_GT(plan.provenance.prediction.schedules, 60u);
  EXPECT_GT(plan.provenance.prediction.rank_correlation, 0.8);
  std::vector<char> at_load = common::load_time_calls(plan);
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    if (at_load[c]) continue;
    const common::PlanKernel& kernel = plan.kernels[static_cast<size_t>(plan.calls[c].kernel)];
    EXPECT_GT(kernel.predicted_ns, 0) << "call " << c;
    EXPECT_GT(kernel.measured_ns, 0) << "call " << c;
  }
  std::string text = common::print_predictions(plan);
  for (const char* part :
       {"predicted", "order       predicted at 0.", "launches", "waits", "to host", "traffic"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

// Where loops with vectors of 16 are ten times as fast as all others.
class WideDevice {
 public:
  explicit WideDevice(uint64_t seed) : device_({0.03, seed, true}) {}
  CandidateResult measure(const CandidateTask& task) {
    CandidateResult result = device_.measure(task);
    const common::Program& program = task.payload.program;
    uint64_t total = 0;
    for (size_t k = 0; k < program.kernels.size(); ++k) {
      const common::Kernel& kernel = program.kernels[k];
      bool is_slow = kernel.form == common::Template::kLoops &&
                     common::schedule_value(kernel.schedule, kernel.form, "vector") != 16;
      if (is_slow) result.report.kernel_ns[k] *= 10;
    }
    for (const common::Call& call : program.calls) {
      total += result.report.kernel_ns[static_cast<size_t>(call.kernel)];
    }
    result.report.total_ns = total;
    return result;
  }

 private:
  SimulatedDevice device_;
};

TEST(SearchQuality, PriorsOfOtherGraphsSpeedTheFirstCandidates) {
  auto priors = std::make_shared<EffectTable>();
  for (const char* name : {"mlp", "mlp_dynamic", "llama"}) {
    WideDevice device(4);
    merge_effects(*priors, search(name, options(100, 2), device).learned);
  }
  ASSERT_FALSE(priors->empty());
  double with = 0, without = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    WideDevice device(seed);
    SearchOptions plain = options(12, seed);
    SearchOptions informed = plain;
    informed.priors = priors;
    without += std::log(search("kv_step", plain, device).plan.provenance.best_ns) / 6;
    with += std::log(search("kv_step", informed, device).plan.provenance.best_ns) / 6;
  }
  EXPECT_LT(with, without - std::log(1.2));
}

// Two layers of attention and a gate, for a batch.
common::Graph layers(int64_t batch) {
  using common::BinaryOp, common::DType, common::InputKind, common::UnaryOp;
  common::GraphBuilder b;
  auto weight = [&](int64_t rows, int64_t columns) {
    return b.input(InputKind::kWeight, DType::kFloat32, {rows, columns}, "w");
  };
  common::NodeId h = b.input(InputKind::kUser, DType::kFloat32, {batch, 64}, "x");
  for (int layer = 0; layer < 2; ++layer) {
    common::NodeId q = b.matmul(h, weight(64, 64)), k = b.matmul(h, weight(64, 64));
    common::NodeId scores = b.matmul(q, b.permute(k, {1, 0}));
    common::NodeId top = b.reduce(common::ReduceOp::kMax, scores, {1}, true);
    common::NodeId e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, scores, top));
    common::NodeId sum = b.reduce(common::ReduceOp::kSum, e, {1}, true);
    common::NodeId seen = b.matmul(b.binary(BinaryOp::kDiv, e, sum), h);
    common::NodeId gate = b.unary(UnaryOp::kSigmoid, b.matmul(seen, weight(64, 64)));
    h = b.binary(BinaryOp::kAdd, h, b.binary(BinaryOp::kMul, gate, seen));
  }
  b.output(h);
  return b.finish();
}

TEST(SearchQuality, AnotherBatchTakesAThirdOfTheSearch) {
  double share = 0, worse = 0, without = 0;
  constexpr uint64_t kSeeds = 10;
  constexpr int64_t kWhole = 120;  // candidates: a third of them alone leave something to find
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedDevice device({0.0, seed, false});
    SearchOptions o = options(kWhole, seed);
    Memory memory;
    memory.tuning_records = search_graph(layers(48), o, device).tuning_records;
    common::Plan whole = search_graph(layers(192), o, device).plan;
    common::Plan kin = search_graph(layers(192), o, device, 1, 1, &memory).plan;
    o.budget = kin.provenance.search.candidates;
    common::Plan alone = search_graph(layers(192), o, device).plan;
    auto ratio = [&](const common::Plan& plan) {
      return std::log(static_cast<double>(plan.provenance.best_ns) /
                      static_cast<double>(whole.provenance.best_ns));
    };
    share += static_cast<double>(kin.provenance.search.candidates) / kWhole / kSeeds;
    worse += ratio(kin) / kSeeds;
    without += ratio(alone) / kSeeds;
  }
  EXPECT_LT(share, 1.0 / 3);
  EXPECT_LT(worse, std::log(1.05)) << "a search that began elsewhere ends worse than a whole one";
  EXPECT_LT(worse, without) << "the beginning is worth nothing";
}

TEST(Effects, AreLearnedFromMeasurementsAndTakenOver) {
  // Features 11 and 12 multiply times by e^0.5 and e^-0.25.
  const Feature one[] = {7, 11}, two[] = {7, 12}, unknown[] = {9};
  EffectModel model(nullptr);
  EXPECT_EQ(model.mean(unknown), 0);
  for (int k = 0; k < 160; ++k) {
    model.add(one, 0.5);
    model.add(two, -0.25);
    model.fit();
  }
  EXPECT_NEAR(model.mean(one), 0.5, 0.02);
  EXPECT_NEAR(model.mean(two), -0.25, 0.02);
  // What both have in common is the machine's, and a kernel of unknown features has that much.
  EXPECT_NEAR(model.mean(unknown), 0.125, 0.02);
  EXPECT_LT(model.deviation(one), model.deviation(unknown));

  EffectTable priors;
  merge_effects(priors, model.learned());
  EffectModel later(&priors);
  EXPECT_NEAR(later.mean(one), 0.5, 0.02);
  // Contrary measurements outrank what others found.
  for (int k = 0; k < 200; ++k) later.add(one, -1);
  for (int k = 0; k < 50; ++k) {
    later.add(one, -1);
    later.fit();
  }
  EXPECT_NEAR(later.mean(one), -1, 0.1);
}

TEST(FusionGate, OverrulesOnlyWithCalibratedPredictions) {
  EXPECT_TRUE(std::isinf(fusion_margin(Calibration::kNone)));
  EXPECT_GT(fusion_margin(Calibration::kDefault), fusion_margin(Calibration::kMeasured));
  common::SteadyClock clock;
  Cut cut = cut_into_regions(common::roll(model("llama")));
  auto largest = std::max_element(
      cut.regions.begin(), cut.regions.end(),
      [](const Region& a, const Region& b) { return a.graph.nodes.size() < b.graph.nodes.size(); });
  RegionSpace space(largest->graph, clock);
  // Few kernels are good, whatever they hold.
  auto worth = [&](const Genome& genome) {
    return static_cast<double>(space.structure(genome)->fused.shell.calls.size());
  };
  Gated measured = gate_fusion(space, Calibration::kMeasured, worth, 1000);
  Gated none = gate_fusion(space, Calibration::kNone, worth, 1000);
  ASSERT_FALSE(measured.decisions.empty());
  EXPECT_EQ(none.genome.size(), 0u);
  EXPECT_LE(worth(measured.genome), worth({}));
  for (const FusionDecision& decision : measured.decisions) {
    if (decision.is_materialised == decision.was_materialised) continue;
    EXPECT_FALSE(decision.is_materialised) << print(decision);
    EXPECT_LT(decision.in_place_ns, decision.stored_ns);
  }
}

TEST(FusionGate, OnAGpuASavedLaunchIsReasonEnough) {
  common::SteadyClock clock;
  Cut cut = cut_into_regions(common::roll(model("llama")));
  const Region& region = *std::max_element(
      cut.regions.begin(), cut.regions.end(),
      [](const Region& a, const Region& b) { return a.graph.nodes.size() < b.graph.nodes.size(); });
  RegionSpace gpu(region.graph, clock, Numerics::kStrict, common::Machine::kGpu);
  // A launch is far less than a hundredth of all.
  auto worth = [&](const Genome& genome) {
    return 1e7 + 1200 * static_cast<double>(gpu.structure(genome)->fused.shell.calls.size());
  };
  size_t before = gpu.structure({})->fused.shell.calls.size();
  Gated gated = gate_fusion(gpu, Calibration::kDefault, worth, 1000);
  EXPECT_LT(gpu.structure(gated.genome)->fused.shell.calls.size(), before);
  EXPECT_EQ(gate_fusion(gpu, Calibration::kNone, worth, 1000).genome.size(), 0u);
}

TEST(FusionGate, OnAGpuValuesThatShareALaunchAreDecidedTogether) {
  common::SteadyClock clock;
  // Three projections of one row, each rounded: sums in one launch, and rounded in another.
  using common::DType, common::InputKind;
  common::GraphBuilder b;
  common::NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {1, 256}, "x");
  for (int64_t columns : {256, 64, 128}) {
    common::NodeId w = b.input(InputKind::kWeight, DType::kBfloat16, {256, columns}, "w");
    common::NodeId sums = b.matmul(b.cast(x, DType::kFloat32), b.cast(w, DType::kFloat32));
    b.output(b.cast(sums, DType::kBfloat16));
  }
  RegionSpace gpu(b.finish(), clock, Numerics::kStrict, common::Machine::kGpu);
  auto worth = [&](const Genome& genome) {
    return 1e6 + 1200 * static_cast<double>(gpu.structure(genome)->fused.shell.calls.size());
  };
  Gated gated = gate_fusion(gpu, Calibration::kDefault, worth, 1000);
  EXPECT_EQ(gpu.structure({})->fused.shell.calls.size(), 2u);
  EXPECT_EQ(gpu.structure(gated.genome)->fused.shell.calls.size(), 1u);
}

TEST(SearchQuality, GuidedSearchFindsBetterPlansThanAPlainGeneticOne) {
  double guided = 0, plain = 0;
  for (const char* name : kModels) {
    SimulatedDevice device({0.03, 6, true});
    SearchOptions o = options(60, 6);
    guided += std::log(search(name, o, device).plan.provenance.best_ns);
    o.strategy = SearchStrategy::kGenetic;
    plain += std::log(search(name, o, device).plan.provenance.best_ns);
  }
  EXPECT_LT(guided, plain);
}

// A device on which one schedule value makes every kernel wrong.
TEST(SearchQuality, SchedulesThatFailAreLeftAlone) {
  SimulatedDevice device(kRecorded);
  auto made = JobSearch::create(model("mlp"), options(120, 1), nullptr);
  ASSERT_TRUE(made.ok());
  int failures = 0;
  int late_failures = 0;
  while (!(*made)->done()) {
    for (const CandidateTask& task : (*made)->propose(1)) {
      CandidateResult result = device.measure(task);
      for (const common::Kernel& kernel : task.payload.program.kernels) {
        for (const auto& parameter : kernel.schedule) {
          if (parameter.name != "unroll" || parameter.value != 8) continue;
          result = {};
          result.outcome = common::TaskOutcome::kWrong;
        }
      }
      if (result.outcome != common::TaskOutcome::kOk) {
        ++failures;
        late_failures += task.id >= 80 ? 1 : 0;
      }
      (*made)->on_result(task.id, result);
    }
  }
  EXPECT_TRUE((*made)->outcome().ok());
  EXPECT_GT(failures, 0) << "nothing was tested";
  EXPECT_LT(late_failures, 30) << failures << " candidates failed";
}

}  // namespace
}  // namespace coordinator
