// The part of the CUDA preamble that is inline PTX: tensor core products, matrix loads from shared
// memory, asynchronous copies and streaming loads. Apart, because an emulated device defines
// functions of the same names itself.
#pragma once

#include <string_view>

namespace worker {

// Needs uint32_t; nothing for architectures before sm_80. Each function is for whole warps unless
// it says otherwise; t and g are a lane modulo and divided by 4.
//
// void lf_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
// void lf_mma_f16(...), void lf_mma_tf32(...)
//   d += a * b: 16x8 of float32 from 16x16 and 16x8 of bfloat16 or float16, two a register with the
//   lower k in the lower half; of tf32 (float32 whose low 13 bits are not read) from 16x8 and 8x8.
//   d: rows g, g, g + 8, g + 8 and columns 2t, 2t + 1, 2t, 2t + 1. a: rows g, g + 8, g, g + 8 at k
//   of 2t, 2t, 2t + 8, 2t + 8 (tf32: t, t, t + 4, t + 4). b: column g at k of 2t, 2t + 8 (t, t +
//   4).
// void lf_ldmatrix_x4(uint32_t (&r)[4], const void* shared_row), lf_ldmatrix_x4_trans,
// void lf_ldmatrix_x2(uint32_t (&r)[2], const void* shared_row), lf_ldmatrix_x2_trans
//   Matrices of 8x8 elements of 16 bits: lane 8j + i names the 16 bytes of row i of matrix j. A
//   lane gets elements (g, 2t) and (g, 2t + 1) of matrix j in r[j]; transposed, (2t, g) and (2t +
//   1, g).
// void lf_cp_async16(void* shared, const void* global), for any thread
// void lf_cp_async16_zfill(void* shared, const void* global, int src_bytes)
//   Copies 16 bytes past the registers and first-level cache, the latter src_bytes and then zeros.
// void lf_cp_async_commit()
//   Ends a group of the calling thread's copies.
// template <int kGroupsLeft> void lf_cp_async_wait()
//   Until at most so many of the thread's groups are under way; other threads see them after a
//   barrier.
// uint4 lf_load_stream16(const void* global), for any thread
//   16 bytes that nothing writes while the kernel runs and nobody will read again.
std::string_view cuda_preamble_mma();

}  // namespace worker
