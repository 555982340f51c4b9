// An application that uses CUDA beside lfarm, on two emulated GPUs, as tests of what lfarm leaves
// behind in it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "common/cuda/driver.h"
#include "common/cuda/nvrtc.h"
#include "common/runtime/device/cuda_device.h"
#include "common/runtime/executor/executor.h"
#include "tests/emulator/calls.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
inline constexpr const char* kContextKernels = R"(
#ifndef LF_EMULATED
typedef long int64_t;
#endif
extern "C" __global__ void __launch_bounds__(32) add(const float* in, const float* more, float* out,
    int64_t s0, int64_t units, char* scratch, int64_t scratch_stride) {
  int64_t i = (int64_t)blockIdx.x * 32 + threadIdx.x;
  if (i < s0) out[i] = in[i] + more[i];
}
extern "C" __global__ void __launch_bounds__(1) wild(float* out, int64_t units, char* scratch,
    int64_t scratch_stride) {
  out[1000000] = 1;
}
extern "C" __global__ void __launch_bounds__(1) find(const int64_t* in, int64_t* out,
    int64_t units, char* scratch, int64_t scratch_stride) {
  *out = *in < 10 ? 9223372036854775807 : 0;
}
)";
using Values = std::vector<float>;
inline constexpr int kGlobalCapture = 0;

class CudaContextsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("LFARM_EMULATOR_GPUS", "2", 1);
    ::setenv("LFARM_EMULATOR_SMS", "132,66", 1);
    auto nvrtc = Nvrtc::open();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    auto compiled = (*nvrtc)->compile(kContextKernels, "sm_90a", {});
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
    device_.reset();
    EXPECT_EQ(current(), nullptr);
    for (int ordinal : {0, 1}) EXPECT_EQ(calls().release_context(ordinal), kCudaSuccess);
    for (int ordinal : {0, 1}) EXPECT_FALSE(emulator::has_context(ordinal)) << ordinal;
  }
  const CudaCalls& calls() const { return driver_->calls(); }
  CudaContext current() const {
    CudaContext context = nullptr;
    EXPECT_EQ(calls().get_context(&context), kCudaSuccess);
    return context;
  }

  // state' = state + x; out = state + w. The state moves between two memories.
  std::unique_ptr<Executor> load() { return load(*device_); }
  static std::unique_ptr<Executor> load(Device& device) {
    PlanMaker m;
    int state = m.input({4}, InputKind::kState), x = m.input({4});
    int w = m.input({4}, InputKind::kWeight);
    int fresh = m.mutate(0, {4}), sum = m.temporary({4}), out = m.output({4});
    int add = m.kernel("add", Expr(4));
    m.plan.kernels.back().entry.block = {32, 32, 0};
    m.call(add, {state, x}, {fresh}, {4});
    m.call(add, {state, w}, {sum}, {4});
    m.call(add, {sum, x}, {out}, {4});
    m.plan.key.target = device.target();
    auto source = [](const Digest&) { return Result<ByteView>(ByteView(*object)); };
    auto executor = Executor::load(m.finish(*object), source, device);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    HostTensor zeros = HostTensor::zeros(DType::kFloat32, {4}).value();
    EXPECT_TRUE((*executor)->set_state(0, zeros).ok());
    EXPECT_TRUE((*executor)->bind_weight(2, zeros).ok());
    return std::move(*executor);
  }
  DeviceMemory memory(const Values& values) { return memory(*device_, values); }
  static DeviceMemory memory(Device& device, const Values& values) {
    DeviceMemory made = std::move(device.allocate(values.size() * sizeof(float))).value();
    EXPECT_TRUE(device.copy_in(made.data(), std::as_bytes(std::span(values))).ok());
    return made;
  }
  Values read(const std::byte* data) { return read(*device_, data); }
  static Values read(Device& device, const std::byte* data) {
    Values out(4);
    EXPECT_TRUE(device.copy_out(std::as_writable_bytes(std::span(out)), data).ok());
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

  static inline Bytes* object = nullptr;
  std::vector<int64_t> sizes_ = {4};
  std::shared_ptr<const CudaDriver> driver_;
  CudaContext first_ = nullptr, second_ = nullptr;
  CudaStream stream_ = nullptr;
  std::unique_ptr<Device> device_;
};

}  // namespace common
