// Rows of calls that are one graph, on the emulated GPU: if these fail, runs whose outputs lie
// elsewhere are launched call by call, or work on memory of an earlier run.
#include "common/runtime/device/cuda_recording.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/cuda/driver.h"
#include "common/cuda/nvrtc.h"
#include "common/runtime/device/cuda_device.h"
#include "common/runtime/executor/executor.h"
#include "tests/emulator/calls.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

using emulator::calls_of;

constexpr const char* kKernels = R"(
#ifndef LF_EMULATED
typedef long int64_t;
#endif
extern "C" __global__ void __launch_bounds__(32) twice(const float* in, float* out, int64_t s0,
    int64_t units, char* scratch, int64_t scratch_stride) {
  int64_t i = (int64_t)blockIdx.x * 32 + threadIdx.x;
  if (i < s0) out[i] = 2 * in[i];
}
extern "C" __global__ void __launch_bounds__(32) twice_late(const float* in, float* out,
    int64_t s0, int64_t units, char* scratch, int64_t scratch_stride) {
  lf_wait_for_earlier();
  int64_t i = (int64_t)blockIdx.x * 32 + threadIdx.x;
  if (i < s0) out[i] = 2 * in[i];
}
extern "C" __global__ void __launch_bounds__(32) add_to_base(const float* base, float* out,
    int64_t s0, int64_t units, char* scratch, int64_t scratch_stride) {
  if (threadIdx.x == 0) out[0] += 100;
}
extern "C" __global__ void __launch_bounds__(32) add(const float* in, const float* more, float* out,
    int64_t s0, int64_t units, char* scratch, int64_t scratch_stride) {
  int64_t i = (int64_t)blockIdx.x * 32 + threadIdx.x;
  if (i < s0) out[i] = in[i] + more[i];
}
extern "C" __global__ void __launch_bounds__(32) twice_a_box(const float* in, float* out,
    int64_t s0, int64_t units, char* scratch, int64_t scratch_stride,
    const __grid_constant__ lf_tensor_map map0) {
  extern __shared__ __align__(128) unsigned char lf_shared_128[];
  unsigned char* const memory = lf_shared_128;
  uint64_t* const barrier = (uint64_t*)(memory + 128);
  if (threadIdx.x == 0) {
    lf_barrier_init(barrier, 1);
    lf_barrier_fence();
    lf_barrier_expect(barrier, 16);
    lf_copy_box(memory, &map0, barrier, 0, 0);
  }
  __syncthreads();
  lf_barrier_wait(barrier, 0);
  if (threadIdx.x < s0) out[threadIdx.x] = 2 * ((const float*)memory)[threadIdx.x];
}
)";
using Values = std::vector<float>;

// What the driver was asked to do since this was made.
struct Counts {
  int launches = calls_of("cuLaunchKernel");
  int replays = calls_of("cuGraphLaunch");
  int captures = calls_of("cuStreamEndCapture");
  int graphs = calls_of("cuGraphInstantiate");
  int updates = calls_of("cuGraphExecUpdate");
  int patches = calls_of("cuGraphExecKernelNodeSetParams");
  int copies = calls_of("cuGraphExecMemcpyNodeSetParams");
};
Counts since(const Counts& before) {
  Counts now;
  return {now.launches - before.launches, now.replays - before.replays,
          now.captures - before.captures, now.graphs - before.graphs,
          now.updates - before.updates,   now.patches - before.patches,
          now.copies - before.copies};
}

class CudaRecordingTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto nvrtc = Nvrtc::open();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    auto compiled = (*nvrtc)->compile(kKernels, "sm_90a", {});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    object = new Bytes(std::move(compiled->cubin));
  }
  static void TearDownTestSuite() { delete object; }
  void SetUp() override {
    // The tests' own calls of the driver.
    auto driver = CudaDriver::open();
    ASSERT_TRUE(driver.ok()) << driver.error().message;
    CudaContext context = nullptr;
    ASSERT_EQ((*driver)->calls().retain_context(&context, 0), kCudaSuccess);
    ASSERT_EQ((*driver)->calls().set_context(context), kCudaSuccess);
    auto device = open_cuda_device();
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_ = std::move(*device);
  }

  int kernel(PlanMaker& m, const char* name) {
    int made = m.kernel(name, Expr(4));
    m.plan.kernels.back().entry.block = {32, 32, 0};
    return made;
  }
  // The product of a 2 by 2 matrix with another.
  static int product(PlanMaker& m) {
    PlanKernel kernel;
    kernel.library = true;
    kernel.gemm.m = kernel.gemm.n = kernel.gemm.k = 2;
    kernel.gemm.a = kernel.gemm.b = kernel.gemm.out = {0, 0, 2, 1};
    m.plan.kernels.push_back(kernel);
    return static_cast<int>(m.plan.kernels.size()) - 1;
  }
  std::unique_ptr<Executor> load(PlanMaker& m) {
    m.plan.key.target = device_->target();
    auto source = [](const Digest&) { return Result<ByteView>(ByteView(*object)); };
    auto executor = Executor::load(m.finish(*object), source, *device_);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    return executor.ok() ? std::move(*executor) : nullptr;
  }
  DeviceMemory memory(const Values& values) {
    DeviceMemory made = std::move(device_->allocate(values.size() * sizeof(float))).value();
    EXPECT_TRUE(device_->copy_in(made.data(), std::as_bytes(std::span(values))).ok());
    return made;
  }
  Values read(const std::byte* data) {
    Values out(4);
    EXPECT_TRUE(device_->copy_out(std::as_writable_bytes(std::span(out)), data).ok());
    return out;
  }
  // A run on these inputs, each in memory of its own, with outputs in memory that is kept, so that
  // no other run has the same. Gives the outputs.
  std::vector<Values> run_elsewhere(Executor& executor, const std::vector<Values>& inputs) {
    std::vector<TensorRef> refs;
    for (const Values& values : inputs) {
      kept_.push_back(memory(values));
      refs.push_back({DType::kFloat32, sizes_, kept_.back().data(), kept_.back().size(), true});
    }
    std::vector<DeviceTensor> outputs;
    Status ran = executor.run_on(nullptr, refs, outputs);
    EXPECT_TRUE(ran.ok()) << (ran.ok() ? "" : ran.error().message);
    std::vector<Values> values;
    for (DeviceTensor& output : outputs) {
      values.push_back(read(output.data));
      kept_.push_back(std::move(output.memory));
    }
    return values;
  }

  static Bytes* object;
  std::vector<int64_t> sizes_ = {4};
  std::unique_ptr<Device> device_;
  std::vector<DeviceMemory> kept_;
};
Bytes* CudaRecordingTest::object = nullptr;

// What an output starts from is copied into it in every run, also where that is a node of a graph.
TEST_F(CudaRecordingTest, BasesAreCopiedInARow) {
  PlanMaker m;
  int x = m.input({4}), changed = m.output({4}), out = m.output({4});
  int add = kernel(m, "add_to_base"), twice = kernel(m, "twice");
  m.plan.kernels[static_cast<size_t>(add)].in_place_inputs = {0};
  m.plan.kernels[static_cast<size_t>(add)].entry.starts_from_bases = true;
  m.call(add, {x}, {changed}, {4});
  m.call(twice, {changed}, {out}, {4});
  auto executor = load(m);
  Counts before;
  constexpr int kRuns = 6;
  for (int k = 0; k < kRuns; ++k) {
    auto run = static_cast<float>(k);
    Values in = {run, 2 * run, 3 * run, 4 * run};
    std::vector<Values> got = run_elsewhere(*executor, {in});
    EXPECT_EQ(got.at(0), (Values{run + 100, 2 * run, 3 * run, 4 * run}));
    EXPECT_EQ(got.at(1), (Values{2 * run + 200, 4 * run, 6 * run, 8 * run}));
  }
  const Counts done = since(before);
  EXPECT_EQ(done.replays, kRuns - 2);
  EXPECT_EQ(done.graphs, 1);
  EXPECT_EQ(done.updates, 0) << "the copy's node is patched";
  EXPECT_EQ(done.copies, kRuns - 3);
  EXPECT_EQ(done.patches, 2 * (kRuns - 3));
  EXPECT_EQ(done.launches, 2 * 3) << "two runs and the recording";
}

