// What generated code must know of a processor's vector unit.
#pragma once

namespace worker {

struct VectorUnit {
  int bytes = 64;  // of a register: 16, 32 or 64
  // Multiplies two neighbours of bfloat16 at a time and adds both products to a float32: vdpbf16ps
  // of AVX512_BF16. Only with 64 bytes.
  bool has_pairs = false;
  // Multiplies tiles of 16 rows by 16 columns of such pairs: AMX. Only with pairs.
  bool has_tiles = false;
};

}  // namespace worker
