// The emulated GPU runs kernels as a GPU would, as far as generated code can tell.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/emulator/gpu.h"

namespace emulator {
namespace {

TEST(Emulator, ElementwiseKernelWritesEveryElementOnce) {
  // Fails when blocks are left out or run twice, or indices and parameters arrive wrong.
  Gpu gpu;
  void* add = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(64) lf_add(
    const float* __restrict__ a, float* __restrict__ b, long long n) {
  const long long i = blockIdx.x * 64LL + threadIdx.x;
  if (i < n) b[i] = fmaf(a[i], 2.0f, b[i]);
})",
                         "lf_add");
  constexpr long long kCount = 1000;
  std::vector<float> a(kCount), b(kCount, 1.0F);
  std::iota(a.begin(), a.end(), 0.0F);
  const uint64_t da = gpu.upload(a), db = gpu.upload(b);
  gpu.check(gpu.launch(add, (kCount + 63) / 64, 64, 0, da, db, kCount));
  gpu.check(gpu.synchronise());
  const auto result = gpu.download<float>(db, kCount);
  for (long long i = 0; i < kCount; ++i) ASSERT_EQ(result[i], 2.0F * a[i] + 1.0F) << i;
}

TEST(Emulator, BarriersOrderSharedMemory) {
  // Fails when a thread passes a barrier before the others' writes, in static or dynamic memory.
  Gpu gpu;
  void* reverse = gpu.kernel(R"(
extern __shared__ __align__(16) unsigned char lf_shared[];
extern "C" __global__ void __launch_bounds__(256) lf_reverse(int* out) {
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

}  // namespace
}  // namespace emulator