// Fails when a replay reads by the map of an earlier run's memory, or maps are encoded again where
// nothing moved.
TEST_F(CudaRecordingTest, MapsFollowTheirBuffers) {
  PlanMaker m;
  int x = m.input({4}), out = m.output({4});
  int twice = kernel(m, "twice_a_box");
  EntryPoint& entry = m.plan.kernels[static_cast<size_t>(twice)].entry;
  entry.block = {32, 32, 256};
  entry.maps = {{0, DType::kFloat32, 0, 0, {{Expr::symbol(0), 1, 4}, {1, 4, 1}}}};
  m.call(twice, {x}, {out}, {4});
  auto executor = load(m);
  Counts before;
  int encoded = calls_of("cuTensorMapEncodeTiled");
  constexpr int kRuns = 5;
  for (int k = 0; k < kRuns; ++k) {
    auto run = static_cast<float>(k);
    std::vector<Values> got = run_elsewhere(*executor, {{run, run + 1, run + 2, run + 3}});
    EXPECT_EQ(got.at(0), (Values{2 * run, 2 * run + 2, 2 * run + 4, 2 * run + 6}));
  }
  EXPECT_EQ(since(before).graphs, 1);
  EXPECT_EQ(since(before).patches, kRuns - 3);
  EXPECT_EQ(calls_of("cuTensorMapEncodeTiled") - encoded, kRuns);
  encoded = calls_of("cuTensorMapEncodeTiled");
  std::vector<TensorRef> refs{{DType::kFloat32, sizes_, kept_[kept_.size() - 2].data(),
                               kept_[kept_.size() - 2].size(), true}};
  std::vector<DeviceTensor> outputs;
  ASSERT_TRUE(executor->run_on(nullptr, refs, outputs).ok());
  EXPECT_EQ(calls_of("cuTensorMapEncodeTiled"), encoded) << "the input lies where it lay";
}

// A map that leaves its buffer at the sizes of a call, or is none that a device encodes.
TEST_F(CudaRecordingTest, MapsBeyondTheirBuffersAreRefused) {
  for (bool is_long : {true, false}) {
    PlanMaker m;
    int x = m.input({4}), out = m.output({4});
    int twice = kernel(m, "twice_a_box");
    Expr rows = is_long ? Expr(2) : Expr(1);
    m.plan.kernels[static_cast<size_t>(twice)].entry.maps = {
        {0, DType::kFloat32, 0, is_long ? 0 : 1, {{4, 1, 4}, {rows, 4, 1}}}};
    m.call(twice, {x}, {out}, {4});
    auto executor = load(m);
    DeviceMemory in = memory({1, 2, 3, 4});
    std::vector<TensorRef> refs{{DType::kFloat32, sizes_, in.data(), in.size(), true}};
    std::vector<DeviceTensor> outputs;
    Status ran = executor->run_on(nullptr, refs, outputs);
    ASSERT_FALSE(ran.ok());
    EXPECT_EQ(ran.error().code, Code::kCorrupt) << ran.error().message;
  }
}

TEST_F(CudaRecordingTest, FreshAddressesArePatchedIntoOneGraph) {
  // sum = x + w; out = 2 sum; other = 2 out: the input, and two outputs, are elsewhere each time.
  PlanMaker m;
  int x = m.input({4}), w = m.input({4}, InputKind::kWeight), sum = m.temporary({4});
  int out = m.output({4}), other = m.output({4});
  int twice = kernel(m, "twice"), add = kernel(m, "add");
  m.call(add, {x, w}, {sum}, {4});
  m.call(twice, {sum}, {out}, {4});
  m.call(twice, {out}, {other}, {4});
  auto executor = load(m);
  HostTensor weight = HostTensor::zeros(DType::kFloat32, {4}).value();
  for (int64_t k = 0; k < 4; ++k) weight.set(k, 10 * static_cast<double>(k));
  ASSERT_TRUE(executor->bind_weight(1, weight).ok());
  const Counts before;
  constexpr int kRuns = 20;
  for (int k = 0; k < kRuns; ++k) {
    auto f = static_cast<float>(k);
    auto outputs = run_elsewhere(*executor, {{f, f, f, f + 1}});
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0], (Values{2 * f, 2 * f + 20, 2 * f + 40, 2 * f + 62}));
    EXPECT_EQ(outputs[1], (Values{4 * f, 4 * f + 40, 4 * f + 80, 4 * f + 124}));
  }
  const Counts done = since(before);
  EXPECT_EQ(done.graphs, 1);
  EXPECT_EQ(done.captures, 1);
  EXPECT_EQ(done.updates, 0);
  EXPECT_EQ(done.replays, kRuns - 2);
  EXPECT_EQ(done.launches, 3 * 3) << "two runs and the recording";
  EXPECT_EQ(done.patches, 3 * (kRuns - 3));
}

