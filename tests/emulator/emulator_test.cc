// The emulated GPU runs kernels as a GPU would, as far as generated code can tell: each test says
// what a failure would hide.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/emulator/gpu.h"

namespace emulator {
namespace {

TEST(Emulator, ElementwiseKernelWritesEveryElementOnce) {
  // Fails when blocks are left out or run twice, or indices and parameters arrive wrong.
  Gpu gpu;
  void* add = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(64) lf_add(
    const float* __restrict__ a, float* __restrict__ b, int64_t n) {
  const int64_t i = blockIdx.x * 64LL + threadIdx.x;
  if (i < n) b[i] = fmaf(a[i], 2.0f, b[i]);
})",
                         "lf_add");
  constexpr int64_t kCount = 1000;
  std::vector<float> a(kCount), b(kCount, 1.0F);
  std::iota(a.begin(), a.end(), 0.0F);
  const uint64_t da = gpu.upload(a), db = gpu.upload(b);
  gpu.check(gpu.launch(add, (kCount + 63) / 64, 64, 0, da, db, kCount));
  gpu.check(gpu.synchronise());
  const auto result = gpu.download<float>(db, kCount);
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(result[i], 2.0F * a[i] + 1.0F) << i;
}

TEST(Emulator, BarriersOrderSharedMemory) {
  // Fails when a thread passes a barrier before the others' writes, in static or dynamic memory.
  Gpu gpu;
  void* reverse = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(256) lf_reverse(int* out) {
  extern __shared__ __align__(16) unsigned char lf_shared[];
  __shared__ int tile[256];
  int* more = reinterpret_cast<int*>(lf_shared);
  const int t = threadIdx.x;
  tile[t] = t;
  __syncthreads();
  more[t] = tile[255 - t] + 1000 * blockIdx.x;
  __syncthreads();
  out[blockIdx.x * 256 + t] = more[t ^ 1];
})",
                             "lf_reverse");
  const uint64_t out = gpu.memory(3 * 256 * sizeof(int));
  gpu.check(gpu.launch(reverse, 3, 256, 1024, out));
  gpu.check(gpu.synchronise());
  const auto result = gpu.download<int>(out, 3 * 256);
  for (int i = 0; i < 3 * 256; ++i) {
    ASSERT_EQ(result[i], 255 - (i % 256 ^ 1) + 1000 * (i / 256)) << i;
  }
}

TEST(Emulator, MissingBarrierShows) {
  // Fails when threads or blocks always run in one order, or shared memory begins as zeros: then a
  // kernel that forgets a barrier would pass here and fail on a GPU.
  Gpu gpu;
  void* racy = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(64) lf_racy(float* out) {
  __shared__ float tile[64];
  const int t = threadIdx.x;
  tile[t] = 1.0f;
  out[(blockIdx.x * 2 + 0) * 64 + t] = tile[(t + 1) % 64];
  out[(blockIdx.x * 2 + 1) * 64 + t] = tile[(t + 63) % 64];
})",
                          "lf_racy");
  const uint64_t out = gpu.memory(2 * 2 * 64 * sizeof(float));
  const auto strangers = [&](int row) {
    const auto result = gpu.download<float>(out, 2 * 2 * 64);
    int wrong = 0;
    for (int t = 0; t < 64; ++t) wrong += std::isnan(result[row * 64 + t]) ? 1 : 0;
    return wrong;
  };
  // In one order every thread but the last finds nothing at its neighbour's place, in the other
  // all but one find something: blocks next to one another differ, and so do launches.
  gpu.check(gpu.launch(racy, 2, 64, 0, out));
  gpu.check(gpu.synchronise());
  const int first = strangers(0);
  EXPECT_EQ(first + strangers(2), 64);
  EXPECT_EQ(strangers(1) + strangers(3), 64);
  gpu.check(gpu.launch(racy, 1, 64, 0, out));
  gpu.check(gpu.synchronise());
  EXPECT_EQ(first + strangers(0), 64);
  EXPECT_NE(first, strangers(0));
}

