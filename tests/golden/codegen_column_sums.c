// units 8, scratch 0
void lf_168cc8366dec862a(void* const* restrict buffers, const int64_t* restrict symbols, int64_t begin, int64_t end, void* restrict scratch) {
  const float* restrict const in0 = __builtin_assume_aligned(buffers[0], 64);
  float* restrict const out0 = __builtin_assume_aligned(buffers[1], 64);
  for (int64_t i0 = begin; i0 < end; ++i0) {
    const int64_t lb0 = (384 * i0);
    const int64_t le1 = lf_min_i64(lb0 + 384, 3000);
    float a3[384];
    LF_VECTOR_LOOP(0, 1)
    for (int64_t l4 = lb0; l4 < le1; ++l4) {
      a3[l4 - lb0] = 0;
    }
    for (int64_t j5 = 0; j5 < 1000; ++j5) {
      LF_VECTOR_LOOP(0, 1)
      for (int64_t l6 = lb0; l6 < le1; ++l6) {
        const float v7 = in0[(3000 * j5 + l6)];
        a3[l6 - lb0] += v7;
      }
    }
    LF_VECTOR_LOOP(0, 1)
    for (int64_t i0 = lb0; i0 < le1; ++i0) {
      const float v8 = (float)a3[i0 - lb0];
      out0[i0] = v8;
    }
  }
}
