// The rules of a scorecard: if these fail, a plan gets a grade, a bottleneck or a regression that
// its measurements do not give.
#include "clients/score/score.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "clients/score/other_runtime.h"
#include "clients/score/scorecard_text.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::Latency;

constexpr double kJust = 1e-9;

// 1 GFLOP/s and 1 GB/s: a nanosecond an operation, and a byte. 10 ns a launch.
Roofline plain_device() {
  Roofline roofline;
  roofline.device = "device";
  roofline.source = "given";
  roofline.operations_per_s = 1e9;
  roofline.reads = {{0, 1e9}};
  roofline.launch_ns = 10;
  return roofline;
}

KernelRun kernel(const std::string& name, double ns, double bytes, double operations) {
  KernelRun kernel;
  kernel.name = name;
  kernel.id = "id of " + name;
  kernel.operation = "matmul";
  kernel.calls = 1;
  kernel.latency = {ns, 0, 5};
  kernel.other_bytes = bytes;
  kernel.call_bytes = bytes;
  kernel.operations = operations;
  return kernel;
}

PlanRun run_of(double ns, std::vector<KernelRun> kernels) {
  PlanRun run;
  run.plan = std::string(64, 'a');
  run.graph = std::string(64, 'b');
  run.target = "cpu";
  run.latency = {ns, 0, 9};
  run.kernels = std::move(kernels);
  return run;
}

TEST(Grade, HoldsAtItsThreshold) {
  struct Case {
    double from;
    char grade, below;
  };
  for (const Case& c :
       {Case{0.60, 'A', 'B'}, Case{0.40, 'B', 'C'}, Case{0.20, 'C', 'D'}, Case{0.10, 'D', 'F'}}) {
    EXPECT_EQ(grade_of(c.from), c.grade) << c.from;
    EXPECT_EQ(grade_of(c.from + kJust), c.grade) << c.from;
    EXPECT_EQ(grade_of(c.from - kJust), c.below) << c.from;
  }
  EXPECT_EQ(grade_of(0.0), 'F');
  EXPECT_EQ(grade_of(3.0), 'A');
  EXPECT_EQ(grade_of(std::nullopt), '-');
}

TEST(Efficiency, IsTheLeastTimeOverTheTimeTaken) {
  Roofline device = plain_device();
  // One waits for bytes (300 ns), one for operations (200 ns).
  PlanRun run = run_of(1000, {kernel("a", 600, 300, 100), kernel("b", 300, 50, 200)});
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.5);
  // A kernel that ran when weights were bound counts for nothing.
  run.kernels.push_back(kernel("c", 0, 1e6, 1e6));
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.5);
  // One whose operations nobody knows counts its bytes.
  run.kernels[1].operations.reset();
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.35);
  run.kernels.clear();
  EXPECT_FALSE(efficiency_of(run, device));
  run.kernels = {kernel("a", 1, 1, 1)};
  run.latency.median_ns = 0;
  EXPECT_FALSE(efficiency_of(run, device));
}

TEST(Efficiency, IsThatOfTheModelWhereItIsKnown) {
  Roofline device = plain_device();
  device.half_operations_per_s = 4e9;
  PlanRun run = run_of(1000, {kernel("a", 900, 500, 100)});
  ModelWork work;
  work.bytes = 110;
  work.operations = 80;
  run.work = work;
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.11);
  EXPECT_DOUBLE_EQ(*kernel_efficiency_of(run, device), 0.5);
  run.work->operations = 800;
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.8);
  run.work->half_operations = 800;
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.2);
  run.work->half_operations = 400;
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.5);
  run.kernels.clear();
  EXPECT_FALSE(efficiency_of(run, device));
}

TEST(Efficiency, ReadsAtTheRateOfWhereThingsLie) {
  Roofline device = plain_device();
  device.reads = {{100, 4e9}, {1000, 2e9}, {10000, 1e9}};
  EXPECT_EQ(read_bandwidth(device, 100), 4e9);
  EXPECT_EQ(read_bandwidth(device, 100.5), 2e9);
  EXPECT_EQ(read_bandwidth(device, 1e9), 1e9);
  KernelRun one = kernel("a", 100, 80, 0);
  one.weight_bytes = 500;
  PlanRun run = run_of(1000, {one});
  run.resident_bytes = 5000;
  // 500 bytes from memory, 80 from the nearest cache.
  EXPECT_DOUBLE_EQ(*efficiency_of(run, device), 0.52);
}

