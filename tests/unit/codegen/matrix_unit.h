// Stands in for a processor's registers of matrices (AMX), so that code for it runs on any machine:
// C for the macros that generated code would otherwise have instructions for.
#pragma once

namespace testing_codegen {

// `tdpbf16ps` as Intel describes it: sums of one register from top to bottom, for each pair the
// lower product first, each addition rounded, denormals taken for zeros. Whatever a configuration
// would fault on aborts.
inline constexpr char kMatrixUnit[] = R"C(
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static _Thread_local struct { uint8_t rows[16][64]; int is_set; } lf_unit[8];
static _Thread_local int lf_is_configured;
static void* lf_register(int t, int is_set) {
  if (!lf_is_configured || t < 0 || t > 7 || (is_set && !lf_unit[t].is_set)) abort();
  lf_unit[t].is_set = 1;
  return lf_unit[t].rows;
}
static void lf_begin(void) { memset(lf_unit, 0, sizeof lf_unit); lf_is_configured = 1; }
static void lf_load(int t, const void* from, int64_t stride) {
  uint8_t(*rows)[64] = lf_register(t, 0);
  for (int r = 0; r < 16; ++r) memcpy(rows[r], (const char*)from + r * stride, 64);
}
static void lf_store(int t, void* to, int64_t stride) {
  uint8_t(*rows)[64] = lf_register(t, 1);
  for (int r = 0; r < 16; ++r) memcpy((char*)to + r * stride, rows[r], 64);
}
static float lf_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static float lf_element(const uint8_t* row, int k) {
  uint16_t half;
  memcpy(&half, row + 2 * k, 2);
  uint32_t bits = (uint32_t)half << 16;
  float x;
  memcpy(&x, &bits, 4);
  return lf_flushed(x);
}
static void lf_pairs(int sum, int a, int b) {
  uint8_t(*sums)[64] = lf_register(sum, 1), (*rows)[64] = lf_register(a, 1);
  uint8_t(*columns)[64] = lf_register(b, 1);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float total;
      memcpy(&total, sums[m] + 4 * n, 4);
      for (int k = 0; k < 16; ++k) {
        for (int half = 0; half < 2; ++half) {
          double x = lf_element(rows[m], 2 * k + half), y = lf_element(columns[k], 2 * n + half);
          total = lf_flushed((float)(x * y + total));
        }
      }
      memcpy(sums[m] + 4 * n, &total, 4);
    }
  }
}
#define LF_TILES_BEGIN lf_begin()
#define LF_TILES_END lf_is_configured = 0
#define LF_TILE_ZERO(t) memset(lf_register(t, 0), 0, 1024)
#define LF_TILE_LOAD(t, from, stride) lf_load(t, from, stride)
#define LF_TILE_STORE(t, to, stride) lf_store(t, to, stride)
#define LF_TILE_PAIRS(sum, rows, columns) lf_pairs(sum, rows, columns)
)C";

}  // namespace testing_codegen
