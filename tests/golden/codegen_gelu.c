// units s0, scratch 0
void lf_eb5ff17ed88d550d(void* const* restrict buffers, const int64_t* restrict symbols, int64_t begin, int64_t end, void* restrict scratch) {
  const int64_t s0 = symbols[0];
  const float* restrict const in0 = __builtin_assume_aligned(buffers[0], 64);
  const float* restrict const in1 = __builtin_assume_aligned(buffers[1], 64);
  float* restrict const out0 = __builtin_assume_aligned(buffers[2], 64);
  for (int64_t i0 = begin; i0 < end; ++i0) {
    LF_VECTOR_LOOP(0, 1)
    for (int64_t i1 = 0; i1 < 768; ++i1) {
      const float v0 = in0[(768 * i0 + i1)];
      const float v1 = in1[i1];
      const float v2 = v0 + v1;
      const float v3 = v2 * 0.5f;
      const float v4 = v2 * 0.70710677f;
      const float v5 = lf_erf_f32(v4);
      const float v6 = v5 + 1.0f;
      const float v7 = v3 * v6;
      out0[(768 * i0 + i1)] = v7;
    }
  }
}
