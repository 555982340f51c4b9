// What is told of many runs: if these fail, candidates are ranked by other times than they took.
// The device computes as the CPU does, but its timer says what the test wrote down.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/ir/expr/expr.h"
#include "common/runtime/device/cpu_device.h"
#include "tests/unit/runtime/runtime_testing.h"
#include "worker/profile/disturbance.h"
#include "worker/profile/measure.h"
#include "worker/profile/run_delay.h"
#include "worker/profile/sampler.h"

namespace worker {
namespace {

using common::Device;
using common::Result;
using common::Status;

// Intervals come from a list, over and over.
class WrittenTimer : public common::Timer {
 public:
  WrittenTimer(const std::vector<int64_t>& script, size_t& next) : script_(script), next_(next) {}
  void mark() override { ++marks_; }
  Result<std::vector<int64_t>> take_intervals_ns() override {
    std::vector<int64_t> intervals;
    for (; marks_ > 1; --marks_) intervals.push_back(script_[next_++ % script_.size()]);
    marks_ = 0;
    return intervals;
  }

 private:
  const std::vector<int64_t>& script_;
  size_t& next_;
  size_t marks_ = 0;
};

// How long a run takes while something slows the device down.
constexpr int64_t kSlowedNs = 77'777;

class WrittenDevice : public Device {
 public:
  explicit WrittenDevice(std::vector<int64_t> script) : script_(std::move(script)) {}
  const common::Target& target() const override { return cpu_->target(); }
  // So that what else this machine does disturbs nothing.
  bool uses_host_memory() const override { return false; }
  int concurrency() const override { return cpu_->concurrency(); }
  Result<std::shared_ptr<common::Module>> load(const common::Digest& digest,
                                               common::ByteView object) override {
    return cpu_->load(digest, object);
  }
  Result<common::DeviceMemory> allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  Status copy_in(std::byte* device, common::ByteView host) override {
    return cpu_->copy_in(device, host);
  }
  Status copy_out(std::span<std::byte> host, const std::byte* device) override {
    return cpu_->copy_out(host, device);
  }
  Status copy(std::byte* to, const std::byte* from, size_t bytes) override {
    return cpu_->copy(to, from, bytes);
  }
  Status fill(std::byte* device, std::byte value, size_t bytes) override {
    return cpu_->fill(device, value, bytes);
  }
  Status launch(const common::Launch& launch) override { return cpu_->launch(launch); }
  Status gemm(const common::GemmSizes& sizes, const void* a, const void* b, void* out) override {
    return cpu_->gemm(sizes, a, b, out);
  }
  bool has_gemm() const override { return cpu_->has_gemm(); }
  Status synchronise() override { return cpu_->synchronise(); }
  std::unique_ptr<common::Timer> make_timer(size_t) override {
    return std::make_unique<WrittenTimer>(script_, next_);
  }
  std::string slowdown() const override {
    return script_[(next_ - 1) % script_.size()] == kSlowedNs ? "hot" : "";
  }