TEST(Efficiency, HalvesMultiplyAtTheirOwnRate) {
  Roofline device = plain_device();
  device.half_operations_per_s = 4e9;
  KernelRun one = kernel("a", 100, 0, 400);
  one.is_half = true;
  EXPECT_DOUBLE_EQ(*efficiency_of(run_of(1000, {one}), device), 0.1);
  device.half_operations_per_s = 0;
  EXPECT_DOUBLE_EQ(*efficiency_of(run_of(1000, {one}), device), 0.4);
}

TEST(BottleneckRule, IsOverItsThresholdNotAtIt) {
  EXPECT_EQ(bottleneck_of({0.30 + kJust, 0, 0}), Bottleneck::kTransfer);
  EXPECT_EQ(bottleneck_of({0.30, 0, 0}), Bottleneck::kMemory);
  EXPECT_EQ(bottleneck_of({0.30 - kJust, 0, 0}), Bottleneck::kMemory);
  EXPECT_EQ(bottleneck_of({0, 0.40 + kJust, 0}), Bottleneck::kLaunch);
  EXPECT_EQ(bottleneck_of({0, 0.40, 0}), Bottleneck::kMemory);
  EXPECT_EQ(bottleneck_of({0, 0, 0.50 + kJust, 0.50}), Bottleneck::kCompute);
  EXPECT_EQ(bottleneck_of({0, 0, 0.50, 0.50}), Bottleneck::kMemory);
  EXPECT_EQ(bottleneck_of({0.20, 0.20, 0.40, 0.20}), Bottleneck::kCompute);
  // Of several the first.
  EXPECT_EQ(bottleneck_of({0.31, 0.41, 0.51}), Bottleneck::kTransfer);
  EXPECT_EQ(bottleneck_of({0.30, 0.41, 0.51}), Bottleneck::kLaunch);
}

TEST(BottleneckRule, SharesOfACallAndItsCopiesSumToTheWhole) {
  // One waits for operations, one for bytes and three times as long.
  PlanRun run = run_of(160, {kernel("a", 40, 5, 20), kernel("b", 120, 90, 10)});
  run.kernels[0].calls = 3;
  run.transfer_ns = 40;
  Shares shares = shares_of(run, plain_device());
  EXPECT_DOUBLE_EQ(shares.transfer, 0.2);
  EXPECT_DOUBLE_EQ(shares.launch, 0.2);  // four launches of 10 ns
  EXPECT_DOUBLE_EQ(shares.compute, 0.15);
  EXPECT_DOUBLE_EQ(shares.memory, 0.45);
  EXPECT_DOUBLE_EQ(shares.transfer + shares.launch + shares.compute + shares.memory, 1);
  run.kernels[0].calls = 1000;
  shares = shares_of(run, plain_device());
  EXPECT_DOUBLE_EQ(shares.launch, 0.8);
  EXPECT_EQ(shares.compute + shares.memory, 0);
  Shares none = shares_of(run_of(0, {}), plain_device());
  EXPECT_EQ(none.transfer + none.launch + none.compute + none.memory, 0);
}

TEST(HotKernels, AreTheTenThatTakeLongest) {
  PlanRun run = run_of(1, {});
  for (int k = 1; k <= 12; ++k) run.kernels.push_back(kernel(common::cat("k", k), k, 0, 0));
  run.kernels.push_back(kernel("at load", 0, 0, 0));
  auto hot = hot_kernels(run);
  ASSERT_EQ(hot.size(), kHotKernels);
  EXPECT_EQ(hot[0].kernel.name, "k12");
  EXPECT_EQ(hot[9].kernel.name, "k3");
  EXPECT_DOUBLE_EQ(hot[0].share, 12.0 / 78);  // of all, those that are not shown included
  EXPECT_TRUE(hot_kernels(run_of(1, {})).empty());
}

TEST(RegressionRule, HoldsAtItsThreshold) {
  auto change = [](double now, double before) { return change_of({now, 0, 9}, {before, 0, 9}); };
  EXPECT_EQ(change(109.999, 100), Change::kNone);
  EXPECT_EQ(change(110, 100), Change::kWarning);
  EXPECT_EQ(change(119.999, 100), Change::kWarning);
  EXPECT_EQ(change(120, 100), Change::kCritical);
  EXPECT_EQ(change(50, 100), Change::kNone);
  EXPECT_EQ(change(0, 100), Change::kNone);
  EXPECT_EQ(change(100, 0), Change::kNone);
}

