// What is decoded from machine code against kernels whose content is known from their text.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/base/cat.h"
#include "common/cuda/nvrtc.h"
#include "common/cuda/sass.h"

namespace common {
namespace {

constexpr const char* kText = R"(
extern "C" __global__ void lf_ahead(const uint4* a, uint4* out) {
  uint4 x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = a[i * 256 + threadIdx.x];
  uint4 s = x[0];
#pragma unroll
  for (int i = 1; i < 4; ++i) { s.x ^= x[i].x; s.y ^= x[i].y; s.z ^= x[i].z; s.w ^= x[i].w; }
  out[threadIdx.x] = s;
}
extern "C" __global__ void lf_copies(const uint4* a, uint4* out, int steps) {
  __shared__ uint4 t[3][32];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;"
                 :: "r"((unsigned)__cvta_generic_to_shared(&t[k][threadIdx.x])),
                    "l"(a + k * 32 + threadIdx.x) : "memory");
  }
#pragma unroll 1
  for (int k = 0; k < steps; ++k) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[k * 32 + threadIdx.x] = t[k % 3][31 - threadIdx.x];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;"
                 :: "r"((unsigned)__cvta_generic_to_shared(&t[(k + 2) % 3][threadIdx.x])),
                    "l"(a + (k + 2) * 32 + threadIdx.x) : "memory");
  }
}
extern "C" __global__ void lf_matrices(unsigned* out) {
  __shared__ uint4 t[32];
  unsigned r[4], place = (unsigned)__cvta_generic_to_shared(&t[threadIdx.x]);
  t[threadIdx.x] = make_uint4(0, 1, 2, out[threadIdx.x]);
  __syncthreads();
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "+r"(r[0]), "=r"(r[1]) : "r"(place) : "memory");
  out[threadIdx.x] = r[0] + r[1] + r[2] + r[3];
}
extern "C" __global__ void lf_divides(const long long* a, long long* out, long long n, int count) {
  long long s = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) s += a[i * 256 + threadIdx.x] / n;
  out[threadIdx.x] = s;
}
extern "C" __global__ void lf_nested(const float* a, float* out, int rows, int columns) {
  float s = 0;
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    float m = 0;
#pragma unroll 1
    for (int c = 0; c < columns; ++c) m = fmaxf(m, a[(r * columns + c) * 256 + threadIdx.x]);
    s += m;
  }
  out[threadIdx.x] = s;
}
extern "C" __global__ void lf_shared(const float* a, double* out) {
  __shared__ float t[256];
  t[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = (double)t[255 - threadIdx.x] * 3.0;
}
extern "C" __global__ void lf_stream(const uint4* a, uint4* out) {
  out[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void lf_tensor(const unsigned* a, float* out) {
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  unsigned x = a[threadIdx.x];
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(x));
  out[threadIdx.x] = c0 + c1 + c2 + c3;
}
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define LF_PRODUCT(d)                                                                    \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, "  \
               "%4, %4, 1, 1, 1, 0, 0;"                                                  \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(matrix))
extern "C" __global__ void __launch_bounds__(128) lf_groups(unsigned long matrix, float* out) {
  float d[4] = {}, e[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  LF_PRODUCT(d);
  LF_PRODUCT(d);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  LF_PRODUCT(e);
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
  for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(d[i])::"memory");
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(e[i])::"memory");
  out[threadIdx.x + 128] = e[0] + e[1] + e[2] + e[3];
}
#endif
#if __CUDA_ARCH__ >= 900
struct __align__(64) lf_map { unsigned long words[16]; };
extern "C" __global__ void lf_boxes(int steps, const __grid_constant__ lf_map map) {
  __shared__ __align__(1024) unsigned char memory[4096];
  __shared__ unsigned long barrier;
  const unsigned to = (unsigned)__cvta_generic_to_shared(memory);
  const unsigned bytes = (unsigned)__cvta_generic_to_shared(&barrier);
#pragma unroll 1
  for (int k = 0; k < steps; ++k) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %2}], [%3];" :: "r"(to), "l"(&map), "r"(k), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %2, %2}], [%3];" :: "r"(to), "l"(&map), "r"(k), "r"(bytes)
                 : "memory");
  }
}
#endif
)";

int64_t count(const SassKernel& kernel, SassClass kind, int bytes = 0) {
  return std::count_if(kernel.code.begin(), kernel.code.end(), [&](const SassInstruction& x) {
    return x.kind == kind && (bytes == 0 || x.bytes == bytes);
  });
}

