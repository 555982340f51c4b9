// The part of the CUDA preamble for warpgroup products of compute capability 9.0a: descriptors of
// matrices in shared memory, the asynchronous products, and what orders them. The instructions are
// apart because an emulated device defines functions of the same names itself.
#pragma once

#include <string>

namespace worker {

// After cuda_preamble_mma(); nothing for other architectures. All threads of a warpgroup, four
// warps of which the first is a multiple of four, call them alike; w, g and t are a thread's warp
// in its warpgroup, and its lane divided by and modulo 4. Source: PTX ISA, "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate Instructions".
//
// uint64_t lf_matrix(const void* shared, uint32_t leading, uint32_t stride, uint32_t swizzle)
//   Describes a matrix whose rows of 16-byte chunks are permuted: chunk c of row r lies at c ^ r
//   modulo 8 for a swizzle of 128 bytes, c ^ r / 2 modulo 4 for 64, c ^ r / 4 modulo 2 for 32. A
//   row is that long. Along k: rows are the matrix's, `stride` bytes are between one eight of them
//   and the next, `leading` is not read. Along its own axis: a row for each k, `stride` bytes
//   between eights of k, `leading` between one row's length and the next along the axis. Repeating
//   patterns of eight rows begin at multiples of their size. Adding n to a descriptor moves it 16 *
//   n bytes.
// template <int kLeftAcross, int kRightAcross, int kSums>
// void lf_wgmma_bf16(float (&d)[kSums], uint64_t left, uint64_t right), lf_wgmma_f16
//   Begins d += left * right: 64 x 2 * kSums of float32 from 64 x 16 and 16 x 2 * kSums; `Across`
//   is 1 for a matrix that runs along its own axis. d[i] is row 16 * w + g + i / 2 % 2 * 8, column
//   i / 4 * 8 + 2 * t + i % 2. Until it was waited for, nothing reads or writes d or the matrices.
// void lf_wgmma_fence()
//   Before the first of products, and between other accesses to d and a product.
// void lf_wgmma_commit()
//   Ends a group of products.
// template <int kGroupsLeft> void lf_wgmma_wait()
//   Until at most so many groups are under way.
// template <int kSums> void lf_wgmma_done(float (&d)[kSums])
//   After the last wait: the compiler moves no access to d from behind it to before it.
// void lf_fence_async(), for any thread
//   Lets products that begin after the next barrier see what this thread stored and copied to
//   shared memory before.
// void lf_store_shared16(void* shared, uint4 x), for any thread
std::string cuda_preamble_wgmma();

}  // namespace worker
