// The device beside other users of CUDA in its process, on two emulated GPUs: if these fail, an
// application finds itself on another device after a call, or its own captures broken.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "common/cuda/driver.h"
#include "common/cuda/nvrtc.h"
#include "common/runtime/device/cuda_device.h"
#include "common/runtime/device/devices.h"
#include "common/runtime/executor/executor.h"
#include "tests/emulator/calls.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

constexpr const char* kKernels = R"(
#ifndef LF_EMULATED
typedef long int64_t;
#endif
extern "C" __global__ void __launch_bounds__(32) add(const float* in, const float* more, float* out,
    int64_t s0, int64_t units, char* scratch, int64_t scratch_stride) {
  int64_t i = (int64_t)blockIdx.x * 32 + threadIdx.x;
  if (i < s0) out[i] = in[i] + more[i];
}
)";
using Values = std::vector<float>;
constexpr int kGlobalCapture = 0;

class CudaContextsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("LFARM_EMULATOR_GPUS", "2", 1);
    auto nvrtc = Nvrtc::open();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    auto compiled = (*nvrtc)->compile(kKernels, "sm_90a", {});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    object = new Bytes(std::move(compiled->cubin));
  }
  static void TearDownTestSuite() { delete object; }
  void SetUp() override {
    auto driver = CudaDriver::open();
    ASSERT_TRUE(driver.ok()) << driver.error().message;
    driver_ = *driver;
    ASSERT_EQ(calls().retain_context(&first_, 0), kCudaSuccess);
    ASSERT_EQ(calls().retain_context(&second_, 1), kCudaSuccess);
    ASSERT_EQ(calls().set_context(first_), kCudaSuccess);
    ASSERT_EQ(calls().create_stream(&stream_, kCudaStreamNonBlocking), kCudaSuccess);
    ASSERT_EQ(calls().set_context(nullptr), kCudaSuccess);
    device_ = open_cuda_device().value();
  }
  void TearDown() override {
    calls().set_context(first_);
    calls().destroy_stream(stream_);
    calls().set_context(nullptr);
  }
  const CudaCalls& calls() const { return driver_->calls(); }
  CudaContext current() const {
    CudaContext context = nullptr;
    EXPECT_EQ(calls().get_context(&context), kCudaSuccess);
    return context;
  }

  // state' = state + x; out = state + w. The state moves between two memories.
  std::unique_ptr<Executor> load() {
    PlanMaker m;
    int state = m.input({4}, InputKind::kState), x = m.input({4});
    int w = m.input({4}, InputKind::kWeight);
    int fresh = m.mutate(0, {4}), sum = m.temporary({4}), out = m.output({4});
    int add = m.kernel("add", Expr(4));
    m.plan.kernels.back().entry.block = {32, 32, 0};
    m.call(add, {state, x}, {fresh}, {4});
    m.call(add, {state, w}, {sum}, {4});
    m.call(add, {sum, x}, {out}, {4});
    m.plan.key.target = device_->target();
    auto source = [](const Digest&) { return Result<ByteView>(ByteView(*object)); };
    auto executor = Executor::load(m.finish(*object), source, *device_);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    HostTensor zeros = HostTensor::zeros(DType::kFloat32, {4}).value();
    EXPECT_TRUE((*executor)->set_state(0, zeros).ok());
    EXPECT_TRUE((*executor)->bind_weight(2, zeros).ok());
    return std::move(*executor);
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
  // As an application captures: whatever any of its threads does that is not safe breaks it.
  void begin_capture() {
    ASSERT_EQ(calls().set_context(first_), kCudaSuccess);
    ASSERT_EQ(calls().begin_capture(stream_, kGlobalCapture), kCudaSuccess);
  }
  // Expects the capture to be whole.
  CudaGraphExec end_capture() {
    CudaGraph graph = nullptr;
    EXPECT_EQ(calls().end_capture(stream_, &graph), kCudaSuccess);
    CudaGraphExec made = nullptr;
    if (graph != nullptr) {
      EXPECT_EQ(calls().instantiate_graph(&made, graph, 0), kCudaSuccess);
      calls().destroy_graph(graph);
    }
    return made;
  }

  static Bytes* object;
  std::vector<int64_t> sizes_ = {4};
  std::shared_ptr<const CudaDriver> driver_;
  CudaContext first_ = nullptr, second_ = nullptr;
  CudaStream stream_ = nullptr;
  std::unique_ptr<Device> device_;
};
Bytes* CudaContextsTest::object = nullptr;

TEST_F(CudaContextsTest, TheCurrentContextStaysWhatItWas) {
  for (CudaContext before : {CudaContext{nullptr}, second_, first_}) {
    ASSERT_EQ(calls().set_context(before), kCudaSuccess);
    {
      auto opened = open_cuda_device();
      ASSERT_TRUE(opened.ok());
      EXPECT_EQ(current(), before) << "opening";
    }
    DeviceMemory x = memory({1, 2, 3, 4});
    EXPECT_EQ(current(), before) << "memory";
    auto executor = load();
    EXPECT_EQ(current(), before) << "loading";
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
    for (void* stream : {static_cast<void*>(nullptr), static_cast<void*>(stream_)}) {
      std::vector<DeviceTensor> outputs;
      for (int k = 0; k < 5; ++k) {
        Status ran = executor->run_on(stream, inputs, outputs);
        ASSERT_TRUE(ran.ok()) << ran.error().message;
        EXPECT_EQ(current(), before) << "run " << k;
      }
      std::vector<int64_t> times;
      ASSERT_TRUE(executor->run_on(stream, inputs, outputs, &times).ok());
      EXPECT_EQ(current(), before) << "times";
    }
    executor.reset();
    x = {};
    EXPECT_EQ(current(), before) << "freeing";
  }
}

