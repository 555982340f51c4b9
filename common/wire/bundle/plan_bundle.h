// A signed plan and its objects as one piece, as clients keep them on disk.
#pragma once

#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

// Views of memory that somebody else owns.
struct PlanBundle {
  ByteView signed_plan;           // of encode_sealed()
  std::vector<ByteView> objects;  // at multiples of 8 bytes from the bundle's begin
  ByteView stamp;                 // for whoever keeps the bundle
};

Bytes encode_bundle(const PlanBundle& bundle);
// The parts, within `bytes`, which begin at a multiple of 8. kCorrupt when it is no bundle. Whether
// the parts are what they should be, the plan's signature and digests tell.
Result<PlanBundle> decode_bundle(ByteView bytes);

}  // namespace common