TEST(RegressionRule, IsNoneWithinTheNoise) {
  // Quartiles at 120 and 130, and at 90 and 110: apart. Wider, they touch at 115.
  EXPECT_EQ(change_of({125, 10, 9}, {100, 20, 9}), Change::kCritical);
  EXPECT_EQ(change_of({125, 20, 9}, {100, 30, 9}), Change::kWithinNoise);
  EXPECT_EQ(change_of({125, 19.999, 9}, {100, 30, 9}), Change::kCritical);
  EXPECT_EQ(change_of({105, 50, 9}, {100, 50, 9}), Change::kNone);
}

TEST(RegressionRule, ComparesWithTheBestBefore) {
  PlanRun run = run_of(115, {kernel("a", 60, 0, 0), kernel("b", 55, 0, 0)});
  EarlierRun slow{{130, 0, 9}, {}};
  EarlierRun best{{100, 0, 9},
                  {{"id of a", {40, 0, 9}}, {"id of b", {55, 0, 9}}, {"gone", {5, 0, 9}}}};
  EarlierRun nothing{{0, 0, 0}, {}};
  auto found = regressions(run, {slow, best, nothing});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].what, "the plan");
  EXPECT_EQ(found[0].change, Change::kWarning);
  EXPECT_EQ(found[0].before.median_ns, 100);
  EXPECT_EQ(found[1].what, "a");
  EXPECT_EQ(found[1].change, Change::kCritical);
  EXPECT_TRUE(regressions(run, {}).empty());
  EXPECT_TRUE(regressions(run, {nothing}).empty());
}

TEST(ParityRule, HoldsAtItsRatio) {
  PlanRun run = run_of(1, {kernel("a", 1.10e6, 0, 0)});
  auto verdict = [&](double ms) { return parity_with(run, {"other", {{"aten::mm", ms}}}).verdict; };
  EXPECT_EQ(verdict(1), ParityVerdict::kParity);
  EXPECT_EQ(verdict(1 + kJust), ParityVerdict::kParity);
  EXPECT_EQ(verdict(1 - kJust), ParityVerdict::kSlower);
}

TEST(ParityRule, OneThatIsSlowerIsEnough) {
  PlanRun run = run_of(1, {kernel("a", 1e6, 0, 0), kernel("b", 2e6, 0, 0)});
  run.kernels[1].operation = "softmax";
  Parity parity = parity_with(
      run, {"torch", {{"aten::addmm", 2}, {"aten::bmm", 3}, {"aten::_softmax", 1}, {"x::y", 1}}});
  EXPECT_EQ(parity.verdict, ParityVerdict::kSlower);
  ASSERT_EQ(parity.common.size(), 2u);
  EXPECT_EQ(parity.common[0].name, "matmul");
  EXPECT_DOUBLE_EQ(parity.common[0].ratio(), 0.2);
  EXPECT_DOUBLE_EQ(parity.common[1].ratio(), 2);
  EXPECT_EQ(parity.only_there, std::vector<std::string>{"y"});
}

TEST(ParityRule, NothingInCommonIsNotComparable) {
  PlanRun run = run_of(1, {kernel("a", 1e6, 0, 0)});
  EXPECT_EQ(parity_with(run, {"other", {}}).verdict, ParityVerdict::kNotComparable);
  EXPECT_EQ(parity_with(run, {"other", {{"matmul", 0}}}).verdict, ParityVerdict::kNotComparable);
  Parity other = parity_with(run, {"other", {{"sort", 1}}});
  EXPECT_EQ(other.verdict, ParityVerdict::kNotComparable);
  EXPECT_EQ(other.only_here, std::vector<std::string>{"matmul"});
  run.kernels[0].operation = "";
  EXPECT_EQ(parity_with(run, {"other", {{"matmul", 1}}}).verdict, ParityVerdict::kNotComparable);
}

