// What a search takes for the best schedule of a kernel and for the structure to begin with: if
// these fail, it follows noise, or what was right for other kernels.
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "coordinator/search/passes/passes.h"
#include "coordinator/search/records/kernel_times.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {
namespace {

constexpr ScheduleCode kOwnChoice = 0, kOther = 1;

// Of one kernel that was never measured.
struct Times {
  KernelTimes all;
  KernelId id = 0;
  KernelTraits traits;
};

Times times_of_a_kernel(const EffectTable* priors = nullptr) {
  common::GraphBuilder b;
  auto x = b.input(common::InputKind::kUser, common::DType::kFloat32, {1024}, "x");
  b.output(b.unary(common::UnaryOp::kTanh, x));
  common::Graph graph = b.finish();
  Compilation compilation(graph, {"cpu-x86_64-avx512"}, Numerics::kStrict);
  common::Program program = default_program(compilation);
  const common::Call& call = program.calls.at(0);
  const common::Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
  const common::Digest body = common::graph_hash(kernel.body);
  Times times{KernelTimes(nullptr, {{}}, priors), 0,
              traits_of(kernel, body, {{}}, common::device_terms({}))};
  times.id = times.all.intern(kernel, body, call);
  return times;
}

TEST(KernelTimes, ScheduleThatIsHardlyFasterDoesNotReplaceTheOwnChoice) {
  for (bool own_first : {true, false}) {
    Times times = times_of_a_kernel();
    for (ScheduleCode code : {own_first ? kOwnChoice : kOther, own_first ? kOther : kOwnChoice}) {
      times.all.record(times.id, code, code == kOwnChoice ? 100'000 : 99'800);
    }
    EXPECT_EQ(times.all.best(times.id)->code, kOwnChoice) << own_first;
    EXPECT_EQ(times.all.best(times.id)->ns, 100'000);
  }
}

TEST(KernelTimes, FasterScheduleReplacesTheOwnChoice) {
  Times times = times_of_a_kernel();
  times.all.record(times.id, kOwnChoice, 100'000);
  times.all.record(times.id, kOther, 99'000);
  EXPECT_EQ(times.all.best(times.id)->code, kOther);
  // It was a lucky sample.
  times.all.record(times.id, kOther, 120'000);
  times.all.record(times.id, kOther, 120'000);
  EXPECT_EQ(times.all.best(times.id)->code, kOwnChoice);
}

// An L4 reads 300 GB/s, an L40S 864, a slice of either as much a multiprocessor.
TEST(KernelTimes, PredictionsAreTheMachines) {
  common::GraphBuilder b;
  auto x = b.input(common::InputKind::kUser, common::DType::kFloat32, {1 << 24}, "x");
  b.output(b.unary(common::UnaryOp::kNeg, x));
  const common::Target target{"cuda-sm_89"};
  Compilation compilation(b.finish(), target, Numerics::kStrict);
  common::Program program = default_program(compilation);
  auto predicted = [&](const std::string& machine) {
    KernelTimes times(nullptr, {{}}, nullptr, target, machine);
    const common::Call& call = program.calls.at(0);
    const common::Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
    return times.predicted(times.intern(kernel, common::graph_hash(kernel.body), call), 0);
  };
  const double l40s = predicted("NVIDIA L40S, 142 SMs, 44 GiB, 350 W");
  EXPECT_EQ(predicted(""), l40s) << "the target's typical machine";
  EXPECT_EQ(predicted("A machine of another kind"), l40s);
  EXPECT_GT(predicted("NVIDIA L4, 58 SMs, 22 GiB, 72 W"), 2 * l40s);
}

// Elsewhere every feature of the default schedule made kernels slower, and the others made them
// faster.
TEST(KernelTimes, EarlierSearchesCompareSchedulesAndNotKernels) {
  const Times plain = times_of_a_kernel();
  EffectTable priors;
  for (Feature feature : features_of(plain.traits, kOwnChoice)) priors[feature] = {0.5, 100};
  double faster = 0;
  for (Feature feature : features_of(plain.traits, kOther)) {
    const bool is_shared = !priors.emplace(feature, Effect{-0.25, 100}).second;
    faster += is_shared ? 0 : 0.75;
  }
  ASSERT_GT(faster, 0);
  const Times informed = times_of_a_kernel(&priors);
  auto ratio = [&](ScheduleCode code) {
    return informed.all.predicted(informed.id, code) / plain.all.predicted(plain.id, code);
  };
  EXPECT_NEAR(ratio(kOwnChoice), 1, 1e-9);
  EXPECT_NEAR(ratio(kOther), std::exp(-faster), 1e-9);
}

// Elementwise operations on what no cache holds: one kernel computes them all in one pass.
common::Graph chain() {
  common::GraphBuilder b;
  common::NodeId x = b.input(common::InputKind::kUser, common::DType::kFloat32, {2048, 2048}, "x");
  for (int k = 0; k < 4; ++k)
    x = b.unary(k % 2 == 0 ? common::UnaryOp::kNeg : common::UnaryOp::kAbs,
                b.binary(common::BinaryOp::kAdd, x, x));
  b.output(x);
  return b.finish();
}

TEST(KinGenome, WaitsWhereItsStructureIsPredictedToTakeMuchLonger) {
  common::SteadyClock clock;
  const common::Target target{"cpu-x86_64-avx512"};
  RegionSpace space(chain(), clock, Numerics::kStrict, common::machine_of(target));
  Genome stored;  // every value in memory
  for (const Site& site : space.decode({}).sites) {
    if (site.name.kind == GeneKind::kStore) stored.set(site.name, 1);
  }
  auto origins = [&](const Genome& kin) {
    KernelTimes times(nullptr, {{{}, 1}}, nullptr, target);
    auto search = RegionSearch::create(space, times, 0, SearchStrategy::kModel, &kin);
    std::vector<std::string> found;
    for (int k = 0; k < 2; ++k) found.emplace_back(search->propose()->origin);
    return found;
  };
  EXPECT_EQ(origins({})[0], "kin");
  EXPECT_EQ(origins(stored), (std::vector<std::string>{"seed", "kin"}));
}

}  // namespace
}  // namespace coordinator
