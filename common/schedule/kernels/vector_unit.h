// What generated code must know of a processor's vector unit.
#pragma once

#include <string_view>

namespace common {

struct VectorUnit {
  int bytes = 64;  // of a register: 16, 32 or 64
  // Multiplies two neighbours of bfloat16 at a time and adds both products to a float32: vdpbf16ps
  // of AVX512_BF16. Only with 64 bytes.
  bool has_pairs = false;
  // Multiplies tiles of 16 rows by 16 columns of such pairs: AMX. Only with pairs.
  bool has_tiles = false;
};

// That of the target's processors, such as "cpu-x86_64-avx512".
constexpr VectorUnit vector_unit_of(std::string_view target) {
  if (target == "cpu-x86_64-amxbf16") return {64, true, true};
  if (target == "cpu-x86_64-avx512bf16") return {64, true};
  if (target == "cpu-x86_64-avx512") return {64};
  return {target == "cpu-x86_64-avx2" ? 32 : 16};
}

}  // namespace common
