#include "worker/codegen/cuda/preamble_mma.h"

namespace worker {
namespace {

// PTX ISA 7.0 for sm_80 and later: "mma", "ldmatrix", "cp.async", "ld.global.nc".
// A load may name eviction from the second-level cache itself only where it moves 32 bytes; 16 take
// a policy.
constexpr std::string_view kText = R"C(
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
#define LF_PTX static __device__ __forceinline__
#define LF_MMA(name, shape)                                                                   \
  LF_PTX void name(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {           \
    asm volatile("mma.sync.aligned." shape                                                    \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"           \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));         \
  }
LF_MMA(lf_mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
LF_MMA(lf_mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
LF_MMA(lf_mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
LF_PTX uint32_t lf_shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
#define LF_LDMATRIX4(name, suffix)                                                            \
  LF_PTX void name(uint32_t (&r)[4], const void* shared_row) {                                \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" suffix ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                             \
                 : "r"(lf_shared_address(shared_row)) : "memory");                            \
  }
#define LF_LDMATRIX2(name, suffix)                                                            \
  LF_PTX void name(uint32_t (&r)[2], const void* shared_row) {                                \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" suffix ".shared.b16 {%0, %1}, [%2];"         \
                 : "=r"(r[0]), "=r"(r[1])                                                     \
                 : "r"(lf_shared_address(shared_row)) : "memory");                            \
  }
LF_LDMATRIX4(lf_ldmatrix_x4, "")
LF_LDMATRIX4(lf_ldmatrix_x4_trans, ".trans")
LF_LDMATRIX2(lf_ldmatrix_x2, "")
LF_LDMATRIX2(lf_ldmatrix_x2_trans, ".trans")
LF_PTX void lf_cp_async16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"(lf_shared_address(shared)), "l"(__cvta_generic_to_global(global)) : "memory");
}
LF_PTX void lf_cp_async16_zfill(void* shared, const void* global, int src_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(lf_shared_address(shared)), "l"(__cvta_generic_to_global(global)),
                  "r"(src_bytes) : "memory");
}
LF_PTX void lf_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroupsLeft>
LF_PTX void lf_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(kGroupsLeft) : "memory");
}
// Where kernels overlap, what an earlier one wrote may be read, after the wait for it alone.
#if __CUDA_ARCH__ >= 900
#define LF_STREAM_ASM asm volatile
#define LF_STREAM_LOAD "ld.global"
#else
#define LF_STREAM_ASM asm
#define LF_STREAM_LOAD "ld.global.nc"
#endif
LF_PTX uint4 lf_load_stream16(const void* global) {
  uint4 r;
  LF_STREAM_ASM("{\n.reg .b64 policy;\ncreatepolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      LF_STREAM_LOAD ".L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;\n}"
      : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(__cvta_generic_to_global(global)));
  return r;
}
LF_PTX uint4 lf_load_once16(const void* global) {
  uint4 r;
  LF_STREAM_ASM(LF_STREAM_LOAD ".L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(__cvta_generic_to_global(global)));
  return r;
}
#endif
)C";

}  // namespace

std::string_view cuda_preamble_mma() { return kText; }

}  // namespace worker
