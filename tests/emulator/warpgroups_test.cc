// Warpgroup products: the emulated ones compute what NVIDIA's documentation says and refuse what it
// leaves undefined, and the same kernels compile with the real compiler.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <regex>

#include "tests/emulator/gpu.h"
#include "worker/codegen/cuda/cuda.h"

namespace emulator {
namespace {

std::string with_preamble(const std::string& kernels) {
  return worker::CudaCodeGenerator({"cuda-sm_90a"}).preamble() + kernels;
}

// A block of one warpgroup: a (64 x 16) and b (16 x 64) come as they lie in shared memory, 8 KiB
// each, with the descriptors' offsets and swizzles; d is 64 x 64. PRE, MIDDLE and POST are a case's
// own.
constexpr char kProduct[] = R"(
extern "C" __global__ void __launch_bounds__(128) lf_test_product(
    const uint4* a, const uint4* b, float* d, int a_leading, int a_stride, int b_leading,
    int b_stride) {
  extern __shared__ __align__(1024) unsigned char lf_shared_1024[];
  unsigned char* const memory = lf_shared_1024;
  const int tid = threadIdx.x, lane = tid % 32;
  float sum[32];
  for (int i = 0; i < 32; ++i) sum[i] = i;
  for (int x = tid; x < 512; x += 128) {
    lf_store_shared16(memory + x * 16, a[x]);
    lf_store_shared16(memory + 8192 + x * 16, b[x]);
  }
  PRE
  __syncthreads();
  const uint64_t left = lf_matrix(memory, a_leading, a_stride, SWIZZLE) + A_SHIFT;
  const uint64_t right = lf_matrix(memory + 8192, b_leading, b_stride, SWIZZLE) + B_SHIFT;
  FENCE
  lf_wgmma_bf16<A_ACROSS, B_ACROSS>(sum, left, right);
  lf_wgmma_commit();
  MIDDLE
  lf_wgmma_wait<LEFT>();
  POST
  for (int i = 0; i < 32; ++i) {
    d[(tid / 32 * 16 + lane / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = sum[i];
  }
})";

struct Case {
  int swizzle = 32;
  bool a_across = false, b_across = false;
  std::string pre = "lf_fence_async();", fence = "lf_wgmma_fence();", middle, left = "0", post;
};

std::string kernel_of(const Case& c) {
  std::string text = kProduct;
  const auto put = [&](const char* name, const std::string& with) {
    text = std::regex_replace(text, std::regex(std::string("\\b") + name + "\\b"), with);
  };
  put("SWIZZLE", std::to_string(c.swizzle));
  // The last 16 k of rows that hold more.
  put("A_SHIFT", std::to_string(c.a_across ? 0 : (c.swizzle - 32) / 16));
  put("B_SHIFT", std::to_string(c.b_across ? 0 : (c.swizzle - 32) / 16));
  put("A_ACROSS", std::to_string(c.a_across));
  put("B_ACROSS", std::to_string(c.b_across));
  put("PRE", c.pre);
  put("FENCE", c.fence);
  put("MIDDLE", c.middle);
  put("LEFT", c.left);
  put("POST", c.post);
  return with_preamble(text);
}

float number(int i) { return static_cast<float>((i * 7) % 31 - 15) / 8.0F; }

uint16_t bf16_bits(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// A matrix of 64 own x 16 k as the figures of the PTX ISA draw it, built from rows of `swizzle`
// bytes: its bytes and the descriptor's two offsets.
struct Laid {
  std::vector<uint16_t> halves = std::vector<uint16_t>(4096);
  int leading = 0, stride = 0;
};
Laid lay(int swizzle, bool across, float (*value)(int own, int k)) {
  Laid laid;
  const int row_halves = swizzle / 2;
  const int rows_across = 64 / row_halves;  // of 64 own: how often a row's length fits
  for (int own = 0; own < 64; ++own) {
    for (int k = 0; k < 16; ++k) {
      int row = 0, column = 0;
      if (across) {
        // For each part of the axis all rows of k.
        row = own / row_halves * 16 + k;
        column = own % row_halves;
      } else {
        row = own;
        column = row_halves - 16 + k;
      }
      const int turn = swizzle == 128 ? row % 8 : swizzle == 64 ? row / 2 % 4 : row / 4 % 2;
      const int chunk = column / 8 ^ turn;
      laid.halves[row * row_halves + chunk * 8 + column % 8] = bf16_bits(value(own, k));
    }
  }
  laid.stride = 8 * swizzle;
  laid.leading = across && rows_across > 1 ? 16 * swizzle : 16;
  return laid;
}

float left_value(int own, int k) { return number(own * 16 + k); }
float right_value(int own, int k) { return number(1000 + k * 64 + own); }

// What the kernel stored, or the fault that ended it.
int run(const Case& c, std::vector<float>* d) {
  Gpu gpu;
  void* kernel = gpu.kernel(kernel_of(c), "lf_test_product");
  const Laid a = lay(c.swizzle, c.a_across, left_value);
  const Laid b = lay(c.swizzle, c.b_across, right_value);
  const uint64_t da = gpu.upload(a.halves), db = gpu.upload(b.halves),
                 dd = gpu.upload(std::vector<float>(4096));
  gpu.check(
      gpu.launch(kernel, 1, 128, 16384, da, db, dd, a.leading, a.stride, b.leading, b.stride));
  const int result = gpu.synchronise();
  if (result == 0) *d = gpu.download<float>(dd, 4096);
  return result;
}

TEST(Warpgroups, ProductsMatchPlainOnes) {
  // Fails when a descriptor's field, a swizzle or an accumulator's place is taken for another:
  // every sum is exact.
  for (const int swizzle : {32, 64, 128}) {
    for (const bool a_across : {false, true}) {
      for (const bool b_across : {false, true}) {
        Case c;
        c.swizzle = swizzle;
        c.a_across = a_across;
        c.b_across = b_across;
        std::vector<float> d;
        ASSERT_EQ(run(c, &d), 0);
        for (int row = 0; row < 64; ++row) {
          for (int column = 0; column < 64; ++column) {
            // What the sums began with.
            const int place = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
            auto expected = static_cast<float>(place);
            for (int k = 0; k < 16; ++k) expected += left_value(row, k) * right_value(column, k);
            ASSERT_EQ(d[row * 64 + column], expected)
                << swizzle << a_across << b_across << " row " << row << " column " << column;
          }
        }
      }
    }
  }
}

// Fails when a register's halves are taken for another row or k, or a product adds to what it is
// to replace.
TEST(Warpgroups, LeftMatricesMayBeInRegisters) {
  for (const bool b_across : {false, true}) {
    const std::string across = b_across ? "1" : "0";
    Case c;
    c.b_across = b_across;
    c.fence = R"(lf_wgmma_fence();
    uint32_t own[4];
    for (int e = 0; e < 4; ++e) {
      const int row = tid / 32 * 16 + lane / 4 + e % 2 * 8, chunk = e / 2 ^ row / 4 % 2;
      own[e] = ((const uint32_t*)a)[row * 8 + chunk * 4 + lane % 4];
    })";
    c.fence += "lf_wgmma_bf16<0, " + across + ", 0>(sum, left, right);\n";
    c.fence += "lf_wgmma_bf16_registers<" + across + ">(sum, own, right);";
    std::vector<float> d;
    ASSERT_EQ(run(c, &d), 0);
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < 64; ++column) {
        float expected = 0;
        for (int k = 0; k < 16; ++k) expected += 3 * left_value(row, k) * right_value(column, k);
        ASSERT_EQ(d[row * 64 + column], expected) << b_across << " " << row << " " << column;
      }
    }
    const Api nvrtc = real_nvrtc();
    if (nvrtc.nvrtcCompileProgram == nullptr) continue;
    const Compiled compiled = compile(nvrtc, kernel_of(c), "sm_90a");
    EXPECT_EQ(compiled.result, 0) << compiled.log;
  }
}

// The products' documentation leaves each of these undefined. Where one is not noticed, a kernel
// that is wrong only on hardware passes all tests.
TEST(Warpgroups, UndefinedUsesEndTheKernel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<std::pair<const char*, Case>> cases;
  const auto add = [&](const char* said) -> Case& {
    return cases.emplace_back(said, Case()).second;
  };
  add("was not fenced for it").pre = "";
  add("no fence between sums' access").fence = "";
  add("no fence between sums' access").post =
      "lf_wgmma_bf16<0, 0>(sum, left, right); lf_wgmma_commit(); lf_wgmma_wait<0>();";
  add("a matrix was written while").middle =
      "if (tid == 5) *(uint4*)(memory + 64) = make_uint4(1, 2, 3, 4);";
  add("a write to a matrix").middle =
      "lf_store_shared16(memory + tid * 16, make_uint4(0, 0, 0, 0));";
  add("a write to a matrix").middle = "lf_cp_async16(memory + tid * 16, a);";
  add("sums were written").middle = "sum[3] = 1;";
  add("ends before its products").left = "1";
  add("begin different products").fence =
      "lf_wgmma_fence(); if (tid / 32 == 2) { lf_wgmma_bf16<0, 0>(sum, left + 64, right); }";
  add("beyond the dynamic shared memory").fence =
      "lf_wgmma_fence(); lf_wgmma_bf16<0, 0>(sum, left + 1000, right);";
  for (const auto& [said, c] : cases) {
    std::vector<float> d;
    EXPECT_EXIT(std::_Exit(run(c, &d) == kLaunchFailed ? 0 : 1), testing::ExitedWithCode(0), said);
  }
}

TEST(Warpgroups, SumsAreNotThereBeforeTheWait) {
  // Fails when a product is done at once: a kernel that forgets to wait would pass.
  Case c;
  c.middle = "if (tid == 0) d[4096 - 1] = sum[0]; const float early = sum[1];";
  c.post = "sum[1] = early;";
  std::vector<float> d;
  ASSERT_EQ(run(c, &d), 0);
  EXPECT_TRUE(std::isnan(d[1])) << d[1];
}

TEST(Warpgroups, RealCompilerTakesTheSameKernels) {
  // Fails when the wrappers' PTX is not what NVIDIA's assembler accepts.
  const Api nvrtc = real_nvrtc();
  if (nvrtc.nvrtcCompileProgram == nullptr) GTEST_SKIP() << "no NVRTC here: install CUDA 12 or 13";
  for (const bool across : {false, true}) {
    Case c;
    c.a_across = c.b_across = across;
    const Compiled compiled = compile(nvrtc, kernel_of(c), "sm_90a");
    EXPECT_EQ(compiled.result, 0) << compiled.log;
    EXPECT_GT(compiled.cubin.size(), 1000u);
  }
}

}  // namespace
}  // namespace emulator