TEST_F(CudaRecordingTest, WhatStaysWhereItIsIsNotPatched) {
  PlanMaker m;
  int x = m.input({4}), sum = m.temporary({4}), out = m.output({4});
  int twice = kernel(m, "twice");
  m.call(twice, {x}, {sum}, {4});
  m.call(twice, {sum}, {out}, {4});
  auto executor = load(m);
  DeviceMemory in = memory({1, 2, 3, 4});
  std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, in.data(), in.size(), true}};
  const Counts before;
  for (int k = 0; k < 10; ++k) {
    std::vector<DeviceTensor> outputs;
    ASSERT_TRUE(executor->run_on(nullptr, inputs, outputs).ok());
    EXPECT_EQ(read(outputs[0].data), (Values{4, 8, 12, 16}));
    kept_.push_back(std::move(outputs[0].memory));
  }
  const Counts done = since(before);
  EXPECT_EQ(done.graphs, 1);
  EXPECT_EQ(done.patches, 7) << "the second kernel's output alone";
}

TEST_F(CudaRecordingTest, LibraryCallsAreRecordedAnewAlone) {
  PlanMaker m;
  int x = m.input({4}), y = m.input({4}), doubled = m.temporary({4});
  int product_of = m.output({4}), out = m.output({4});
  int twice = kernel(m, "twice"), multiply = product(m);
  m.call(twice, {x}, {doubled}, {4});
  m.call(multiply, {doubled, y}, {product_of});
  m.call(twice, {product_of}, {out}, {4});
  auto executor = load(m);
  const Counts before;
  constexpr int kRuns = 8;
  for (int k = 0; k < kRuns; ++k) {
    auto f = static_cast<float>(k);
    auto outputs = run_elsewhere(*executor, {{f, 1, 0, 1}, {1, 2, 3, 4}});
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0], (Values{2 * f + 6, 4 * f + 8, 6, 8}));
    EXPECT_EQ(outputs[1], (Values{4 * f + 12, 8 * f + 16, 12, 16}));
  }
  const Counts done = since(before);
  EXPECT_EQ(done.graphs, 1);
  EXPECT_EQ(done.updates, 0);
  EXPECT_EQ(done.replays, kRuns - 2);
  EXPECT_EQ(done.captures, 1 + (kRuns - 3)) << "the row once, then the product alone";
  EXPECT_EQ(done.launches, 3 * 3 + (kRuns - 3));
}

TEST_F(CudaRecordingTest, WhatCannotBePatchedIsUpdatedOrMadeAnew) {
  std::vector<DeviceMemory> matrices;
  for (int k = 0; k < 3; ++k) matrices.push_back(memory(Values(64, 1)));
  GemmSizes sizes;
  sizes.m = sizes.n = sizes.k = 2;
  sizes.a = sizes.b = sizes.out = {0, 0, 2, 1};
  std::unique_ptr<Recording> recording;
  auto product = [&] {
    return device_->gemm(sizes, matrices[0].data(), matrices[1].data(), matrices[2].data());
  };
  auto replay = [&] {
    ASSERT_TRUE(device_->record(product, recording).ok());
    ASSERT_TRUE(device_->replay(*recording).ok());
  };
  ASSERT_TRUE(product().ok());
  replay();
  EXPECT_EQ(read(matrices[2].data()), (Values{2, 2, 2, 2}));
  Counts before;
  // Without terms the result is filled, a row at a time, which no update makes of a kernel.
  sizes.k = 0;
  replay();
  EXPECT_EQ(read(matrices[2].data()), (Values{0, 0, 0, 0}));
  EXPECT_EQ(since(before).graphs, 1);
  // Fills are patched.
  before = {};
  matrices[2] = memory({1, 2, 3, 4});
  replay();
  EXPECT_EQ(read(matrices[2].data()), (Values{0, 0, 0, 0}));
  EXPECT_EQ(since(before).graphs, 0);
  EXPECT_EQ(since(before).updates, 0);
  // More of them than are patched one by one.
  sizes.m = 20;
  matrices[2] = memory(Values(40, 1));
  replay();
  before = {};
  matrices[2] = memory(Values(40, 1));
  replay();
  EXPECT_EQ(read(matrices[2].data()), (Values{0, 0, 0, 0}));
  EXPECT_EQ(since(before).graphs, 0);
  EXPECT_EQ(since(before).updates, 1);
  // A row that ends earlier.
  matrices[2] = memory(Values(40, 1));
  ASSERT_TRUE(device_->record([] { return Status(); }, recording).ok());
  ASSERT_TRUE(device_->replay(*recording).ok());
  EXPECT_EQ(read(matrices[2].data()), (Values{1, 1, 1, 1}));
}