TEST(ParityRule, NamesTheFiveLargestGaps) {
  PlanRun run = run_of(9e6, {});
  OtherRuntime other{"torch", {}, 12, 6};
  for (int k = 1; k <= 7; ++k) {
    run.kernels.push_back(kernel("k" + std::to_string(k), k * 1e6, 0, 0));
    run.kernels.back().operation = "op" + std::to_string(k);
    run.kernels.back().calls = 2;
    if (k < 7) other.operators.push_back({"op" + std::to_string(k), k == 6 ? 5.5 : 0.5});
  }
  Parity parity = parity_with(run, other);
  ASSERT_EQ(parity.gaps.size(), kGaps);
  const std::vector<std::string> expected{"op7", "op5", "op4", "op3", "op2"};
  for (size_t k = 0; k < kGaps; ++k) EXPECT_EQ(parity.gaps[k].name, expected[k]);
  EXPECT_EQ(parity.gaps[0].other_ms, 0);
  EXPECT_EQ(parity.launches, 14);
  EXPECT_EQ(parity.other_launches, 12);
  ASSERT_TRUE(parity.whole);
  EXPECT_DOUBLE_EQ(parity.whole->ratio(), 1.5);
}

TEST(ParityRule, SaysNothingOfWhatAProfileLacks) {
  Parity parity = parity_with(run_of(1e6, {kernel("a", 1e6, 0, 0)}), {"other", {{"matmul", 2}}});
  EXPECT_TRUE(parity.gaps.empty());
  EXPECT_FALSE(parity.whole);
  EXPECT_FALSE(parity.other_launches);
}

TEST(Tokens, AreHeldAgainstWhatMovingTheBytesTakes) {
  PlanRun run = run_of(2e6, {kernel("a", 1e6, 0, 0)});
  EXPECT_FALSE(token_rate(run, plain_device(), 0));
  auto rate = token_rate(run, plain_device(), 4);
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(rate->per_s, 2000);
  EXPECT_EQ(rate->floor_per_s, 0);
  run.work = ModelWork{0, 0, read_bandwidth(plain_device(), 1e6) * 1e-3};
  EXPECT_DOUBLE_EQ(token_rate(run, plain_device(), 4)->floor_per_s, 4000);
  EXPECT_FALSE(token_rate(run_of(0, {}), plain_device(), 4));
}

TEST(Coverage, IsTheKernelsShareOfTheClock) {
  EXPECT_DOUBLE_EQ(*coverage_of(run_of(2e6, {kernel("a", 1e6, 0, 0), kernel("b", 5e5, 0, 0)})),
                   0.75);
  EXPECT_FALSE(coverage_of(run_of(0, {kernel("a", 1e6, 0, 0)})));
  EXPECT_FALSE(coverage_of(run_of(1e6, {})));
}

TEST(OtherRuntimes, ReadTheirOwnWords) {
  auto read = parse_other_runtime(
      R"({"runtime":"onnxruntime","runs":4,"operators":[{"name":"MatMul","ms":8},)"
      R"({"name":"Softmax","ms":2},{"name":"MatMul","ms":4}]})",
      "p.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->name, "onnxruntime");
  ASSERT_EQ(read->operators.size(), 2u);
  EXPECT_EQ(read->operators[0].name, "MatMul");
  EXPECT_EQ(read->operators[0].ms, 3);
  EXPECT_EQ(read->launches, 0);
  EXPECT_EQ(read->run_ms, 0);
  read = parse_other_runtime(
      R"({"runtime":"a","runs":2,"launches":10,"total_ms":7,"operators":[]})", "p.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->launches, 5);
  EXPECT_EQ(read->run_ms, 3.5);
}

TEST(OtherRuntimes, OfATraceEachOperatorCountsForItself) {
  // addmm lies in linear: 10 us of linear's own, 30 of addmm, over two steps; another thread's
  // operator lies in nothing.
  auto read = parse_other_runtime(
      R"({"traceEvents":[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":9},)"
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","ts":0,"dur":9},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::addmm","tid":1,"ts":105,"dur":30},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::linear","tid":1,"ts":100,"dur":40},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::relu","tid":2,"ts":110,"dur":6},)"
      R"({"ph":"i","name":"mark"}]})",
      "t.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->name, "torch");
  ASSERT_EQ(read->operators.size(), 3u);
  EXPECT_EQ(read->operators[0].name, "aten::addmm");
  EXPECT_DOUBLE_EQ(read->operators[0].ms, 0.015);
  EXPECT_DOUBLE_EQ(read->operators[1].ms, 0.005);
  EXPECT_DOUBLE_EQ(read->operators[2].ms, 0.003);
  EXPECT_EQ(read->launches, 1);  // addmm and relu, of two steps; linear only calls
  EXPECT_DOUBLE_EQ(read->run_ms, 0.009);
}

