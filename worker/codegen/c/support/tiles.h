// Products of tiles of pairs of bfloat16, for processors with AMX. A test may define these macros
// before, to stand in for instructions that few processors have.
#pragma once

#include "worker/codegen/c/support/base.h"

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
#define LF_TILE_LOAD(t, from, step) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"((int64_t)(step)) : "memory")
#define LF_TILE_STORE(t, to, step) \
  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(step)) : "memory")
// Adds the products of rows of pairs with columns of pairs.
#define LF_TILE_PAIRS(sum, rows, columns) \
  __asm__ volatile("tdpbf16ps %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sum ::)
#endif