TEST(Emulator, BlockReductionByShufflesAndSharedMemory) {
  // Fails when lanes exchange other values than they hand over, also in a warp that is not full.
  Gpu gpu;
  void* reduce = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(1024) lf_sum(const float* in, float* out, double* wide) {
  __shared__ float parts[32];
  const int t = threadIdx.x, warps = (blockDim.x + 31) / 32;
  float x = in[blockIdx.x * blockDim.x + t];
  for (int o = 16; o > 0; o /= 2) {
    const float y = __shfl_down_sync(0xffffffffu, x, o);
    if (t + o < blockDim.x) x += y;
  }
  if (t % 32 == 0) parts[t / 32] = x;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < warps; ++w) sum += parts[w];
  const double first = __shfl_sync(0xffffffffu, sum + t, 0);
  const int above = __shfl_up_sync(0xffffffffu, t, 1);
  if (t == 5) wide[blockIdx.x] = first + above;
  if (t == 0) out[blockIdx.x] = static_cast<float>(sum);
})",
                            "lf_sum");
  for (int threads : {32, 40, 256, 1000}) {
    std::vector<float> in(3 * threads);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 17);
    const uint64_t din = gpu.upload(in), out = gpu.memory(12), wide = gpu.memory(24);
    gpu.check(gpu.launch(reduce, 3, threads, 0, din, out, wide));
    gpu.check(gpu.synchronise());
    const auto sums = gpu.download<float>(out, 3);
    const auto more = gpu.download<double>(wide, 3);
    for (int b = 0; b < 3; ++b) {
      const float expected =
          std::accumulate(in.begin() + b * threads, in.begin() + (b + 1) * threads, 0.0F);
      EXPECT_EQ(sums[b], expected) << threads;
      EXPECT_EQ(more[b], expected + 4.0) << threads;
    }
  }
}

TEST(Emulator, VotesAndAtomicsCountEveryThread) {
  // Fails when votes of lanes get lost, or atomics of blocks on different processors do.
  Gpu gpu;
  void* count = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(96) lf_count(unsigned* counts, float* sum) {
  const int t = threadIdx.x;
  const unsigned odd = __ballot_sync(0xffffffffu, t % 2);
  if (odd == 0xaaaaaaaau) atomicAdd(&counts[0], 1);
  if (__any_sync(0xffffffffu, t == 70)) atomicAdd(&counts[1], 1u);
  if (__all_sync(0xffffffffu, t < 64)) atomicAdd(&counts[2], 1u);
  atomicMax(&counts[3], blockIdx.x * 96u + t);
  atomicAdd(sum, 0.5f);
  unsigned old = atomicCAS(&counts[4], 0u, 7u);
  if (old == 0) atomicExch(&counts[5], 11u);
})",
                           "lf_count");
  const uint64_t counts = gpu.upload(std::vector<unsigned>(6)),
                 sum = gpu.upload(std::vector<float>(1));
  gpu.check(gpu.launch(count, 50, 96, 0, counts, sum));
  gpu.check(gpu.synchronise());
  const auto result = gpu.download<unsigned>(counts, 6);
  EXPECT_EQ(result, (std::vector<unsigned>{4800, 1600, 3200, 4799, 7, 11}));
  EXPECT_EQ(gpu.download<float>(sum, 1)[0], 2400.0F);
}

TEST(Emulator, ThreadsMayEndBeforeABarrier) {
  // Fails when a barrier or a shuffle waits for threads that have returned, as a GPU does not.
  Gpu gpu;
  void* leave = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(128) lf_leave(int* out, int n) {
  __shared__ int tile[128];
  const int t = threadIdx.x;
  if (t >= n) return;
  tile[t] = t;
  __syncthreads();
  out[t] = __shfl_xor_sync(0xffffffffu, tile[n - 1 - t], 1);
})",
                           "lf_leave");
  constexpr int kCount = 50;
  const uint64_t out = gpu.memory(kCount * sizeof(int));
  gpu.check(gpu.launch(leave, 1, 128, 0, out, kCount));
  gpu.check(gpu.synchronise());
  const auto result = gpu.download<int>(out, kCount);
  for (int t = 0; t < kCount; ++t) EXPECT_EQ(result[t], kCount - 1 - (t ^ 1));
}

