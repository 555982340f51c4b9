// The PTX wrappers of generated code: the emulated ones compute what NVIDIA's documentation says,
// and the same kernels compile against the real ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/emulator/gpu.h"
#include "worker/codegen/cuda/support.h"

namespace emulator {
namespace {

constexpr char kTypes[] = R"(
#ifndef LF_EMULATED
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef long int64_t;
#endif
)";

std::string with_preamble(const std::string& kernels) {
  return kTypes + std::string(worker::cuda_support_mma()) + kernels;
}

// One warp multiplies 16x16 by 16x8; fragments are filled element by element from the table of the
// PTX ISA, without ldmatrix.
constexpr char kProducts[] = R"(
template <bool kBf16>
static __device__ __forceinline__ void lf_product(const uint16_t* a, const uint16_t* b, float* d) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  uint32_t ra[4], rb[2];
  float rd[4];
  for (int r = 0; r < 4; ++r) {
    const int row = g + r % 2 * 8, k = 2 * t + r / 2 * 8;
    ra[r] = a[row * 16 + k] | (uint32_t)a[row * 16 + k + 1] << 16;
  }
  for (int r = 0; r < 2; ++r) {
    const int k = 2 * t + r * 8;
    rb[r] = b[k * 8 + g] | (uint32_t)b[(k + 1) * 8 + g] << 16;
  }
  for (int r = 0; r < 4; ++r) rd[r] = d[(g + r / 2 * 8) * 8 + 2 * t + r % 2];
  if (kBf16) lf_mma_bf16(rd, ra, rb); else lf_mma_f16(rd, ra, rb);
  for (int r = 0; r < 4; ++r) d[(g + r / 2 * 8) * 8 + 2 * t + r % 2] = rd[r];
}
extern "C" __global__ void __launch_bounds__(32) lf_test_bf16(const uint16_t* a, const uint16_t* b,
                                                              float* d) {
  lf_product<true>(a, b, d);
}
extern "C" __global__ void __launch_bounds__(32) lf_test_f16(const uint16_t* a, const uint16_t* b,
                                                             float* d) {
  lf_product<false>(a, b, d);
}
extern "C" __global__ void __launch_bounds__(32) lf_test_tf32(const float* a, const float* b,
                                                              float* d) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  uint32_t ra[4], rb[2];
  float rd[4];
  for (int r = 0; r < 4; ++r) ra[r] = __float_as_uint(a[(g + r % 2 * 8) * 8 + t + r / 2 * 4]);
  for (int r = 0; r < 2; ++r) rb[r] = __float_as_uint(b[(t + r * 4) * 8 + g]);
  for (int r = 0; r < 4; ++r) rd[r] = d[(g + r / 2 * 8) * 8 + 2 * t + r % 2];
  lf_mma_tf32(rd, ra, rb);
  for (int r = 0; r < 4; ++r) d[(g + r / 2 * 8) * 8 + 2 * t + r % 2] = rd[r];
})";

// A tile as generated code does it: copies that arrive late, matrices loaded from shared memory
// (of B by rows, transposed on the way), several warps.
constexpr char kTile[] = R"(
extern "C" __global__ void __launch_bounds__(64) lf_test_tile(
    const uint16_t* a, const uint16_t* b, float* d, int rows_of_a) {
  extern __shared__ __align__(16) unsigned char lf_shared[];
  uint16_t* sa = (uint16_t*)lf_shared;           // 32 x 16
  uint16_t* sb = (uint16_t*)(lf_shared + 1024);  // 16 x 8
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = threadIdx.x / 2, chunk = threadIdx.x % 2 * 8;
  lf_cp_async16_zfill(sa + row * 16 + chunk, a + row * 16 + chunk, row < rows_of_a ? 16 : 0);
  lf_cp_async_commit();
  if (threadIdx.x < 16) lf_cp_async16(sb + threadIdx.x * 8, b + threadIdx.x * 8);
  lf_cp_async_commit();
  lf_cp_async_wait<0>();
  __syncthreads();
  uint32_t ra[4], rb[2];
  lf_ldmatrix_x4(ra, sa + (warp * 16 + lane % 16) * 16 + lane / 16 * 8);
  lf_ldmatrix_x2_trans(rb, sb + lane % 16 * 8);
  float rd[4] = {};
  lf_mma_bf16(rd, ra, rb);
  const int g = lane / 4, t = lane % 4;
  for (int r = 0; r < 4; ++r) d[(warp * 16 + g + r / 2 * 8) * 8 + 2 * t + r % 2] = rd[r];
}
extern "C" __global__ void __launch_bounds__(32) lf_test_early(const uint16_t* a, uint32_t* out) {
  __shared__ __align__(16) uint16_t s[32 * 8];
  for (int i = 0; i < 8; ++i) s[threadIdx.x * 8 + i] = 0;
  __syncthreads();
  lf_cp_async16(s + threadIdx.x * 8, a + threadIdx.x * 8);
  lf_cp_async_commit();
  out[threadIdx.x] = s[threadIdx.x * 8];
  lf_cp_async_wait<1>();
  out[32 + threadIdx.x] = s[threadIdx.x * 8];
  lf_cp_async_wait<0>();
  out[64 + threadIdx.x] = s[threadIdx.x * 8];
}
extern "C" __global__ void __launch_bounds__(32) lf_test_loads(const uint16_t* a, uint32_t* out) {
  __shared__ __align__(16) uint16_t s[32 * 8];
  const uint4 x = lf_load_stream16(a + threadIdx.x * 8);
  *(uint4*)(s + threadIdx.x * 8) = x;
  __syncthreads();
  uint32_t r4[4], r2[2];
  lf_ldmatrix_x4_trans(r4, s + threadIdx.x * 8);
  for (int i = 0; i < 4; ++i) out[i * 32 + threadIdx.x] = r4[i];
  lf_ldmatrix_x2(r2, s + (threadIdx.x % 16 + 16) * 8);
  for (int i = 0; i < 2; ++i) out[(4 + i) * 32 + threadIdx.x] = r2[i];
})";

