// Blocks that share a result, in plans on the emulated GPU: if these fail, a run computes with what
// another run or another kernel left in the counters.
#include <gtest/gtest.h>

#include <vector>

#include "common/cuda/nvrtc.h"
#include "common/runtime/device/cuda_device.h"
#include "common/runtime/executor/executor.h"
#include "tests/unit/runtime/runtime_testing.h"
#include "worker/codegen/cuda/cuda.h"

namespace common {
namespace {

// out[g] = sum of in[4 g] to in[4 g + 3], a block each; `spoil` leaves a counter behind.
constexpr const char* kKernels = R"(
extern "C" __global__ void __launch_bounds__(32) sum4(const float* in, float* out, int64_t s0,
    int64_t units, char* scratch, int64_t scratch_stride) {
  char* const areas = scratch;
  scratch += blockIdx.x * scratch_stride;
  *(float*)scratch = in[blockIdx.x];
  if (!lf_is_last(areas, blockIdx.x / 4, 4)) return;
  float sum = 0;
  for (int b = 0; b < 4; ++b) {
    sum += *(const float*)(scratch + (b - (int64_t)(blockIdx.x % 4)) * scratch_stride);
  }
  out[blockIdx.x / 4] = sum;
}
extern "C" __global__ void __launch_bounds__(32) spoil(const float* in, float* out, int64_t s0,
    int64_t units, char* scratch, int64_t scratch_stride) {
  if (blockIdx.x == 0) ((uint32_t*)scratch)[-1] = 1;
  if (threadIdx.x == 0 & blockIdx.x % 4 == 0) out[blockIdx.x / 4] = 0;
}
)";

class CudaCountersTest : public testing::Test {
 protected:
  void SetUp() override {
    auto nvrtc = Nvrtc::open();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    auto compiled = (*nvrtc)->compile(
        worker::CudaCodeGenerator({"cuda-sm_90a"}).preamble() + kKernels, "sm_90a", {});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    object_ = std::move(compiled->cubin);
    auto device = open_cuda_device();
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_ = std::move(*device);
  }

  // Sums of fours of sums of fours of 16 s0 elements.
  std::unique_ptr<Executor> load(const char* second, bool guard) {
    PlanMaker m;
    Expr n = Expr::symbol(0);
    m.plan.key.target = device_->target();
    m.plan.symbols = {{1, 1000}};
    int x = m.input({n * Expr(16)});
    int sums = m.temporary({n * Expr(4)});
    int out = m.output({n});
    m.call(m.kernel("sum4", Expr::symbol(0), -1, 4), {x}, {sums}, {n * Expr(16)});
    m.call(m.kernel(second, Expr::symbol(0), -1, 260), {sums}, {out}, {n * Expr(4)});
    for (PlanKernel& kernel : m.plan.kernels) kernel.entry.block = {32, 1, 0};
    ExecutorOptions options;
    options.guard = guard;
    auto source = [&](const Digest&) { return Result<ByteView>(ByteView(object_)); };
    auto executor = Executor::load(m.finish(object_), source, *device_, options);
    EXPECT_TRUE(executor.ok()) << executor.error().message;
    return executor.ok() ? std::move(*executor) : nullptr;
  }

  static void expect_sums(Executor& executor, int64_t n) {
    HostTensor x = HostTensor::zeros(DType::kFloat32, {16 * n}).value();
    for (int64_t i = 0; i < 16 * n; ++i) x.set(i, static_cast<double>(i % 37));
    auto out = executor.run(std::vector<HostTensor>{x});
    ASSERT_TRUE(out.ok()) << out.error().message;
    for (int64_t g = 0; g < n; ++g) {
      double sum = 0;
      for (int64_t i = 16 * g; i < 16 * (g + 1); ++i) sum += x.get(i);
      ASSERT_EQ(out->user[0].get(g), sum) << g << " of " << n;
    }
  }

  Bytes object_;
  std::unique_ptr<Device> device_;
};

// Sizes grow and shrink, and a row of launches is replayed, on the same counters.
TEST_F(CudaCountersTest, RunsFollowOneAnother) {
  for (bool guard : {false, true}) {
    auto executor = load("sum4", guard);
    ASSERT_NE(executor, nullptr);
    for (int64_t n : {3, 3, 3, 3, 1, 50, 50, 50, 3, 3, 400, 1}) {
      expect_sums(*executor, n);
      auto kept = executor->check_guards();
      ASSERT_TRUE(kept.ok()) << kept.error().message;
    }
  }
}

TEST_F(CudaCountersTest, CountersThatAreLeftAreFound) {
  auto executor = load("spoil", true);
  ASSERT_NE(executor, nullptr);
  HostTensor x = HostTensor::zeros(DType::kFloat32, {32}).value();
  ASSERT_TRUE(executor->run(std::vector<HostTensor>{x}).ok());
  auto kept = executor->check_guards();
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().code, Code::kVerification);
}

}  // namespace
}  // namespace common
