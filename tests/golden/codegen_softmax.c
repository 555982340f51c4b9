// units 1536, scratch 512
void lf_b41bc756f2f3e013(void* const* restrict buffers, const int64_t* restrict symbols, int64_t begin, int64_t end, void* restrict scratch) {
  const uint16_t* restrict const in0 = __builtin_assume_aligned(buffers[0], 64);
  uint16_t* restrict const out0 = __builtin_assume_aligned(buffers[1], 64);
  float* restrict const row3 = __builtin_assume_aligned((char*)scratch + 0, 64);
  for (int64_t i0 = begin; i0 < end; ++i0) {
    double a0 = 0;
    float p1 = 0;
    int32_t a4 = lf_top_key_f32((-__builtin_inff()));
    #pragma omp simd reduction(max:a4)
    for (int64_t j5 = 0; j5 < 128; ++j5) {
      const uint16_t v6 = in0[(128 * i0 + j5)];
      const float v7 = lf_f32_from_bf16(v6);
      const int32_t k8 = lf_top_key_f32(v7);
      a4 = k8 > a4 ? k8 : a4;
    }
    const float v9 = lf_from_key_f32(a4);
    #pragma omp simd reduction(+:p1)
    for (int64_t j2 = 0; j2 < 128; ++j2) {
      const uint16_t v10 = in0[(128 * i0 + j2)];
      const float v11 = lf_f32_from_bf16(v10);
      const float v12 = v11 - v9;
      const float v13 = lf_exp_f32(v12);
      row3[j2] = v13;
      p1 = lf_sum_float(p1, v13);
    }
    a0 += p1;
    const float v14 = (float)a0;
    const float v15 = lf_recip_f32(v14);
    LF_VECTOR_LOOP(0, 1)
    for (int64_t i1 = 0; i1 < 128; ++i1) {
      const float v16 = row3[i1];
      const float v17 = v16 * v15;
      const uint16_t v18 = lf_bf16_from_f32(v17);
      out0[(128 * i0 + i1)] = v18;
    }
  }
}
