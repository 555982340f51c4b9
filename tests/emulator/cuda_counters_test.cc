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

// The first thread notes what it does: a barrier, a fence, an atomic.
constexpr const char* kNotes = R"(
static __device__ char lf_noted[64];
static __device__ int lf_notes = 0;
inline __device__ void lf_note(char what) {
  if (threadIdx.x == 0) lf_noted[lf_notes++] = what;
}
#define __syncthreads() (lf_note('b'), (__syncthreads)())
#define __threadfence() (lf_note('f'), (__threadfence)())
#define atomicAdd(to, value) (lf_note('a'), (atomicAdd)(to, value))
)";
constexpr const char* kNotedKernel = R"(
extern "C" __global__ void __launch_bounds__(32) noted(char* out, int64_t units, char* scratch,
    int64_t scratch_stride) {
  if (!lf_is_last(scratch, 0, 1)) return;
  lf_note(' ');
  lf_arrive(scratch, 1);
  lf_note(' ');
  lf_await(scratch, 1, 1);
  if (threadIdx.x == 0) {
    for (int k = 0; k < lf_notes; ++k) out[k] = lf_noted[k];
  }
}
)";

// The memory model's order, which no emulated run would miss: what the block wrote, a barrier, the
// fence of the thread that counts, its atomic; on the other side all of it backwards.
TEST_F(CudaCountersTest, FencesStandBetweenBarriersAndAtomics) {
  auto nvrtc = Nvrtc::open();
  ASSERT_TRUE(nvrtc.ok());
  std::string preamble = worker::CudaCodeGenerator({"cuda-sm_90a"}).preamble();
  auto compiled = (*nvrtc)->compile(kNotes + preamble + kNotedKernel, "sm_90a", {});
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  auto module = device_->load(digest_of(compiled->cubin), compiled->cubin);
  ASSERT_TRUE(module.ok()) << module.error().message;
  DeviceMemory memory = std::move(device_->allocate(1024)).value();
  ASSERT_TRUE(device_->fill(memory.data(), std::byte{0}, memory.size()).ok());
  std::vector<void*> buffers = {memory.data()};
  Launch launch;
  launch.function = (*module)->entry("noted").value();
  launch.buffers = buffers;
  launch.block = {32, 1, 0};
  launch.scratch = memory.data() + 512;
  ASSERT_TRUE(device_->launch(launch).ok());
  std::vector<char> text(64);
  ASSERT_TRUE(device_->copy_out(std::as_writable_bytes(std::span(text)), memory.data()).ok());
  EXPECT_STREQ(text.data(), "bfafb bfaf afb");
}

}  // namespace
}  // namespace common