TEST(OtherRuntimes, OfAGpusTraceOperatorsTakeWhatTheirKernelsTake) {
  auto read = parse_other_runtime(
      R"({"traceEvents":[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":90},)"
      R"({"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#1","ts":0,"dur":90},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::mm","ts":0,"dur":70,"args":{"External id":5}},)"
      R"({"ph":"X","cat":"kernel","name":"gemm","ts":10,"dur":20,"args":{"External id":5}},)"
      R"({"ph":"X","cat":"kernel","name":"reduce","ts":30,"dur":2,"args":{"External id":5}},)"
      R"({"ph":"X","cat":"kernel","name":"alone","ts":40,"dur":4}]})",
      "t.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->operators.size(), 2u);
  EXPECT_EQ(read->operators[0].name, "alone");
  EXPECT_DOUBLE_EQ(read->operators[0].ms, 0.004);
  EXPECT_EQ(read->operators[1].name, "aten::mm");
  EXPECT_DOUBLE_EQ(read->operators[1].ms, 0.022);
  EXPECT_EQ(read->launches, 3);
  EXPECT_DOUBLE_EQ(read->run_ms, 0.09);
}

TEST(OtherRuntimes, OfOnnxRuntimesTraceKernelsCount) {
  auto read = parse_other_runtime(
      R"([{"cat":"Session","name":"model_run","dur":50},{"cat":"Session","name":"model_run"},)"
      R"({"cat":"Node","name":"m_kernel_time","dur":20,"args":{"op_name":"MatMul"}},)"
      R"({"cat":"Node","name":"m_fence_before","dur":9,"args":{"op_name":"MatMul"}}])",
      "o.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->operators.size(), 1u);
  EXPECT_DOUBLE_EQ(read->operators[0].ms, 0.01);
  EXPECT_DOUBLE_EQ(read->launches, 0.5);
  EXPECT_DOUBLE_EQ(read->run_ms, 0.025);
}

TEST(OtherRuntimes, RefuseWhatIsNoProfile) {
  for (const char* wrong :
       {"", "x", "3", "{}", R"({"runtime":"a"})", R"({"runtime":"a","operators":{}})",
        R"({"runtime":"a","operators":[{"name":"m"}]})",
        R"({"runtime":"a","operators":[{"name":"m","ms":-1}]})",
        R"({"runtime":"a","operators":[{"ms":1}]})", R"({"runtime":"a","operators":[3]})",
        R"({"runtime":"a","runs":0,"operators":[]})", R"({"runtime":"a","operators":[],"x":1})",
        R"({"runtime":"a","launches":-1,"operators":[]})",
        R"({"runtime":"a","total_ms":"x","operators":[]})", R"({"traceEvents":3})",
        R"({"traceEvents":[]})", R"({"traceEvents":[1,[2],{"ph":3}]})", "[]", "[3]"}) {
    auto read = parse_other_runtime(wrong, "p.json");
    ASSERT_FALSE(read.ok()) << wrong;
    EXPECT_EQ(read.error().code, common::Code::kInvalidInput);
    EXPECT_EQ(read.error().message.rfind("p.json: ", 0), 0u) << read.error().message;
  }
}

TEST(DataSheets, AreFoundByTheDriversName) {
  EXPECT_EQ(data_sheet("NVIDIA H200")->reads[0].bytes_per_s, 4.8e12);
  EXPECT_EQ(data_sheet("NVIDIA H100 80GB HBM3")->reads[0].bytes_per_s, 3.35e12);
  EXPECT_EQ(data_sheet("NVIDIA H100 PCIe")->reads[0].bytes_per_s, 2.0e12);
  EXPECT_EQ(data_sheet("NVIDIA L40S")->operations_per_s, 91.6e12);
  EXPECT_EQ(data_sheet("NVIDIA L4")->operations_per_s, 30.3e12);
  EXPECT_FALSE(data_sheet("NVIDIA L400"));
  EXPECT_FALSE(data_sheet("Some GPU"));
}

TEST(RooflineFile, IsReadAsItWasWritten) {
  Roofline device = plain_device();
  device.reads = {{100, 4e9}, {1000, 2.5e9}};
  auto read = decode_roofline(encode_roofline(device));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, device);
  for (const char* wrong : {"", "{}", "[]", R"({"roofline":1})", R"({"roofline":21e9})"}) {
    EXPECT_FALSE(decode_roofline(wrong).ok()) << wrong;
  }
  device.operations_per_s = 0;
  EXPECT_FALSE(decode_roofline(encode_roofline(device)).ok());
}

