#include "worker/codegen/cuda/preamble_wgmma.h"

#include <string_view>

#include "common/base/cat.h"

namespace worker {
namespace {

using common::cat;

// Fields of 14 bits count 16 bytes each: the address from bit 0, the offsets from 16 and 32. The
// mode of swizzling is in the highest two: 1, 2, 3 for 128, 64, 32 bytes.
constexpr std::string_view kDescriptor = R"C(
#if defined(LF_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
LF_INLINE uint64_t lf_matrix(const void* shared, uint32_t leading, uint32_t stride,
                             uint32_t swizzle) {
  const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return (lf_shared_address(shared) & 0x3ffff) >> 4 | (uint64_t)(leading >> 4) << 16 |
         (uint64_t)(stride >> 4) << 32 | mode << 62;
}
#endif
)C";

constexpr std::string_view kOrder = R"C(
#if !defined(LF_EMULATED) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
LF_PTX void lf_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
LF_PTX void lf_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroupsLeft>
LF_PTX void lf_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(kGroupsLeft) : "memory");
}
template <int kSums>
LF_PTX void lf_wgmma_done(float (&d)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
LF_PTX void lf_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
LF_PTX void lf_store_shared16(void* shared, uint4 x) { *(uint4*)shared = x; }
)C";

// One product with so many columns, of each type.
std::string product(int columns) {
  std::string registers, operands;
  int sums = columns / 2;
  for (int i = 0; i < sums; ++i) {
    registers += cat(i == 0 ? "" : ",", "%", i);
    operands += cat(i == 0 ? "" : ",", "\"+f\"(d[", i, "])");
  }
  std::string text;
  for (std::string_view type : {"bf16", "f16"}) {
    text += cat("template <int kLeftAcross, int kRightAcross>\nLF_PTX void lf_wgmma_", type,
                "(float (&d)[", sums, "], uint64_t left, uint64_t right) {\n",
                "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n", columns, "k16.f32.", type,
                ".", type, " {", registers, "}, %", sums, ", %", sums + 1, ", 1, 1, 1, %", sums + 2,
                ", %", sums + 3, ";\"\n    : ", operands,
                " : \"l\"(left), \"l\"(right), \"n\"(kLeftAcross), \"n\"(kRightAcross));\n}\n");
  }
  return text;
}

}  // namespace

std::string cuda_preamble_wgmma() {
  std::string text = cat(kDescriptor, kOrder);
  for (int columns : {64, 128, 256}) text += product(columns);
  return text + "#endif\n";
}

}  // namespace worker