// States that move between two memories have a graph each, whatever else moves.
TEST_F(CudaRecordingTest, StatesThatMoveHaveTwoGraphs) {
  PlanMaker m;
  int state = m.input({4}, InputKind::kState), x = m.input({4});
  int fresh = m.mutate(0, {4}), out = m.output({4});
  int twice = kernel(m, "twice"), add = kernel(m, "add");
  m.call(add, {state, x}, {fresh}, {4});
  m.call(twice, {state}, {out}, {4});
  auto executor = load(m);
  HostTensor begin = HostTensor::zeros(DType::kFloat32, {4}).value();
  ASSERT_TRUE(executor->set_state(0, begin).ok());
  const Counts before;
  for (int k = 0; k < 12; ++k) {
    auto outputs = run_elsewhere(*executor, {{1, 1, 2, 2}});
    auto f = static_cast<float>(k);
    EXPECT_EQ(outputs[0], (Values{2 * f, 2 * f, 4 * f, 4 * f}));
  }
  const Counts done = since(before);
  EXPECT_EQ(done.graphs, 2);
  EXPECT_EQ(done.replays, 10);
  EXPECT_EQ(done.patches, 2 * 8);
}

// Of a row of kernels that wait for earlier ones, each but those behind others may begin early.
TEST_F(CudaRecordingTest, KernelsThatWaitMayBeginEarly) {
  PlanMaker m;
  int x = m.input({4}), y = m.input({4}), a = m.temporary({4}), b = m.temporary({4});
  int c = m.temporary({4}), d = m.temporary({4}), e = m.temporary({4}), out = m.output({4});
  int late = kernel(m, "twice_late");
  m.plan.kernels.back().entry.waits = true;
  int plain = kernel(m, "twice"), multiply = product(m);
  m.call(late, {x}, {a}, {4});
  m.call(late, {a}, {b}, {4});    // early
  m.call(plain, {b}, {c}, {4});   // does not wait
  m.call(late, {c}, {d}, {4});    // behind one that does not
  m.call(multiply, {d, y}, {e});  // the library's
  m.call(late, {e}, {out}, {4});  // behind the library's
  auto executor = load(m);
  const int before = calls_of("overlapping kernels");
  for (int k = 0; k < 6; ++k) {
    auto f = static_cast<float>(k);
    auto outputs = run_elsewhere(*executor, {{f, 1, 0, 1}, {1, 0, 0, 1}});
    EXPECT_EQ(outputs[0], (Values{32 * f, 32, 0, 32}));
    // Only as part of a row.
    EXPECT_EQ(calls_of("overlapping kernels") - before, k < 2 ? 0 : 1);
  }
}

// Repetitions of a kernel that waits begin early, as in a plan's row; others do not.
TEST_F(CudaRecordingTest, CallsAreTimedAsTheyRunInARow) {
  for (bool waits : {false, true}) {
    PlanMaker m;
    int x = m.input({4}), w = m.input({4}, InputKind::kWeight), out = m.output({4});
    int twice = m.temporary({4});
    m.call(kernel(m, "add"), {x, w}, {twice}, {4});
    int last = kernel(m, waits ? "twice_late" : "twice");
    m.plan.kernels.back().entry.waits = waits;
    m.call(last, {twice}, {out}, {4});
    auto executor = load(m);
    HostTensor weight = HostTensor::zeros(DType::kFloat32, {4}).value();
    HostTensor input = HostTensor::zeros(DType::kFloat32, {4}).value();
    for (int64_t k = 0; k < 4; ++k) weight.set(k, static_cast<double>(k)), input.set(k, 1);
    ASSERT_TRUE(executor->bind_weight(1, weight).ok());
    RunOutputs outputs;
    const std::vector<HostTensor> inputs = {input};
    const Counts before;
    const int early = calls_of("overlapping kernels");
    for (int k = 0; k < 4; ++k) {
      auto times = executor->run_calls_ns(inputs, outputs);
      ASSERT_TRUE(times.ok()) << times.error().message;
      ASSERT_EQ(times->size(), 2u);
      EXPECT_GT(times->at(0), 0);
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(outputs.user.at(0).get(i), 2 * (1 + static_cast<double>(i)));
      }
    }
    const Counts done = since(before);
    EXPECT_GE(done.graphs, 2) << "one for each kernel";
    EXPECT_GE(done.replays, 2);
    EXPECT_EQ(calls_of("overlapping kernels") > early, waits);
  }
}

