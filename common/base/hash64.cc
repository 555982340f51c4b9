#include "common/base/hash64.h"

#include <xxhash.h>

namespace common {
uint64_t hash64(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
}  // namespace common