int64_t count_in_loop(const SassKernel& kernel, SassClass kind, int loop) {
  int64_t found = 0;
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    found += kernel.code[k].kind == kind && innermost_loop(kernel, k) == loop ? 1 : 0;
  }
  return found;
}

class Sass : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto nvrtc = Nvrtc::open();
    if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message;
    if (!(*nvrtc)->supports(GetParam())) GTEST_SKIP() << "NVRTC has no " << GetParam();
    auto output = (*nvrtc)->compile(kText, GetParam(), {});
    ASSERT_TRUE(output.ok()) << output.error().message;
    auto kernels = read_sass(output->cubin);
    ASSERT_TRUE(kernels.ok()) << kernels.error().message;
    kernels_ = *kernels;
  }
  const SassKernel& kernel(const std::string& name) const {
    auto it = std::find_if(kernels_.begin(), kernels_.end(),
                           [&](const SassKernel& k) { return k.name == name; });
    EXPECT_NE(it, kernels_.end()) << name;
    return *it;
  }

 private:
  std::vector<SassKernel> kernels_;
};

TEST_P(Sass, AccessesHaveTheirWidths) {
  // Fails when the width is read from other bits, or loads are taken for stores.
  const SassKernel& stream = kernel("lf_stream");
  EXPECT_EQ(count(stream, SassClass::kGlobalLoad), 1);
  EXPECT_EQ(count(stream, SassClass::kGlobalLoad, 16), 1);
  EXPECT_EQ(count(stream, SassClass::kGlobalStore, 16), 1);
  EXPECT_TRUE(stream.loops.empty()) << "the branch to itself at the end is no loop";
  const SassKernel& shared = kernel("lf_shared");
  EXPECT_EQ(count(shared, SassClass::kGlobalLoad, 4), 1);
  EXPECT_EQ(count(shared, SassClass::kSharedStore, 4), 1);
  EXPECT_EQ(count(shared, SassClass::kSharedLoad, 4), 1);
  EXPECT_EQ(count(shared, SassClass::kGlobalStore, 8), 1);
  EXPECT_EQ(count(shared, SassClass::kBarrier), 1);
  EXPECT_EQ(count(shared, SassClass::kDouble), 1);
}

TEST_P(Sass, EveryInstructionTakesAClock) {
  // Fails when stalls are read from other bits: dependent sums take four clocks and more.
  int64_t clocks = 0, sums = 0;
  for (const SassInstruction& x : kernel("lf_ahead").code) {
    if (!x.is_reached) continue;
    EXPECT_GE(x.stall, 1) << x.opcode;
    clocks += x.stall;
    ++sums;
  }
  EXPECT_GT(clocks, sums);
  EXPECT_LT(clocks, 15 * sums);
}

TEST_P(Sass, LoadsUnderWayTogetherAreAdded) {
  // Fails when scoreboards are not told apart, or never cleared.
  SassInFlight ahead = loads_in_flight(kernel("lf_ahead"));
  EXPECT_EQ(ahead.bytes, 64);
  EXPECT_EQ(ahead.loads, 4);
  EXPECT_EQ(loads_in_flight(kernel("lf_stream")).bytes, 16);
  EXPECT_EQ(loads_in_flight(kernel("lf_nested")).bytes, 4);
}

TEST_P(Sass, CopiesAreUnderWayUntilTheirGroupIsWaitedFor) {
  // Fails when waits for copies are not seen, or wait for all of them.
  SassInFlight copies = loads_in_flight(kernel("lf_copies"));
  EXPECT_EQ(copies.bytes, 32);
  EXPECT_EQ(copies.loads, 2);
}

TEST_P(Sass, BoxesAreCopiesOfTheirOwnKind) {
  // Fails when what the copy engine is asked for is taken for arithmetic.
  if (GetParam() == std::string("sm_80")) GTEST_SKIP() << "it has no copy engine";
  const SassKernel& boxes = kernel("lf_boxes");
  EXPECT_EQ(count(boxes, SassClass::kBoxCopy), 2);
  EXPECT_EQ(count(boxes, SassClass::kAsyncCopy), 0);
}

