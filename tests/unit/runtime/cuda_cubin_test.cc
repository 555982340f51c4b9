// What is read from a cubin against what the assembler says of the same kernels in its log.
#include <gtest/gtest.h>

#include <regex>

#include "common/base/cat.h"
#include "common/cuda/cubin.h"
#include "common/cuda/nvrtc.h"

namespace common {
namespace {

// One kernel with shared memory, one whose registers cannot hold its values, one with an array that
// is indexed at run time, one with dynamic shared memory alone.
constexpr const char* kText = R"(
extern "C" __global__ void lf_shared(const float* a, float* out) {
  __shared__ float t[256];
  t[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = t[255 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(1024, 2) lf_spills(const float* a, float* out) {
  float v[48];
#pragma unroll
  for (int i = 0; i < 48; i++) v[i] = a[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 48; i++) {
    float s = 0;
#pragma unroll
    for (int j = 0; j < 48; j++) s += v[j] * v[(j * 7 + i) % 48];
    out[i * 1024 + threadIdx.x] = s;
  }
}
extern "C" __global__ void lf_indexed(const int* a, float* out) {
  float v[64];
  for (int i = 0; i < 64; i++) v[a[i] & 63] = i;
  for (int i = 0; i < 64; i++) out[i] = v[a[i + 64] & 63];
}
extern "C" __global__ void lf_dynamic(float* out) {
  extern __shared__ float d[];
  d[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = d[0];
}
)";

// The first number that follows `what` in the part of the log that is about `kernel`.
uint64_t logged(const std::string& log, const std::string& kernel, const std::string& pattern) {
  size_t start = log.find(cat("Compiling entry function '", kernel, "'"));
  if (start == std::string::npos) return UINT64_MAX;
  std::string part = log.substr(start, log.find("Compile time", start) - start);
  std::smatch match;
  return std::regex_search(part, match, std::regex(pattern)) ? std::stoull(match[1]) : 0;
}

TEST(Cubin, AgreesWithTheAssemblersLog) {
  auto nvrtc = Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message;
  for (const char* arch : {"sm_80", "sm_90a", "sm_100"}) {
    if (!(*nvrtc)->supports(arch)) continue;
    auto output = (*nvrtc)->compile(kText, arch, {"--ptxas-options=-v"});
    ASSERT_TRUE(output.ok()) << output.error().message;
    auto kernels = read_cubin(output->cubin);
    ASSERT_TRUE(kernels.ok()) << kernels.error().message;
    ASSERT_EQ(kernels->size(), 4U) << arch;
    for (const CubinKernel& kernel : *kernels) {
      SCOPED_TRACE(cat(arch, " ", kernel.name));
      EXPECT_EQ(kernel.registers, logged(output->log, kernel.name, "Used (\\d+) registers"));
      EXPECT_EQ(kernel.local_bytes, logged(output->log, kernel.name, "(\\d+) bytes stack frame"));
      EXPECT_EQ(kernel.shared_bytes, logged(output->log, kernel.name, "(\\d+) bytes smem"));
      EXPECT_GT(kernel.code_bytes, 0U);
    }
    EXPECT_EQ((*kernels)[3].name, "lf_spills");
    EXPECT_GT((*kernels)[3].local_bytes, 0U);
  }
}

TEST(Cubin, OtherBytesAreRefused) {
  EXPECT_FALSE(read_cubin({}).ok());
  EXPECT_FALSE(read_cubin(as_bytes("no ELF file at all, but long enough to hold a header of one, "
                                   "which takes sixty-four bytes"))
                   .ok());
}

TEST(Cubin, DamagedOnesAreReadWithoutHarm) {
  auto nvrtc = Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message;
  auto output = (*nvrtc)->compile(kText, "sm_90a", {});
  ASSERT_TRUE(output.ok()) << output.error().message;
  size_t refused = 0;
  for (size_t size = 0; size < output->cubin.size(); size += 97) {
    refused += !read_cubin(ByteView(output->cubin).first(size)).ok();
  }
  EXPECT_GT(refused, 0U);
  for (size_t at = 0; at < output->cubin.size(); at += 31) {
    Bytes damaged = output->cubin;
    damaged[at] ^= std::byte{0xa5};
    auto kernels = read_cubin(damaged);
    if (!kernels.ok()) continue;
    // Each has a symbol of its own, of 24 bytes.
    EXPECT_LE(kernels->size(), damaged.size() / 24);
  }
}

}  // namespace
}  // namespace common