// Small numbers that both formats hold, different in every element.
float number(int i) { return static_cast<float>((i * 7) % 31 - 15) / 8.0F; }

uint16_t bf16_bits(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// Exact for normal numbers with at most 10 bits after the first.
uint16_t f16_bits(float x) {
  if (x == 0) return 0;
  int exponent = 0;
  const float mantissa = std::frexp(std::fabs(x), &exponent);
  const int fraction = static_cast<int>(mantissa * 2048.0F) - 1024;
  return static_cast<uint16_t>((x < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) | fraction);
}

std::vector<float> plain_product(int m, int n, int k, const std::vector<float>& a,
                                 const std::vector<float>& b, float start) {
  std::vector<float> d(m * n, start);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int l = 0; l < k; ++l) d[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return d;
}

std::vector<float> numbers(int count, int from) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = number(from + i);
  return values;
}

template <class F>
std::vector<uint16_t> halves(const std::vector<float>& values, F bits) {
  std::vector<uint16_t> result;
  for (float x : values) result.push_back(bits(x));
  return result;
}

TEST(Mma, HalfPrecisionProductsMatchPlainOnes) {
  // Fails when a fragment's element is taken for another: every sum is exact, so nothing is near.
  Gpu gpu;
  const std::vector<float> a = numbers(16 * 16, 0), b = numbers(16 * 8, 1000);
  const std::vector<float> expected = plain_product(16, 8, 16, a, b, 2.0F);
  for (const auto& [name, bits] :
       {std::pair("lf_test_bf16", &bf16_bits), std::pair("lf_test_f16", &f16_bits)}) {
    void* kernel = gpu.kernel(with_preamble(kProducts), name);
    const uint64_t da = gpu.upload(halves(a, bits)), db = gpu.upload(halves(b, bits)),
                   dd = gpu.upload(std::vector<float>(128, 2.0F));
    gpu.check(gpu.launch(kernel, 1, 32, 0, da, db, dd));
    gpu.check(gpu.synchronise());
    EXPECT_EQ(gpu.download<float>(dd, 128), expected) << name;
  }
}

TEST(Mma, HalfPrecisionHoldsEveryKindOfNumber) {
  // Fails when subnormal, infinite or negative halves are read wrong.
  Gpu gpu;
  void* kernel = gpu.kernel(with_preamble(kProducts), "lf_test_f16");
  std::vector<uint16_t> a(256), b(128);
  const uint16_t kinds[] = {0x0001, 0x83ff, 0x7bff, 0xfc00, 0x3c01, 0x8000};
  const double values[] = {0x1p-24, -1023 * 0x1p-24, 65504.0, -HUGE_VAL, 1.0 + 0x1p-10, -0.0};
  for (int i = 0; i < 6; ++i) a[i * 16] = kinds[i];
  for (int j = 0; j < 8; ++j) b[j] = 0x3c00;  // the first row is 1
  const uint64_t da = gpu.upload(a), db = gpu.upload(b), dd = gpu.upload(std::vector<float>(128));
  gpu.check(gpu.launch(kernel, 1, 32, 0, da, db, dd));
  gpu.check(gpu.synchronise());
  const auto d = gpu.download<float>(dd, 128);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(d[i * 8 + 3], static_cast<float>(values[i])) << i;
}

