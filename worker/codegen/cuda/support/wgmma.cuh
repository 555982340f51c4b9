// Warpgroup products of compute capability 9.0a: descriptors of matrices in shared memory, the
// asynchronous products, and what orders them. Other architectures get nothing; an emulated device
// defines all but the descriptors itself.
//
// All threads of a warpgroup, four warps of which the first is a multiple of four, call these
// alike; w, g and t are a thread's warp in its warpgroup, and its lane divided by and modulo 4.
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include "worker/codegen/cuda/support/mma.cuh"

#if defined(LF_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Describes a matrix whose rows of 16-byte chunks are permuted: chunk c of row r lies at c ^ r
// modulo 8 for a swizzle of 128 bytes, c ^ r / 2 modulo 4 for 64, c ^ r / 4 modulo 2 for 32. A row
// is that long. Along k: rows are the matrix's, `stride` bytes are between one eight of them and
// the next, `leading` is not read. Along its own axis: a row for each k, `stride` bytes between
// eights of k, `leading` between one row's length and the next along the axis. Repeating patterns
// of eight rows begin at multiples of their size. Adding n to a descriptor moves it 16 * n bytes.
//
// Fields of 14 bits count 16 bytes each: the address from bit 0, the offsets from 16 and 32. The
// mode of swizzling is in the highest two: 1, 2, 3 for 128, 64, 32 bytes.
LF_INLINE uint64_t lf_matrix(const void* shared, uint32_t leading, uint32_t stride,
                             uint32_t swizzle) {
  const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return (lf_shared_address(shared) & 0x3ffff) >> 4 | (uint64_t)(leading >> 4) << 16 |
         (uint64_t)(stride >> 4) << 32 | mode << 62;
}
#endif

#if !defined(LF_EMULATED) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Before the first of products, and between other accesses to d and a product.
LF_PTX void lf_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Ends a group of products.
LF_PTX void lf_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most so many groups are under way.
template <int kGroupsLeft>
LF_PTX void lf_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsLeft) : "memory");
}
// After the last wait: the compiler moves no access to d from behind it to before it.
template <int kSums>
LF_PTX void lf_wgmma_done(float (&d)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
// Lets products that begin after the next barrier see what this thread stored and copied to shared
// memory before. For any thread.
LF_PTX void lf_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
LF_PTX void lf_store_shared16(void* shared, uint4 x) { *(uint4*)shared = x; }
LF_PTX void lf_store_shared2(void* shared, uint16_t x) { *(uint16_t*)shared = x; }

// A warpgroup, all warps of which call this, gives registers of its threads back, or waits until it
// has as many: so many a thread, a multiple of 8.
template <int kRegisters>
LF_PTX void lf_fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
LF_PTX void lf_more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// The names of operands in ascending order: ten from 10 * t, of the first 30, 60 and so on, and of
// as many as there are sums.
#define LF_TEN(t) \
  "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define LF_TO30 LF_TEN() LF_TEN(1) LF_TEN(2)
#define LF_TO60 LF_TO30 LF_TEN(3) LF_TEN(4) LF_TEN(5)
#define LF_TO90 LF_TO60 LF_TEN(6) LF_TEN(7) LF_TEN(8)
#define LF_TO120 LF_TO90 LF_TEN(9) LF_TEN(10) LF_TEN(11)
#define LF_NAMES32 LF_TO30 "%30,%31"
#define LF_NAMES48 LF_TO30 LF_TEN(3) "%40,%41,%42,%43,%44,%45,%46,%47"
#define LF_NAMES64 LF_TO60 "%60,%61,%62,%63"
#define LF_NAMES96 LF_TO90 "%90,%91,%92,%93,%94,%95"
#define LF_NAMES128 LF_TO120 "%120,%121,%122,%123,%124,%125,%126,%127"
// The sums d[i] and the ones behind it as operands.
#define LF_SUMS8(i)                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define LF_SUMS16(i) LF_SUMS8(i), LF_SUMS8(i + 8)
#define LF_SUMS32(i) LF_SUMS16(i), LF_SUMS16(i + 16)
#define LF_SUMS48(i) LF_SUMS32(i), LF_SUMS16(i + 32)
#define LF_SUMS64(i) LF_SUMS32(i), LF_SUMS32(i + 32)
#define LF_SUMS96(i) LF_SUMS64(i), LF_SUMS32(i + 64)
#define LF_SUMS128(i) LF_SUMS64(i), LF_SUMS64(i + 64)
// Begins d += left * right: 64 x 2 * sums of float32 from 64 x 16 and 16 x 2 * sums; `Across` is 1
// for a matrix that runs along its own axis. d[i] is row 16 * w + g + i / 2 % 2 * 8, column i / 4 *
// 8 + 2 * t + i % 2. Until it was waited for, nothing reads or writes d or the matrices. Without
// kAdds d becomes the product, whatever it was. `after`: the names of the operands behind the sums.
#define LF_WGMMA(type, columns, sums, after)                                                \
  template <int kLeftAcross, int kRightAcross, int kAdds = 1>                               \
  LF_PTX void lf_wgmma_##type(float(&d)[sums], uint64_t left, uint64_t right) {             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "." #type    \
                 " {" LF_NAMES##sums "}, " after ";"                                        \
                 : LF_SUMS##sums(0)                                                         \
                 : "l"(left), "l"(right), "n"(kAdds), "n"(kLeftAcross), "n"(kRightAcross)); \
  }
// The same with the left matrix in registers: left[0] to left[3] are rows g, g + 8, g, g + 8 of the
// warp's 16 at k of 2 * t and 2 * t + 1, the last two of 8 more, the lower k in the lower half.
#define LF_WGMMA_REGISTERS(type, columns, sums, after)                                   \
  template <int kRightAcross>                                                            \
  LF_PTX void lf_wgmma_##type##_registers(float(&d)[sums], const uint32_t(&left)[4],     \
                                          uint64_t right) {                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "." #type \
                 " {" LF_NAMES##sums "}, " after ";"                                     \
                 : LF_SUMS##sums(0)                                                      \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),   \
                   "n"(kRightAcross));                                                   \
  }
#define LF_WGMMA_HALVES(columns, sums, after, after_registers) \
  LF_WGMMA(bf16, columns, sums, after)                         \
  LF_WGMMA(f16, columns, sums, after)                          \
  LF_WGMMA_REGISTERS(bf16, columns, sums, after_registers)     \
  LF_WGMMA_REGISTERS(f16, columns, sums, after_registers)
LF_WGMMA_HALVES(64, 32, "%32, %33, %34, 1, 1, %35, %36", "{%32, %33, %34, %35}, %36, 1, 1, 1, %37")
LF_WGMMA_HALVES(96, 48, "%48, %49, %50, 1, 1, %51, %52", "{%48, %49, %50, %51}, %52, 1, 1, 1, %53")
LF_WGMMA_HALVES(128, 64, "%64, %65, %66, 1, 1, %67, %68", "{%64, %65, %66, %67}, %68, 1, 1, 1, %69")
LF_WGMMA_HALVES(192, 96, "%96, %97, %98, 1, 1, %99, %100",
                "{%96, %97, %98, %99}, %100, 1, 1, 1, %101")
LF_WGMMA_HALVES(256, 128, "%128, %129, %130, 1, 1, %131, %132",
                "{%128, %129, %130, %131}, %132, 1, 1, 1, %133")
#endif