TEST_F(CudaContextsTest, EveryVisibleDeviceCanBeUsed) {
  auto found = find_device("cuda:1");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->name, "cuda");
  EXPECT_EQ(found->index, 1);
  auto second = open_device("cuda:1", 1);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_NE((*second)->hardware_id(), device_->hardware_id());
  device_ = std::move(*second);
  {
    auto executor = load();
    std::vector<DeviceTensor> outputs;
    DeviceMemory x = memory({1, 2, 3, 4});
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
    for (int k = 0; k < 4; ++k) ASSERT_TRUE(executor->run_on(nullptr, inputs, outputs).ok());
    EXPECT_EQ(read(outputs[0].data), (Values{4, 8, 12, 16}));
  }
  EXPECT_EQ(open_device("cuda:2", 1).error().code, Code::kUnavailable);
  for (const char* name : {"cuda:", "cuda:x", "cuda:1x", "cuda:-1"}) {
    EXPECT_EQ(find_device(name).error().code, Code::kInvalidInput) << name;
  }
}

TEST_F(CudaContextsTest, RunsGoIntoTheCallersCapture) {
  auto executor = load();
  DeviceMemory x = memory({1, 2, 3, 4});
  std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
  std::vector<DeviceTensor> outputs;
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  EXPECT_EQ(read(outputs[0].data), (Values{3, 6, 9, 12}));
  const int allocated = emulator::calls_of("cuMemAlloc");
  const int replayed = emulator::calls_of("cuGraphLaunch");
  begin_capture();
  Status ran = executor->run_on(stream_, inputs, outputs);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  CudaGraphExec graph = end_capture();
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(emulator::calls_of("cuMemAlloc"), allocated);
  EXPECT_EQ(emulator::calls_of("cuGraphLaunch"), replayed) << "a recording went into the capture";
  EXPECT_EQ(read(outputs[0].data), (Values{3, 6, 9, 12})) << "the captured run ran";
  // The caller's graph goes on with the state each time.
  for (float k : {4.F, 5.F, 6.F}) {
    ASSERT_EQ(calls().launch_graph(graph, stream_), kCudaSuccess);
    ASSERT_EQ(calls().synchronise_stream(stream_), kCudaSuccess);
    EXPECT_EQ(read(outputs[0].data), (Values{k, 2 * k, 3 * k, 4 * k}));
  }
  // So do later runs, and larger ones of others do not take the memory away.
  ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  EXPECT_EQ(read(outputs[0].data), (Values{7, 14, 21, 28}));
  calls().destroy_graph_exec(graph);
}

TEST_F(CudaContextsTest, WhatCannotBeCapturedLeavesTheCaptureWhole) {
  auto executor = load();
  DeviceMemory x = memory({1, 2, 3, 4});
  std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
  std::vector<DeviceTensor> outputs;
  begin_capture();
  // Without a run before there is no memory, and nothing is made now.
  EXPECT_FALSE(executor->run_on(stream_, inputs, outputs).ok());
  CudaGraphExec graph = end_capture();
  EXPECT_NE(graph, nullptr);
  calls().destroy_graph_exec(graph);
  ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  begin_capture();
  HostTensor host = HostTensor::zeros(DType::kFloat32, {4}).value();
  std::vector<TensorRef> from_host = {ref_of(host)};
  std::vector<int64_t> times;
  EXPECT_EQ(executor->run_on(stream_, from_host, outputs).error().code, Code::kInvalidInput);
  EXPECT_EQ(executor->run_on(stream_, inputs, outputs, &times).error().code, Code::kInvalidInput);
  EXPECT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  graph = end_capture();
  EXPECT_NE(graph, nullptr);
  calls().destroy_graph_exec(graph);
}

TEST_F(CudaContextsTest, OtherThreadsAllocateWhileACallerCaptures) {
  DeviceMemory large = memory(Values(1 << 20, 1));
  begin_capture();
  std::thread([&] {
    large = {};
    for (size_t bytes : {size_t{12345}, size_t{1} << 24}) {
      EXPECT_TRUE(device_->allocate(bytes).ok());
    }
    EXPECT_TRUE(device_->allocate_host(4096).ok());
    auto executor = load();
    std::vector<DeviceTensor> outputs;
    DeviceMemory x = memory({1, 2, 3, 4});
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
    for (int k = 0; k < 4; ++k) EXPECT_TRUE(executor->run_on(nullptr, inputs, outputs).ok());
    EXPECT_EQ(read(outputs[0].data), (Values{4, 8, 12, 16}));
  }).join();
  CudaGraphExec graph = end_capture();
  EXPECT_NE(graph, nullptr);
  calls().destroy_graph_exec(graph);
}

}  // namespace
}  // namespace common