TEST(Mma, Tf32ReadsNineteenBits) {
  // Fails when fragments are mixed up, or bits count that the hardware does not read.
  Gpu gpu;
  void* kernel = gpu.kernel(with_preamble(kProducts), "lf_test_tf32");
  std::vector<float> a = numbers(16 * 8, 5), b = numbers(8 * 8, 300);
  const std::vector<float> expected = plain_product(16, 8, 8, a, b, 0.0F);
  for (float& x : a) x *= 1.0F + 0x1p-13F;  // beyond the ten bits of tf32
  const uint64_t da = gpu.upload(a), db = gpu.upload(b), dd = gpu.upload(std::vector<float>(128));
  gpu.check(gpu.launch(kernel, 1, 32, 0, da, db, dd));
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<float>(dd, 128), expected);
}

TEST(Mma, TilesThroughSharedMemoryMatchPlainProducts) {
  // Fails when ldmatrix and mma disagree about who holds what, or a copy's zeros are left out.
  Gpu gpu;
  void* kernel = gpu.kernel(with_preamble(kTile), "lf_test_tile");
  constexpr int kRows = 20;
  std::vector<float> a = numbers(32 * 16, 3);
  const std::vector<float> b = numbers(16 * 8, 77);
  const uint64_t da = gpu.upload(halves(a, &bf16_bits)), db = gpu.upload(halves(b, &bf16_bits)),
                 dd = gpu.upload(std::vector<float>(256));
  for (int i = kRows * 16; i < 32 * 16; ++i) a[i] = 0.0F;
  gpu.check(gpu.launch(kernel, 1, 64, 1024 + 256, da, db, dd, kRows));
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<float>(dd, 256), plain_product(32, 8, 16, a, b, 0.0F));
}

TEST(Mma, CopiesArriveAtTheWaitForThem) {
  // Fails when an asynchronous copy is done early: a kernel that forgets to wait would pass.
  Gpu gpu;
  void* kernel = gpu.kernel(with_preamble(kTile), "lf_test_early");
  const uint64_t a = gpu.upload(std::vector<uint16_t>(256, 9)), out = gpu.memory(96 * 4);
  gpu.check(gpu.launch(kernel, 1, 32, 0, a, out));
  gpu.check(gpu.synchronise());
  const auto seen = gpu.download<uint32_t>(out, 96);
  EXPECT_EQ(seen[7], 0u);
  EXPECT_EQ(seen[32 + 7], 0u);
  EXPECT_EQ(seen[64 + 7], 9u);
}

TEST(Mma, MatrixLoadsGiveTheDocumentedElements) {
  // Fails when a matrix load hands an element to another lane, transposed or not.
  Gpu gpu;
  void* kernel = gpu.kernel(with_preamble(kTile), "lf_test_loads");
  std::vector<uint16_t> a(256);  // four matrices; element (i, j) of matrix m is 64m + 8i + j
  for (int i = 0; i < 256; ++i) a[i] = static_cast<uint16_t>(i);
  const uint64_t da = gpu.upload(a), out = gpu.memory(6 * 32 * 4);
  gpu.check(gpu.launch(kernel, 1, 32, 0, da, out));
  gpu.check(gpu.synchronise());
  const auto words = gpu.download<uint32_t>(out, 6 * 32);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t low = 64 * m + 8 * (2 * t) + g, high = 64 * m + 8 * (2 * t + 1) + g;
      EXPECT_EQ(words[m * 32 + lane], low | high << 16) << lane << " transposed " << m;
    }
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t low = 64 * (m + 2) + 8 * g + 2 * t;
      EXPECT_EQ(words[(4 + m) * 32 + lane], low | (low + 1) << 16) << lane << " straight " << m;
    }
  }
}

TEST(Mma, RealCompilerTakesTheSameKernels) {
  // Fails when the wrappers' PTX is not what NVIDIA's assembler accepts.
  const Api nvrtc = real_nvrtc();
  if (nvrtc.nvrtcCompileProgram == nullptr) GTEST_SKIP() << "no NVRTC here: install CUDA 12 or 13";
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    for (const char* kernels : {kProducts, kTile}) {
      const Compiled compiled = compile(nvrtc, with_preamble(kernels), architecture);
      EXPECT_EQ(compiled.result, 0) << architecture << ": " << compiled.log;
      EXPECT_GT(compiled.cubin.size(), 1000u) << architecture;
    }
  }
}

}  // namespace
}  // namespace emulator