TEST_P(Sass, ProductsOfWarpgroupsEndInGroups) {
  // Fails when a group's last product, or a wait for all groups but one, is taken for another.
  if (GetParam() != std::string("sm_90a")) GTEST_SKIP() << "it has no warpgroup products";
  std::vector<int> groups;
  int64_t ends = 0;
  for (const SassInstruction& x : kernel("lf_groups").code) {
    ends += x.ends_products ? 1 : 0;
    if (x.products_left >= 0) groups.push_back(x.products_left);
  }
  // The compiler may end a group, and wait for it, where the text does not.
  EXPECT_GE(ends, 2);
  EXPECT_LE(ends, 3);
  EXPECT_EQ(std::count(groups.begin(), groups.end(), 1), 1);
  EXPECT_EQ(groups.back(), 0);
}

TEST_P(Sass, MatricesHaveTheirWidths) {
  EXPECT_EQ(count(kernel("lf_matrices"), SassClass::kSharedLoad, 16), 1);
  EXPECT_EQ(count(kernel("lf_matrices"), SassClass::kSharedLoad, 8), 1);
}

TEST_P(Sass, FunctionsThatAreCalledAreNotReached) {
  auto reached = [](const SassKernel& k) {
    return std::count_if(k.code.begin(), k.code.end(),
                         [](const SassInstruction& x) { return x.is_reached; });
  };
  const SassKernel& stream = kernel("lf_stream");
  EXPECT_EQ(reached(stream) + 1, static_cast<int64_t>(stream.code.size()))
      << "all but the branch to itself at the end";
  // A division of 64 bits takes more than half of the code.
  const SassKernel& divides = kernel("lf_divides");
  EXPECT_LT(reached(divides) * 2, static_cast<int64_t>(divides.code.size()));
}

TEST_P(Sass, LoopsAreBackwardBranches) {
  // Fails when a branch's distance is read without its sign or its upper bits.
  const SassKernel& nested = kernel("lf_nested");
  ASSERT_EQ(nested.loops.size(), 2U);
  EXPECT_LT(nested.loops[0].first, nested.loops[1].first);
  EXPECT_GT(nested.loops[0].last, nested.loops[1].last);
  EXPECT_EQ(count_in_loop(nested, SassClass::kGlobalLoad, 1), 1);
  EXPECT_EQ(count_in_loop(nested, SassClass::kGlobalLoad, 0), 0);
  EXPECT_EQ(count_in_loop(nested, SassClass::kGlobalStore, -1), 1);
}

TEST_P(Sass, DivisionsAreCallsInLoops) {
  const SassKernel& divides = kernel("lf_divides");
  ASSERT_GE(divides.loops.size(), 1U);
  EXPECT_EQ(count_in_loop(divides, SassClass::kCall, 0), 1);
  EXPECT_EQ(count(kernel("lf_ahead"), SassClass::kCall), 0);
}

TEST_P(Sass, TensorCoresAreSeen) {
  EXPECT_EQ(count(kernel("lf_tensor"), SassClass::kTensor), 1);
  EXPECT_EQ(count(kernel("lf_stream"), SassClass::kTensor), 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Sass, testing::Values("sm_80", "sm_90a", "sm_100"));

// A loop that waits in each step for its first load and for the last one of the step before.
TEST(SassFlow, WhatAStepLeavesUnderWayCountsInTheNext) {
  auto load = [](uint8_t bytes, int8_t scoreboard) {
    SassInstruction x;
    x.kind = SassClass::kGlobalLoad;
    x.bytes = bytes;
    x.scoreboard = scoreboard;
    return x;
  };
  auto wait = [](uint8_t scoreboards) {
    SassInstruction x;
    x.waits = scoreboards;
    return x;
  };
  SassInstruction back;
  back.kind = SassClass::kBranch;
  back.target = 0;
  back.is_conditional = true;
  SassKernel kernel;
  kernel.code = {load(16, 0), wait(3), load(8, 1), back, wait(2)};
  EXPECT_EQ(loads_in_flight(kernel).bytes, 24);
  EXPECT_EQ(loads_in_flight(kernel, SassLoop{1, 3}).bytes, 8);
  // Of the two ways to a place one is taken.
  SassInstruction over = back;
  over.target = 3;
  SassInstruction end = back;
  end.opcode = 0x147;
  end.target = 4;
  end.is_conditional = false;
  kernel.code = {over, load(16, 0), end, load(8, 1), wait(3)};
  EXPECT_EQ(loads_in_flight(kernel).bytes, 16);
}

TEST(SassBytes, OtherBytesAreRefused) {
  EXPECT_FALSE(read_sass({}).ok());
  Bytes text(4096, std::byte{0x41});
  EXPECT_FALSE(read_sass(text).ok());
}

}  // namespace
}  // namespace common