TEST(RooflineFile, IsMeasuredOnceAndAgainWhenDamaged) {
  auto scratch = common::ScratchDirectory::create("lfarm-score").value();
  auto first = roofline_of_processor(scratch.path(), 1, false);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_GT(first->operations_per_s, 0);
  ASSERT_FALSE(first->reads.empty());
  for (size_t k = 1; k < first->reads.size(); ++k) {
    EXPECT_LE(first->reads[k].bytes_per_s, first->reads[k - 1].bytes_per_s);
  }
  // A measurement is never the same twice: this is the kept one.
  EXPECT_EQ(*roofline_of_processor(scratch.path(), 1, false), *first);
  int kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    ++kept;
    ASSERT_TRUE(common::write_file_atomic(entry.path(), common::as_bytes("damaged")).ok());
  }
  EXPECT_EQ(kept, 1);
  auto anew = roofline_of_processor(scratch.path(), 1, false);
  ASSERT_TRUE(anew.ok()) << anew.error().message;
  EXPECT_EQ(anew->device, first->device);
  EXPECT_EQ(*roofline_of_processor(scratch.path(), 1, false), *anew);
}

// Asked again and again, it reads the same memory: no thread or memory is left behind by a round.
TEST(MemoryReads, AreMeasuredAsOftenAsAsked) {
  MemoryReads memory(2, 5e6);
  for (int round = 0; round < 3; ++round) EXPECT_GT(memory.bytes_per_s(), 1e6) << round;
}

Scorecard sample_card() {
  PlanRun run = run_of(2e6, {kernel("a|b`c", 1e6, 1e5, 1e5), kernel("d", 5e5, 1e5, 1e5)});
  run.sizes = "s0=4";
  OtherRuntime other{"on<nx", {{"MatMul", 1}}, 7, 4};
  return score(run, plain_device(), {{{1e6, 0, 9}, {}}}, &other, 3);
}

TEST(ScorecardText, SaysAllOfIt) {
  std::string text = markdown_of(sample_card());
  for (const char* words :
       {"# Plan aaaaaaaaaaaa: grade D", "for cpu, s0=4", "| bottleneck | memory bandwidth |",
        "| a\\|b\\`c | matmul |  |  | 1 | 1.00 ms | 66.7 % |",
        "| the plan | 2.00 ms | 1.00 ms | 2.00 | critical |", "## Parity with on\\<nx: slower",
        "| matmul | 1.50 ms | 1.00 ms | 1.50 |", "| matmul | 1.50 ms | 1.00 ms | 500 us |",
        "A run takes 2.00 ms here and 4.00 ms there: 0.50 of the time.",
        "Launches in a run: 2 here, 7 there.", "| coverage | kernels take 75.0 % of a run |",
        "| tokens | 1500.0 a second |"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
}

TEST(ScorecardText, OfNothingSaysSo) {
  std::string text = markdown_of(score(run_of(0, {}), plain_device(), {}, nullptr));
  for (const char* words : {"grade -", "| efficiency | not known |", "nothing measured",
                            "No kernel ran.", "There is no earlier run"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
  EXPECT_EQ(text.find("Parity"), std::string::npos);
}

TEST(ScorecardText, IsReadAgainAsAnEarlierRun) {
  Scorecard card = sample_card();
  std::string json = json_of(card);
  auto earlier = parse_scorecard(json, "s.json", card.run);
  ASSERT_TRUE(earlier.ok()) << earlier.error().message;
  EXPECT_EQ(earlier->latency, card.run.latency);
  ASSERT_EQ(earlier->kernels.size(), 2u);
  EXPECT_EQ(earlier->kernels[0].first, "id of a|b`c");
  EXPECT_EQ(earlier->kernels[0].second.median_ns, 1e6);
  PlanRun other = card.run;
  other.sizes = "s0=8";
  auto refused = parse_scorecard(json, "s.json", other);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("another sizes"), std::string::npos)
      << refused.error().message;
  for (const char* wrong : {"", "[]", "{}", R"({"scorecard":1})", R"({"scorecard":2})"}) {
    EXPECT_FALSE(parse_scorecard(wrong, "s.json", card.run).ok()) << wrong;
  }
}

}  // namespace
}  // namespace clients
