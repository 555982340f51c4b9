// sin, cos and tan of float32. The argument in quarter turns is its mantissa times a tabulated
// 2^e * 2 / pi modulo 4, whose upper half makes an exact product; so any float reduces exactly
// enough.
#pragma once

#include "worker/codegen/c/support/base.h"

static const double lf_turns_high[129] = {
    0x1.4p-25,      0x1.4p-24,      0x1.4p-23,      0x1.4p-22,      0x1.44p-21,     0x1.44p-20,
    0x1.45p-19,     0x1.458p-18,    0x1.45cp-17,    0x1.45ep-16,    0x1.45fp-15,    0x1.45fp-14,
    0x1.45fp-13,    0x1.45f2p-12,   0x1.45f3p-11,   0x1.45f3p-10,   0x1.45f3p-9,    0x1.45f3p-8,
    0x1.45f3p-7,    0x1.45f3p-6,    0x1.45f304p-5,  0x1.45f306p-4,  0x1.45f306p-3,  0x1.45f3068p-2,
    0x1.45f306cp-1, 0x1.45f306cp+0, 0x1.45f306dp+1, 0x1.17cc1b6p+0, 0x1.17cc1b7p+1, 0x1.7cc1b7p-2,
    0x1.7cc1b7p-1,  0x1.7cc1b72p+0, 0x1.7cc1b72p+1, 0x1.f306dc8p+0, 0x1.f306dc9p+1, 0x1.e60db93p+1,
    0x1.cc1b727p+1, 0x1.9836e4ep+1, 0x1.306dc9cp+1, 0x1.836e4e4p-1, 0x1.836e4e4p+0, 0x1.836e4e4p+1,
    0x1.06dc9c8p+1, 0x1.b72722p-4,  0x1.b72722p-3,  0x1.b72722p-2,  0x1.b72722p-1,  0x1.b72722p+0,
    0x1.b72722p+1,  0x1.6e4e441p+1, 0x1.b939104p+0, 0x1.b939105p+1, 0x1.727220ap+1, 0x1.c9c882ap+0,
    0x1.c9c882ap+1, 0x1.9391054p+1, 0x1.27220a9p+1, 0x1.3910548p-1, 0x1.391054ap+0, 0x1.391054ap+1,
    0x1.c882a5p-1,  0x1.c882a52p+0, 0x1.c882a53p+1, 0x1.91054a7p+1, 0x1.220a94fp+1, 0x1.1054a7cp-1,
    0x1.1054a7ep+0, 0x1.1054a7fp+1, 0x1.054a7fp-2,  0x1.054a7fp-1,  0x1.054a7fp+0,  0x1.054a7fp+1,
    0x1.529fc2p-4,  0x1.529fc2p-3,  0x1.529fc2p-2,  0x1.529fc24p-1, 0x1.529fc26p+0, 0x1.529fc27p+1,
    0x1.4a7f09cp+0, 0x1.4a7f09dp+1, 0x1.29fc274p+0, 0x1.29fc275p+1, 0x1.4fe13a8p-1, 0x1.4fe13aap+0,
    0x1.4fe13abp+1, 0x1.3f84eaep+0, 0x1.3f84eafp+1, 0x1.fc2757cp-1, 0x1.fc2757cp+0, 0x1.fc2757dp+1,
    0x1.f84eafap+1, 0x1.f09d5f4p+1, 0x1.e13abe8p+1, 0x1.c2757d1p+1, 0x1.84eafa3p+1, 0x1.09d5f47p+1,
    0x1.3abe8fp-3,  0x1.3abe8f8p-2, 0x1.3abe8f8p-1, 0x1.3abe8fap+0, 0x1.3abe8fap+1, 0x1.d5f47d4p-1,
    0x1.d5f47d4p+0, 0x1.d5f47d4p+1, 0x1.abe8fa9p+1, 0x1.57d1f53p+1, 0x1.5f47d4cp+0, 0x1.5f47d4dp+1,
    0x1.7d1f534p+0, 0x1.7d1f534p+1, 0x1.f47d4d2p+0, 0x1.f47d4d3p+1, 0x1.e8fa9a6p+1, 0x1.d1f534dp+1,
    0x1.a3ea69bp+1, 0x1.47d4d37p+1, 0x1.1f534dcp+0, 0x1.1f534ddp+1, 0x1.f534dd8p-2, 0x1.f534ddcp-1,
    0x1.f534ddcp+0, 0x1.f534ddcp+1, 0x1.ea69bb8p+1, 0x1.d4d377p+1,  0x1.a9a6eep+1,  0x1.534ddcp+1,
    0x1.4d37702p+0, 0x1.4d37703p+1, 0x1.34ddc0cp+0,
};
static const double lf_turns_low[129] = {
    0x1.7cc1b727220a9p-31, 0x1.7cc1b727220a9p-30, 0x1.7cc1b727220a9p-29, 0x1.7cc1b727220a9p-28,
    0x1.f306dc9c882a5p-29, 0x1.f306dc9c882a5p-28, 0x1.e60db9391054ap-28, 0x1.cc1b727220a95p-28,
    0x1.9836e4e44152ap-28, 0x1.306dc9c882a54p-28, 0x1.836e4e44152ap-30,  0x1.836e4e44152ap-29,
    0x1.836e4e44152ap-28,  0x1.06dc9c882a54p-28,  0x1.b727220a94fe1p-33, 0x1.b727220a94fe1p-32,
    0x1.b727220a94fe1p-31, 0x1.b727220a94fe1p-30, 0x1.b727220a94fe1p-29, 0x1.b727220a94fe1p-28,
    0x1.6e4e441529fc2p-28, 0x1.b9391054a7f0ap-29, 0x1.b9391054a7f0ap-28, 0x1.727220a94fe14p-28,
    0x1.c9c882a53f84fp-29, 0x1.c9c882a53f84fp-28, 0x1.9391054a7f09dp-28, 0x1.27220a94fe13bp-28,
    0x1.391054a7f09d6p-30, 0x1.391054a7f09d6p-29, 0x1.391054a7f09d6p-28, 0x1.c882a53f84ebp-30,
    0x1.c882a53f84ebp-29,  0x1.c882a53f84ebp-28,  0x1.91054a7f09d5fp-28, 0x1.220a94fe13abfp-28,
    0x1.1054a7f09d5f4p-30, 0x1.1054a7f09d5f4p-29, 0x1.1054a7f09d5f4p-28, 0x1.054a7f09d5f48p-31,
    0x1.054a7f09d5f48p-30, 0x1.054a7f09d5f48p-29, 0x1.054a7f09d5f48p-28, 0x1.529fc2757d1f5p-33,
    0x1.529fc2757d1f5p-32, 0x1.529fc2757d1f5p-31, 0x1.529fc2757d1f5p-30, 0x1.529fc2757d1f5p-29,
    0x1.529fc2757d1f5p-28, 0x1.4a7f09d5f47d5p-29, 0x1.4a7f09d5f47d5p-28, 0x1.29fc2757d1f53p-29,
    0x1.29fc2757d1f53p-28, 0x1.4fe13abe8fa9ap-30, 0x1.4fe13abe8fa9ap-29, 0x1.4fe13abe8fa9ap-28,
    0x1.3f84eafa3ea6ap-29, 0x1.3f84eafa3ea6ap-28, 0x1.fc2757d1f534ep-30, 0x1.fc2757d1f534ep-29,
    0x1.fc2757d1f534ep-28, 0x1.f84eafa3ea69cp-28, 0x1.f09d5f47d4d37p-28, 0x1.e13abe8fa9a6fp-28,
    0x1.c2757d1f534dep-28, 0x1.84eafa3ea69bcp-28, 0x1.09d5f47d4d377p-28, 0x1.3abe8fa9a6eep-32,
    0x1.3abe8fa9a6eep-31,  0x1.3abe8fa9a6eep-30,  0x1.3abe8fa9a6eep-29,  0x1.3abe8fa9a6eep-28,
    0x1.d5f47d4d37703p-30, 0x1.d5f47d4d37703p-29, 0x1.d5f47d4d37703p-28, 0x1.abe8fa9a6ee07p-28,
    0x1.57d1f534ddc0ep-28, 0x1.5f47d4d377037p-29, 0x1.5f47d4d377037p-28, 0x1.7d1f534ddc0dbp-29,
    0x1.7d1f534ddc0dbp-28, 0x1.f47d4d377036ep-29, 0x1.f47d4d377036ep-28, 0x1.e8fa9a6ee06dbp-28,
    0x1.d1f534ddc0db6p-28, 0x1.a3ea69bb81b6cp-28, 0x1.47d4d377036d9p-28, 0x1.1f534ddc0db63p-29,
    0x1.1f534ddc0db63p-28, 0x1.f534ddc0db629p-31, 0x1.f534ddc0db629p-30, 0x1.f534ddc0db629p-29,
    0x1.f534ddc0db629p-28, 0x1.ea69bb81b6c53p-28, 0x1.d4d377036d8a5p-28, 0x1.a9a6ee06db14bp-28,
    0x1.534ddc0db6296p-28, 0x1.4d377036d8a56p-29, 0x1.4d377036d8a56p-28, 0x1.34ddc0db6295ap-29,
    0x1.34ddc0db6295ap-28, 0x1.a6ee06db14acdp-30, 0x1.a6ee06db14acdp-29, 0x1.a6ee06db14acdp-28,
    0x1.4ddc0db629599p-28, 0x1.377036d8a5665p-29, 0x1.377036d8a5665p-28, 0x1.bb81b6c52b328p-30,
    0x1.bb81b6c52b328p-29, 0x1.bb81b6c52b328p-28, 0x1.77036d8a5664fp-28, 0x1.dc0db6295993cp-29,
    0x1.dc0db6295993cp-28, 0x1.b81b6c52b3279p-28, 0x1.7036d8a5664f1p-28, 0x1.c0db6295993c4p-29,
    0x1.c0db6295993c4p-28, 0x1.81b6c52b32788p-28, 0x1.036d8a5664f11p-28, 0x1.b6c52b3278872p-34,
    0x1.b6c52b3278872p-33, 0x1.b6c52b3278872p-32, 0x1.b6c52b3278872p-31, 0x1.b6c52b3278872p-30,
    0x1.b6c52b3278872p-29, 0x1.b6c52b3278872p-28, 0x1.6d8a5664f10e4p-28, 0x1.b6295993c439p-29,
    0x1.b6295993c439p-28,
};
#define LF_TRIG_REDUCE(x)                                                                      \
  float a = __builtin_fabsf(x);                                                                \
  int32_t bits = (int32_t)lf_bits_f32(a), k = (bits >> 23) - 126;                              \
  k = k < 0 ? 0 : k > 128 ? 128 : k;                                                           \
  double m = (double)((bits & 0x7fffff) | 0x800000);                                           \
  double turns = m * lf_turns_high[k];                                                         \
  turns = turns - ((turns * 0.25 + 6755399441055744.0) - 6755399441055744.0) * 4.0;            \
  turns = turns + m * lf_turns_low[k];                                                         \
  double shifted = turns + 6755399441055744.0;                                                 \
  int32_t n = (int32_t)lf_bits_f64(shifted);                                                   \
  float r = (float)((turns - (shifted - 6755399441055744.0)) * 1.5707963267948966);            \
  n = a < 0.5f ? 0 : n;                                                                        \
  r = a < 0.5f ? a : r;                                                                        \
  r = a < __builtin_inff() ? r : x - x;                                                        \
  float z = r * r;                                                                             \
  float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * (z * r) + r; \
  float c = 2.443315711809948e-5f * z - 1.388731625493765e-3f;                                 \
  c = (c * z + 4.166664568298827e-2f) * (z * z) - 0.5f * z + 1.0f;
LF_INLINE float lf_flip(float x, int32_t negative) {
  return lf_f32_bits(lf_bits_f32(x) ^ ((uint32_t)negative << 31));
}
LF_INLINE float lf_sin_f32(float x) {
  LF_TRIG_REDUCE(x)
  float y = lf_flip(n & 1 ? c : s, (n >> 1) & 1);
  return lf_f32_bits(lf_bits_f32(y) ^ (lf_bits_f32(x) & 0x80000000u));
}
LF_INLINE float lf_cos_f32(float x) {
  LF_TRIG_REDUCE(x)
  return lf_flip(n & 1 ? s : c, ((n + 1) >> 1) & 1);
}
LF_INLINE float lf_tan_f32(float x) {
  LF_TRIG_REDUCE(x)
  float y = n & 1 ? -c / s : s / c;
  return lf_f32_bits(lf_bits_f32(y) ^ (lf_bits_f32(x) & 0x80000000u));
}
