// units 2, scratch 65536
void lf_85cb9c0e9dacd256(void* const* restrict buffers, const int64_t* restrict symbols, int64_t begin, int64_t end, void* restrict scratch) {
  const float* restrict const in0 = __builtin_assume_aligned(buffers[0], 64);
  const float* restrict const in1 = __builtin_assume_aligned(buffers[1], 64);
  const float* restrict const in2 = __builtin_assume_aligned(buffers[2], 64);
  float* restrict const out0 = __builtin_assume_aligned(buffers[3], 64);
  float* restrict const packed_b = __builtin_assume_aligned((char*)scratch + 0, 64);
  float tile[384] __attribute__((aligned(64)));
  float square[256] __attribute__((aligned(64))) = {0};
  for (int64_t u = begin; u < end; ++u) {
    const int64_t i0 = (int64_t)((uint32_t)u / 2u);
    const int64_t i1 = (int64_t)((uint32_t)u % 2u);
    const int64_t m0 = (66 * i0);
    const int64_t m1 = lf_min_i64(m0 + 66, 64);
    const int64_t n0 = (64 * i1);
    const int64_t n1 = lf_min_i64(n0 + 64, 128);
    for (int64_t k0 = 0; k0 == 0 || k0 < 256; k0 += 256) {
      const int64_t k1 = lf_min_i64(k0 + 256, 256);
      for (int64_t jb = n0; jb < n1; jb += 64) {
        const int64_t je = lf_min_i64(jb + 64, n1);
        float* restrict const panel = packed_b + (jb - n0) * 256;
        for (int64_t cb = k0; cb < k1; cb += 16) {
          for (int64_t rb = jb; rb < je; rb += 16) {
            const int64_t re = lf_min_i64(rb + 16, je);
            const int64_t ce = lf_min_i64(cb + 16, k1);
            for (int64_t n = rb; n < re; ++n) {
              LF_VECTOR_LOOP(0, 1)
              for (int64_t k = cb; k < ce; ++k) {
                const float v0 = in1[(256 * n + k)];
                square[(n - rb) * 16 + (k - cb)] = v0;
              }
            }
            lf_turn_float16(square, 16, panel + (cb - k0) * 64 + (rb - jb), 64, ce - cb);
          }
        }
      }
      for (int64_t ib = m0; ib < m1; ib += 66) {
        const int64_t ie = lf_min_i64(ib + 66, m1);
        for (int64_t j = n0; j < n1; j += 64) {
          for (int64_t i = ib; i < ie; i += 6) {
            const float* restrict const panel = packed_b + (j - n0) * 256;
            const int64_t row0 = i;
            const float* restrict const a0 = in0 + ((256 * row0)) + k0;
            const int64_t row1 = lf_min_i64(i + 1, ie - 1);
            const float* restrict const a1 = in0 + ((256 * row1)) + k0;
            const int64_t row2 = lf_min_i64(i + 2, ie - 1);
            const float* restrict const a2 = in0 + ((256 * row2)) + k0;
            const int64_t row3 = lf_min_i64(i + 3, ie - 1);
            const float* restrict const a3 = in0 + ((256 * row3)) + k0;
            const int64_t row4 = lf_min_i64(i + 4, ie - 1);
            const float* restrict const a4 = in0 + ((256 * row4)) + k0;
            const int64_t row5 = lf_min_i64(i + 5, ie - 1);
            const float* restrict const a5 = in0 + ((256 * row5)) + k0;
            lf_float16 c0_0 = {0}, c0_1 = {0}, c0_2 = {0}, c0_3 = {0};
            lf_float16 c1_0 = {0}, c1_1 = {0}, c1_2 = {0}, c1_3 = {0};
            lf_float16 c2_0 = {0}, c2_1 = {0}, c2_2 = {0}, c2_3 = {0};
            lf_float16 c3_0 = {0}, c3_1 = {0}, c3_2 = {0}, c3_3 = {0};
            lf_float16 c4_0 = {0}, c4_1 = {0}, c4_2 = {0}, c4_3 = {0};
            lf_float16 c5_0 = {0}, c5_1 = {0}, c5_2 = {0}, c5_3 = {0};
            for (int64_t k = 0; k < k1 - k0; ++k) {
              const lf_float16 b0 = *(const lf_float16*)(panel + k * 64 + 0);
              const lf_float16 b1 = *(const lf_float16*)(panel + k * 64 + 16);
              const lf_float16 b2 = *(const lf_float16*)(panel + k * 64 + 32);
              const lf_float16 b3 = *(const lf_float16*)(panel + k * 64 + 48);
              c0_0 += a0[k] * b0; c0_1 += a0[k] * b1; c0_2 += a0[k] * b2; c0_3 += a0[k] * b3;
              c1_0 += a1[k] * b0; c1_1 += a1[k] * b1; c1_2 += a1[k] * b2; c1_3 += a1[k] * b3;
              c2_0 += a2[k] * b0; c2_1 += a2[k] * b1; c2_2 += a2[k] * b2; c2_3 += a2[k] * b3;
              c3_0 += a3[k] * b0; c3_1 += a3[k] * b1; c3_2 += a3[k] * b2; c3_3 += a3[k] * b3;
              c4_0 += a4[k] * b0; c4_1 += a4[k] * b1; c4_2 += a4[k] * b2; c4_3 += a4[k] * b3;
              c5_0 += a5[k] * b0; c5_1 += a5[k] * b1; c5_2 += a5[k] * b2; c5_3 += a5[k] * b3;
            }
            float* const to = tile;
            *(lf_float16*)(to + 0) = c0_0;
            *(lf_float16*)(to + 16) = c0_1;
            *(lf_float16*)(to + 32) = c0_2;
            *(lf_float16*)(to + 48) = c0_3;
            *(lf_float16*)(to + 64) = c1_0;
            *(lf_float16*)(to + 80) = c1_1;
            *(lf_float16*)(to + 96) = c1_2;
            *(lf_float16*)(to + 112) = c1_3;
            *(lf_float16*)(to + 128) = c2_0;
            *(lf_float16*)(to + 144) = c2_1;
            *(lf_float16*)(to + 160) = c2_2;
            *(lf_float16*)(to + 176) = c2_3;
            *(lf_float16*)(to + 192) = c3_0;
            *(lf_float16*)(to + 208) = c3_1;
            *(lf_float16*)(to + 224) = c3_2;
            *(lf_float16*)(to + 240) = c3_3;
            *(lf_float16*)(to + 256) = c4_0;
            *(lf_float16*)(to + 272) = c4_1;
            *(lf_float16*)(to + 288) = c4_2;
            *(lf_float16*)(to + 304) = c4_3;
            *(lf_float16*)(to + 320) = c5_0;
            *(lf_float16*)(to + 336) = c5_1;
            *(lf_float16*)(to + 352) = c5_2;
            *(lf_float16*)(to + 368) = c5_3;
            if (k1 == 256) {
              const int64_t me = lf_min_i64(i + 6, ie);
              const int64_t ne = lf_min_i64(j + 64, n1);
              if (me - i == 6 && ne - j == 64) {
                LF_VECTOR_LOOP(0, 1)
                for (int64_t n = j; n < j + 64; ++n) {
                  const float c1 = tile[0 * 64 + (n - j)];
                  const float v2 = in2[n];
                  const float v3 = c1 + v2;
                  out0[(n + 128 * i)] = v3;
                  const float c4 = tile[1 * 64 + (n - j)];
                  const float v5 = c4 + v2;
                  out0[(n + 128 * (i + 1))] = v5;
                  const float c6 = tile[2 * 64 + (n - j)];
                  const float v7 = c6 + v2;
                  out0[(n + 128 * (i + 2))] = v7;
                  const float c8 = tile[3 * 64 + (n - j)];
                  const float v9 = c8 + v2;
                  out0[(n + 128 * (i + 3))] = v9;
                  const float c10 = tile[4 * 64 + (n - j)];
                  const float v11 = c10 + v2;
                  out0[(n + 128 * (i + 4))] = v11;
                  const float c12 = tile[5 * 64 + (n - j)];
                  const float v13 = c12 + v2;
                  out0[(n + 128 * (i + 5))] = v13;
                }
              }
              else {
                for (int64_t m = i; m < me; ++m) {
                  LF_VECTOR_LOOP(0, 1)
                  for (int64_t n = j; n < ne; ++n) {
                    const float c14 = tile[(m - i) * 64 + (n - j)];
                    const float v15 = in2[n];
                    const float v16 = c14 + v15;
                    out0[(n + 128 * m)] = v16;
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}