 private:
  void release(std::byte*, size_t) override {}  // what it hands out is the CPU's
  std::unique_ptr<Device> cpu_ = common::make_cpu_device();
  std::vector<int64_t> script_;
  size_t next_ = 0;
};

// The plan of a kernel that copies a number.
struct Copying {
  explicit Copying(std::vector<int64_t> script) : device(std::move(script)) {
    static const common::Bytes object =
        common::compile_object("KERNEL(copies) { ((float*)b[1])[0] = ((float*)b[0])[0]; }");
    common::PlanMaker m;
    int x = m.input({1}), out = m.output({1});
    m.call(m.kernel("copies"), {x}, {out});
    common::Plan plan = m.finish(object);
    plan.key.target = device.target();
    auto loaded = common::Executor::load(
        plan, [](const common::Digest&) -> Result<common::ByteView> { return {object}; }, device);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    executor = std::move(*loaded);
    inputs.push_back(common::HostTensor::zeros(common::DType::kFloat32, {1}).value());
  }
  WrittenDevice device;
  std::unique_ptr<common::Executor> executor;
  std::vector<common::HostTensor> inputs;
};

Measurement measured(std::vector<int64_t> script, const common::MeasureOptions& options) {
  Copying copying(std::move(script));
  auto result = measure(*copying.executor, copying.inputs, options);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return *result;
}

TEST(Sampler, ARunThatWaitedForAProcessorDoesNotFillASample) {
  Copying copying({500, 9'000'000, 500, 500});
  Sampler sampler(*copying.executor, copying.inputs);
  ASSERT_TRUE(sampler.warm_up().ok());
  auto sample = sampler.take(50'000);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->run_ns.front(), 9'000'000u);
  EXPECT_GE(sample->run_ns.size(), 30u) << "8 usual runs' time for each that waited";
}

TEST(Measure, TellsTheMiddleOfRunsAndTheirSpread) {
  common::MeasureOptions options;
  options.warmups = 0;
  options.repetitions = 4000;
  Measurement m = measured({10'000, 30'000, 31'000, 90'000}, options);
  EXPECT_GE(m.runs, 4000u);
  EXPECT_NEAR(static_cast<double>(m.total_ns), 30'500, 20);
  EXPECT_GT(m.spread_ns, 0u);
  ASSERT_EQ(m.call_ns.size(), 1u);
  EXPECT_NEAR(static_cast<double>(m.call_ns[0]), 30'500, 20);
}

// Whole runs were done when something else took the processor.
TEST(Measure, CallsThatWaitedAddUpToAWholeRun) {
  std::vector<int64_t> script(310, 20'000);  // a little more than kShortRunsNs
  script.insert(script.end(), 1'000, 700'000);
  Measurement m = measured(script, {.warmups = 0, .repetitions = 1});
  EXPECT_EQ(m.total_ns, 20'000u);
  EXPECT_EQ(m.call_ns, std::vector<uint64_t>{20'000});
}

// A clock that ticks every 10 ns shows a run of 67 ns as 60 or 70, and an interruption as what it
// is.
TEST(Measure, TellsShortRunsToLessThanATick) {
  common::MeasureOptions options;
  options.warmups = 0;
  options.repetitions = 4000;
  std::vector<int64_t> script;
  for (int k = 0; k < 100; ++k) script.insert(script.end(), {60, 70, 70});
  script.push_back(50'000);
  Measurement m = measured(script, options);
  EXPECT_EQ(m.total_ns, 67u);
  EXPECT_EQ(m.call_ns, std::vector<uint64_t>{67});
}

TEST(Measure, SteadyRunsHaveNoSpread) {
  Measurement m = measured({250}, {});
  EXPECT_EQ(m.total_ns, 250u);
  EXPECT_EQ(m.spread_ns, 0u);
}

// However many repetitions are asked for.
TEST(Measure, StopsWhenTheTimeIsUp) {
  common::MeasureOptions options;
  options.repetitions = 2'000'000'000;
  options.time_max_ms = 5;
  Measurement m = measured({250}, options);
  EXPECT_LT(m.runs, options.repetitions);
  EXPECT_EQ(m.call_ns.size(), 1u);
}

// A hot device is not a slow candidate, unless it is always hot.
TEST(Measure, LeavesOutRunsThatWereSlowedDown) {
  common::MeasureOptions options;
  options.warmups = 0;
  options.repetitions = 1;
  options.per_kernel = false;
  Measurement m = measured({kSlowedNs, 100}, options);
  EXPECT_EQ(m.total_ns, 100u);
  EXPECT_EQ(m.spread_ns, 0u);
  EXPECT_EQ(measured({kSlowedNs}, options).total_ns, static_cast<uint64_t>(kSlowedNs));
}

// Of what is given up, only that it was too slow is told.
TEST(Measure, GivesUpWhatIsTooSlow) {
  common::MeasureOptions options;
  options.warmups = 0;
  options.repetitions = 2'000'000'000;
  options.time_max_ms = 2'000;
  options.give_up_ns = 1'000;
  Measurement m = measured({5'000}, options);
  EXPECT_EQ(m.total_ns, 5'000u);
  EXPECT_TRUE(m.call_ns.empty());
  EXPECT_EQ(measured({900}, {.give_up_ns = 1'000}).call_ns.size(), 1u);
}

TEST(Compare, TellsRatiosOfProgramsThatTakeTurns) {
  Copying plain({600'000}), rival({200'000}), slow({900'000});
  std::vector<Loaded> programs;
  for (Copying* one : {&plain, &rival, &slow}) {
    programs.push_back({one->executor.get(), one->inputs});
  }
  common::MeasureOptions options;
  options.repetitions = 30;
  auto compared = compare(programs, options);
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  ASSERT_EQ(compared->all.size(), 3u);
  EXPECT_EQ(compared->all[1].total_ns, 200'000u);
  EXPECT_DOUBLE_EQ(compared->ratios[0].median, 1);
  EXPECT_DOUBLE_EQ(compared->ratios[1].median, 3);
  EXPECT_DOUBLE_EQ(compared->ratios[1].low, 3);
  EXPECT_DOUBLE_EQ(compared->ratios[2].high, 600.0 / 900);
}

// The interval holds what a ratio is when rounds differ, and not what one of them was.
TEST(Compare, TheIntervalIsThatOfTheMedian) {
  std::vector<int64_t> script;
  for (int64_t k = 0; k < 40; ++k) script.push_back(200'000 + (k * 7919) % 20'000);
  script.push_back(2'000'000);  // an accident
  Copying plain({400'000}), rival(script);
  std::vector<Loaded> programs{{plain.executor.get(), plain.inputs},
                               {rival.executor.get(), rival.inputs}};
  common::MeasureOptions options;
  options.repetitions = 60;
  auto compared = compare(programs, options);
  ASSERT_TRUE(compared.ok()) << compared.error().message;
  const Ratio& ratio = compared->ratios[1];
  EXPECT_LT(ratio.low, ratio.median);
  EXPECT_LT(ratio.median, ratio.high);
  EXPECT_GT(ratio.low, 400.0 / 220);
  EXPECT_LT(ratio.high, 400.0 / 200);
}

TEST(Compare, AFewDisturbedRoundsAreNotCertain) {
  common::MeasureOptions one_round;
  one_round.time_max_ms = 0;
  auto ratio_beside = [&](int64_t plain_ns) {
    Copying plain({plain_ns}), rival({20'000});
    std::vector<Loaded> programs{{plain.executor.get(), plain.inputs},
                                 {rival.executor.get(), rival.inputs}};
    auto compared = compare(programs, one_round);
    EXPECT_TRUE(compared.ok()) << compared.error().message;
    return compared->ratios[1];
  };
  Ratio quiet = ratio_beside(80'000), disturbed = ratio_beside(kSlowedNs);
  EXPECT_DOUBLE_EQ(quiet.low, 4);
  EXPECT_DOUBLE_EQ(quiet.high, 4);
  EXPECT_LE(disturbed.low, 0.5 * disturbed.median);
  EXPECT_GE(disturbed.high, 2 * disturbed.median);
}

TEST(Compare, EndsWhenTheTimeIsUp) {
  Copying plain({1'000}), rival({900});
  std::vector<Loaded> programs{{plain.executor.get(), plain.inputs},
                               {rival.executor.get(), rival.inputs}};
  common::MeasureOptions options;
  options.repetitions = 2'000'000'000;
  options.time_max_ms = 1;
  EXPECT_TRUE(compare(programs, options).ok());
}

void spin(int64_t ns) {
  common::SteadyClock clock;
  for (int64_t end = clock.now_ns() + ns; clock.now_ns() < end;) {
  }
}

// A process that computes on the processor that this thread is bound to from now on.
class Neighbour {
 public:
  Neighbour() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
    ::sched_setaffinity(0, sizeof one, &one);
    child_ = ::fork();
    if (child_ == 0) {
      ::alarm(60);
      for (;;) spin(1'000'000);
    }
  }
  ~Neighbour() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_;
  pid_t child_ = -1;
};

TEST(Disturbance, ANeighbourOnTheSameProcessorIsSeen) {
  auto device = common::make_cpu_device();
  DisturbanceMeter meter(*device);
  Neighbour neighbour;
  // Of the first interval nobody knows beforehand that it will be long; of the others it is looked
  // at how long threads waited.
  for (int k = 0; k < 3; ++k) {
    meter.begin();
    spin(200'000'000);
    EXPECT_TRUE(meter.end()) << k;
  }
}

TEST(Disturbance, WaitingForAProcessorIsCounted) {
  std::optional<int64_t> before_ns = run_delay_ns();
  if (!before_ns) GTEST_SKIP() << "this kernel does not tell for how long threads wait";
  Neighbour neighbour;
  spin(200'000'000);
  std::optional<int64_t> after_ns = run_delay_ns();
  ASSERT_TRUE(after_ns);
  EXPECT_GT(*after_ns - *before_ns, 20'000'000) << "half of the time is the neighbour's";
}

// However busy the machine is, most time slices are longer than a sample.
TEST(Disturbance, ShortSamplesBetweenSwitchesAreUndisturbed) {
  auto device = common::make_cpu_device();
  DisturbanceMeter meter(*device);
  Neighbour neighbour;
  int undisturbed = 0;
  for (int k = 0; k < 2'000; ++k) {
    meter.begin();
    spin(50'000);
    undisturbed += meter.end() ? 0 : 1;
  }
  EXPECT_GT(undisturbed, 200);
}

}  // namespace
}  // namespace worker
