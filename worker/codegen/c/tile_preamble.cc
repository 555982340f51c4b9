#include "worker/codegen/c/tile_preamble.h"

namespace worker {

std::string_view tile_preamble() {
  return R"C(
typedef float lf_float16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float lf_float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float lf_float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double lf_double8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double lf_double4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double lf_double2 __attribute__((vector_size(16), aligned(8), may_alias));
// The first `rows` rows of the transposed n x n square, by log2(n) perfect shuffles of its rows.
#define LF_TURN(T, n, ...)                                                                        \
  LF_INLINE void lf_turn_##T##n(const T* restrict from, int64_t from_stride, T* restrict to,      \
                                int64_t to_stride, int64_t rows) {                                \
    lf_##T##n r[n], q[n];                                                                         \
    for (int i = 0; i < n; ++i) r[i] = *(const lf_##T##n*)(from + i * from_stride);               \
    for (int step = 1; step < n; step *= 2) {                                                     \
      for (int i = 0; i < n / 2; ++i) {                                                           \
        q[2 * i] = __builtin_shufflevector(r[i], r[i + n / 2], __VA_ARGS__);                      \
        q[2 * i + 1] = __builtin_shufflevector(r[i], r[i + n / 2], LF_HIGH##n);                   \
      }                                                                                           \
      for (int i = 0; i < n; ++i) r[i] = q[i];                                                    \
    }                                                                                             \
    if (rows == n) {                                                                              \
      for (int i = 0; i < n; ++i) *(lf_##T##n*)(to + i * to_stride) = r[i];                       \
    } else {                                                                                      \
      for (int i = 0; i < n; ++i) *(lf_##T##n*)(q + i) = r[i];                                    \
      for (int i = 0; i < rows; ++i) *(lf_##T##n*)(to + i * to_stride) = q[i];                    \
    }                                                                                             \
  }
#define LF_HIGH2 1, 3
#define LF_HIGH4 2, 6, 3, 7
#define LF_HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define LF_HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
LF_TURN(double, 2, 0, 2)
LF_TURN(float, 4, 0, 4, 1, 5)
LF_TURN(double, 4, 0, 4, 1, 5)
LF_TURN(float, 8, 0, 8, 1, 9, 2, 10, 3, 11)
LF_TURN(double, 8, 0, 8, 1, 9, 2, 10, 3, 11)
LF_TURN(float, 16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
)C";
}

// Both products are rounded to float32 as they are added, to nearest; denormals count as zeros.
std::string_view pairs_preamble() {
  return R"C(
typedef uint32_t lf_bf16_pair __attribute__((aligned(2), may_alias));
typedef uint32_t lf_uint32_t16 __attribute__((vector_size(64), aligned(2), may_alias));
LF_TURN(uint32_t, 16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
// Adds the products of a pair with 16 pairs.
LF_INLINE lf_float16 lf_add_pairs(lf_float16 sum, uint32_t pair, lf_uint32_t16 pairs) {
  lf_uint32_t16 all = pair + (lf_uint32_t16){0};
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(all), "v"(pairs));
  return sum;
}
LF_INLINE lf_float16 lf_dot_step(lf_float16 sum, const uint16_t* a, const uint16_t* b) {
  __asm__("vdpbf16ps %2, %1, %0"
          : "+v"(sum) : "v"(*(const lf_uint32_t16*)a), "m"(*(const lf_uint32_t16*)b));
  return sum;
}
// By halves, which compilers do not come to by themselves.
LF_INLINE float lf_sum_lanes(lf_float16 v) {
  lf_float8 h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  lf_float4 q =
      __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
  return (q[0] + q[2]) + (q[1] + q[3]);
}
// The sum of products of n neighbours.
LF_FUNCTION float lf_dot_pairs(const uint16_t* a, const uint16_t* b, int64_t n) {
  lf_float16 r[4] = {{0}, {0}, {0}, {0}};
  int64_t k = 0;
  for (; k + 128 <= n; k += 128) {
    for (int i = 0; i < 4; ++i) r[i] = lf_dot_step(r[i], a + k + 32 * i, b + k + 32 * i);
  }
  for (; k + 32 <= n; k += 32) r[0] = lf_dot_step(r[0], a + k, b + k);
  float sum = lf_sum_lanes((r[0] + r[1]) + (r[2] + r[3]));
  for (; k < n; ++k) sum = lf_sum_float(sum, lf_f32_from_bf16(a[k]) * lf_f32_from_bf16(b[k]));
  return sum;
}
)C";
}

// What the code generators' tests bring along stands in for instructions that few processors have.
std::string_view matrix_preamble() {
  return R"C(
#ifndef LF_TILES_BEGIN
// Palette 1, all registers of 16 rows of 64 bytes.
static const struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} lf_tiles __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
#define LF_TILES_BEGIN __asm__ volatile("ldtilecfg %0" ::"m"(lf_tiles))
#define LF_TILES_END __asm__ volatile("tilerelease" ::: "memory")
#define LF_TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define LF_TILE_LOAD(t, from, stride)                       \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"((int64_t)(stride)) : "memory")
#define LF_TILE_STORE(t, to, stride)                         \
  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride)) : "memory")
// Adds the products of rows of pairs with columns of pairs.
#define LF_TILE_PAIRS(sum, rows, columns) \
  __asm__ volatile("tdpbf16ps %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sum ::)
#endif
)C";
}

}  // namespace worker
