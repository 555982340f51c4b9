#include "common/base/hash64.h"

#include <xxhash.h>

namespace common {

uint64_t hash64(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

struct Hasher64::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  ~State() { XXH3_freeState(xxh3); }
};

Hasher64::Hasher64() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh3); }
Hasher64::~Hasher64() = default;
void Hasher64::add(ByteView bytes) { XXH3_64bits_update(state_->xxh3, bytes.data(), bytes.size()); }
uint64_t Hasher64::finish() const { return XXH3_64bits_digest(state_->xxh3); }

}  // namespace common