TEST(Emulator, DynamicSharedMemoryMustBeAskedFor) {
  // Fails when a launch may take more shared memory than a GPU gives without cuFuncSetAttribute.
  Gpu gpu;
  void* fill = gpu.kernel(R"(
extern "C" __global__ void lf_fill(float* out, int n) {
  extern __shared__ __align__(16) unsigned char lf_shared[];
  float* s = reinterpret_cast<float*>(lf_shared);
  __shared__ float first[4];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
  if (threadIdx.x < 4) first[threadIdx.x] = 0.5f;
  __syncthreads();
  out[threadIdx.x] = s[n - 1 - threadIdx.x] + first[threadIdx.x % 4];
})",
                          "lf_fill");
  constexpr int kBytes = 100 * 1024, kFloats = kBytes / 4;
  const uint64_t out = gpu.memory(32 * sizeof(float));
  EXPECT_EQ(gpu.launch(fill, 1, 32, kBytes, out, kFloats), kInvalidValue);
  EXPECT_EQ(api().cuFuncSetAttribute(fill, 8, static_cast<int>(228 * 1024)), kInvalidValue);
  EXPECT_EQ(api().cuFuncSetAttribute(fill, 8, 227 * 1024), kInvalidValue);  // 16 bytes are static
  gpu.check(api().cuFuncSetAttribute(fill, 8, kBytes));
  gpu.check(gpu.launch(fill, 1, 32, kBytes, out, kFloats));
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<float>(out, 32)[31], kFloats - 32 + 0.5F);
  int bytes = 0;
  gpu.check(api().cuFuncGetAttribute(&bytes, 1, fill));
  EXPECT_EQ(bytes, 16);
}

TEST(Emulator, StaticSharedMemoryIsCountedForEachKernel) {
  // Fails when a kernel is charged with its neighbours' arrays, or one too many compiles.
  Gpu gpu;
  const std::string source = R"(
template <int N> static __device__ float lf_helper(float x) {
  __shared__ float part[N];
  part[threadIdx.x] = x;
  __syncthreads();
  return part[0];
}
extern "C" __global__ void lf_small(float* out) { out[threadIdx.x] = lf_helper<64>(1); }
extern "C" __global__ void lf_big(float* out) {
  __shared__ float tile[10240];
  for (int i = threadIdx.x; i < 10240; i += 32) tile[i] = i;
  __syncthreads();
  out[threadIdx.x] = tile[10239 - threadIdx.x];
})";
  int bytes = 0;
  gpu.check(api().cuFuncGetAttribute(&bytes, 1, gpu.kernel(source, "lf_big")));
  EXPECT_EQ(bytes, 40960);
  gpu.check(api().cuFuncGetAttribute(&bytes, 1, gpu.kernel(source, "lf_small")));
  EXPECT_LE(bytes, 256);
  const Compiled too_much = compile(api(), R"(
extern "C" __global__ void lf_huge(float* out) {
  __shared__ float tile[12289];
  tile[threadIdx.x] = 1; __syncthreads(); out[0] = tile[12288];
})");
  EXPECT_NE(too_much.result, 0);
  EXPECT_NE(too_much.log.find("lf_huge"), std::string::npos) << too_much.log;
  EXPECT_NE(too_much.log.find("shared"), std::string::npos) << too_much.log;
}

TEST(Emulator, ConversionsAndBitsFollowTheDevice) {
  // Fails when an intrinsic gives other bits than CUDA's documentation says.
  Gpu gpu;
  void* bits = gpu.kernel(R"(
extern "C" __global__ void lf_bits(const float* in, int64_t* out) {
  int k = 0;
  for (int i = 0; i < 5; ++i) {
    out[k++] = __float2int_rn(in[i]);
    out[k++] = __float2int_rz(in[i]);
    out[k++] = __float2ll_rz(in[i]);
  }
  out[k++] = __popc(0xf0f0u) + 100 * __clz(1) + 10000 * __ffs(8);
  out[k++] = __brev(1u);
  out[k++] = __byte_perm(0x03020100u, 0x07060504u, 0x7531u);
  out[k++] = __umulhi(0xffffffffu, 0xffffffffu);
  out[k++] = __float_as_uint(rsqrtf(4.0f));
  out[k++] = max(-3, 4) + min(5LL, 2LL);
  out[k++] = __funnelshift_l(0x80000000u, 1u, 1);
})",
                          "lf_bits");
  const uint64_t in = gpu.upload(std::vector<float>{2.5F, -1.75F, 1e20F, -1e20F,
                                                    std::numeric_limits<float>::quiet_NaN()}),
                 out = gpu.memory(22 * sizeof(int64_t));
  gpu.check(gpu.launch(bits, 1, 1, 0, in, out));
  gpu.check(gpu.synchronise());
  constexpr int64_t kIntMax = std::numeric_limits<int>::max(), kIntMin = -kIntMax - 1;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = -kMax - 1;
  EXPECT_EQ(
      gpu.download<int64_t>(out, 22),
      (std::vector<int64_t>{
          2,       2,    2, -2, -1,   -1,    kIntMax,      kIntMax,    kMax,         kIntMin,
          kIntMin, kMin, 0, 0,  kMin, 43108, 0x80000000LL, 0x07050301, 0xfffffffeLL, 0x3f000000,
          6,       3}));
}

}  // namespace
}  // namespace emulator
