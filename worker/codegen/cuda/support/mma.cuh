// Inline PTX of sm_80 and later: tensor core products, matrix loads from shared memory,
// asynchronous copies and streaming loads (PTX ISA 7.0: "mma", "ldmatrix", "cp.async",
// "ld.global.nc"). An emulated device defines functions of the same names itself, and older
// architectures get nothing.
//
// Each function is for whole warps unless it says otherwise; t and g are a lane modulo and divided
// by 4.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
#define LF_PTX static __device__ __forceinline__

// d += a * b: 16x8 of float32 from 16x16 and 16x8 of bfloat16 or float16, two a register with the
// lower k in the lower half; of tf32 (float32 whose low 13 bits are not read) from 16x8 and 8x8.
// d: rows g, g, g + 8, g + 8 and columns 2t, 2t + 1, 2t, 2t + 1. a: rows g, g + 8, g, g + 8 at k
// of 2t, 2t, 2t + 8, 2t + 8 (tf32: t, t, t + 4, t + 4). b: column g at k of 2t, 2t + 8 (t, t + 4).
#define LF_MMA(name, shape)                                                           \
  LF_PTX void name(float(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {      \
    asm volatile("mma.sync.aligned." shape                                            \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
LF_MMA(lf_mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
LF_MMA(lf_mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
LF_MMA(lf_mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")

LF_PTX uint32_t lf_shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
// A place in shared memory, to which bytes may be added, in one register.
typedef uint32_t lf_shared_place;
LF_PTX lf_shared_place lf_shared_at(const void* p) { return lf_shared_address(p); }
// What follows from x is computed anew in each step of a loop instead of being kept in registers.
LF_PTX void lf_compute_again(int& x) { asm volatile("" : "+r"(x)); }

// Loads matrices of 8x8 elements of 16 bits: lane 8j + i names the 16 bytes of row i of matrix j. A
// lane gets elements (g, 2t) and (g, 2t + 1) of matrix j in r[j]; transposed, (2t, g) and (2t + 1,
// g).
#define LF_LDMATRIX4(name, suffix)                                                            \
  LF_PTX void name(uint32_t(&r)[4], lf_shared_place row) {                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" suffix ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                             \
                 : "r"(row)                                                                   \
                 : "memory");                                                                 \
  }                                                                                           \
  LF_PTX void name(uint32_t(&r)[4], const void* shared_row) { name(r, lf_shared_at(shared_row)); }
#define LF_LDMATRIX2(name, suffix)                                                    \
  LF_PTX void name(uint32_t(&r)[2], const void* shared_row) {                         \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" suffix ".shared.b16 {%0, %1}, [%2];" \
                 : "=r"(r[0]), "=r"(r[1])                                             \
                 : "r"(lf_shared_address(shared_row))                                 \
                 : "memory");                                                         \
  }
LF_LDMATRIX4(lf_ldmatrix_x4, "")
LF_LDMATRIX4(lf_ldmatrix_x4_trans, ".trans")
LF_LDMATRIX2(lf_ldmatrix_x2, "")
LF_LDMATRIX2(lf_ldmatrix_x2_trans, ".trans")

// Any thread copies 16 bytes past the registers and the first-level cache.
LF_PTX void lf_cp_async16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(lf_shared_address(shared)),
               "l"(__cvta_generic_to_global(global))
               : "memory");
}
// The same of the first src_bytes; the rest becomes zeros.
LF_PTX void lf_cp_async16_zfill(void* shared, const void* global, int src_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(lf_shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(src_bytes)
               : "memory");
}
// Ends a group of the calling thread's copies.
LF_PTX void lf_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most so many of the thread's groups are under way; other threads see the copies
// after a barrier.
template <int kGroupsLeft>
LF_PTX void lf_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

// Where kernels overlap, a kernel may read what an earlier one wrote, so that a load must neither
// move before the wait for that kernel nor use the cache of constant data.
#if __CUDA_ARCH__ >= 900
#define LF_STREAM_ASM asm volatile
#define LF_STREAM_LOAD "ld.global"
#else
#define LF_STREAM_ASM asm
#define LF_STREAM_LOAD "ld.global.nc"
#endif

// 16 bytes that nothing writes while the kernel runs and nobody will read again. A load may name
// eviction from the second-level cache itself only where it moves 32 bytes; 16 take a policy.
LF_PTX uint4 lf_load_stream16(const void* global) {
  uint4 r;
  LF_STREAM_ASM(
      "{\n"
      ".reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n" LF_STREAM_LOAD
      ".L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;\n"
      "}"
      : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
      : "l"(__cvta_generic_to_global(global)));
  return r;
}
// The same without a policy for the second-level cache.
LF_PTX uint4 lf_load_once16(const void* global) {
  uint4 r;
  LF_STREAM_ASM(LF_STREAM_LOAD ".L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                : "l"(__cvta_generic_to_global(global)));
  return r;
}
#endif
