#include "common/runtime/executor/arena_pool.h"

#include <utility>

namespace common {

Result<GuardedMemory> ArenaPool::take(Device& device, size_t bytes) {
  GuardedMemory kept;
  {
    std::lock_guard lock(mutex_);
    kept = std::move(kept_);
  }
  if (kept.data() != nullptr && kept.size() >= bytes) return kept;
  kept = {};  // before the larger block is there
  return GuardedMemory::allocate(device, bytes, 0);
}

void ArenaPool::give_back(GuardedMemory memory) {
  GuardedMemory smaller;  // freed without the lock
  std::lock_guard lock(mutex_);
  smaller = std::move(memory);
  if (smaller.size() > kept_.size()) std::swap(smaller, kept_);
}

void ArenaPool::clear() {
  GuardedMemory kept;
  std::lock_guard lock(mutex_);
  kept = std::move(kept_);
}

size_t ArenaPool::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_.size();
}

}  // namespace common