// In a process of its own: no other test can use the device afterwards.
using CudaRecordingDeathTest = CudaRecordingTest;
TEST_F(CudaRecordingDeathTest, KernelsThatDoNotWaitMustNotSayTheyDo) {
  auto fault = [this] {
    DeviceMemory in = memory({1, 2, 3, 4}), out = memory({0, 0, 0, 0});
    auto module = device_->load(digest_of(*object), *object).value();
    std::vector<void*> buffers = {in.data(), out.data()};
    std::vector<int64_t> symbols = {4};
    Launch launch;
    launch.function = module->entry("twice").value();
    launch.buffers = buffers;
    launch.symbols = symbols;
    launch.block = {32, 32, 0};
    launch.waits = true;
    auto row = [&]() -> Status {
      LFARM_RETURN_IF_ERROR(device_->launch(launch));
      return device_->launch(launch);
    };
    std::unique_ptr<Recording> recording;
    bool is_recorded = row().ok() && device_->synchronise().ok() &&
                       device_->record(row, recording).ok() && device_->replay(*recording).ok();
    std::_Exit(is_recorded && !device_->synchronise().ok() ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fault(), testing::ExitedWithCode(0), "ended without a wait");
}

TEST_F(CudaRecordingTest, NodesOfAnotherGraphAndOtherFunctionsAreRefused) {
  auto driver = CudaDriver::open();
  ASSERT_TRUE(driver.ok());
  const CudaCalls& calls = (*driver)->calls();
  CudaModule module = nullptr;
  CudaFunction twice = nullptr, add = nullptr;
  ASSERT_EQ(calls.load_module(&module, object->data(), 0, nullptr, nullptr), kCudaSuccess);
  ASSERT_EQ(calls.get_function(&twice, module, "twice"), kCudaSuccess);
  ASSERT_EQ(calls.get_function(&add, module, "add"), kCudaSuccess);
  CudaStream stream = nullptr;
  ASSERT_EQ(calls.create_stream(&stream, kCudaStreamNonBlocking), kCudaSuccess);
  CudaKernelLaunch launch{twice, 1, 32, 0, {0, 0, 0, 1, 0, 0}};
  CudaGraph graphs[2] = {};
  CudaGraphNode nodes[2] = {};
  CudaGraphExec made = nullptr;
  for (int k = 0; k < 2; ++k) {
    ASSERT_EQ(calls.begin_capture(stream, kCudaCaptureThreadLocal), kCudaSuccess);
    ASSERT_EQ(launch.put_on(stream, calls), kCudaSuccess);
    int status = 0;
    uint64_t id = 0;
    CudaGraph graph = nullptr;
    const CudaGraphNode* last = nullptr;
    size_t count = 0;
    ASSERT_EQ(calls.capture_info(stream, &status, &id, &graph, &last, &count), kCudaSuccess);
    ASSERT_EQ(count, 1u);
    nodes[k] = last[0];
    ASSERT_EQ(calls.end_capture(stream, &graphs[k]), kCudaSuccess);
  }
  ASSERT_EQ(calls.instantiate_graph(&made, graphs[0], 0), kCudaSuccess);
  CudaKernelNode wanted{};
  ASSERT_EQ(calls.get_kernel_node(nodes[0], &wanted), kCudaSuccess);
  EXPECT_EQ(wanted.function, twice);
  EXPECT_EQ(calls.set_kernel_node(made, nodes[0], &wanted), kCudaSuccess);
  EXPECT_NE(calls.set_kernel_node(made, nodes[1], &wanted), kCudaSuccess) << "of another graph";
  CudaKernelNode other = wanted;
  other.function = add;
  EXPECT_NE(calls.set_kernel_node(made, nodes[0], &other), kCudaSuccess) << "another function";
  other = wanted;
  other.block_x = 64;
  EXPECT_NE(calls.set_kernel_node(made, nodes[0], &other), kCudaSuccess) << "too many threads";
  CudaFillNode fill{};
  EXPECT_NE(calls.get_fill_node(nodes[0], &fill), kCudaSuccess) << "no fill";
  CudaCopyNode copy{};
  EXPECT_NE(calls.get_copy_node(nodes[0], &copy), kCudaSuccess) << "no copy";
  calls.destroy_graph(graphs[0]);
  EXPECT_NE(calls.set_kernel_node(made, nodes[0], &wanted), kCudaSuccess) << "a node that is gone";
  calls.destroy_graph(graphs[1]);
  calls.destroy_graph_exec(made);
  calls.destroy_stream(stream);
  calls.unload_module(module);
}

}  // namespace
}  // namespace common
