#include "common/process/kept_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "common/process/sanitized.h"

namespace common {
namespace {

struct Block {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

class KeptBlocks {
 public:
  // The block given back last of those that fit; null where none does.
  std::byte* take(size_t bytes, size_t alignment) {
    std::lock_guard lock(mutex_);
    auto fits = [&](const Block& b) {
      return b.bytes >= bytes && b.bytes - bytes <= bytes / kKeptSlack &&
             reinterpret_cast<uintptr_t>(b.data) % alignment == 0;
    };
    auto found = std::find_if(blocks_.rbegin(), blocks_.rend(), fits);
    if (found == blocks_.rend()) return nullptr;
    Block block = *found;
    blocks_.erase(std::next(found).base());
    bytes_ -= block.bytes;
    return block.data;
  }

  void give(Block block) {
    std::deque<Block> freed;
    {
      std::lock_guard lock(mutex_);
      blocks_.push_back(block);
      bytes_ += block.bytes;
      while (bytes_ > kKeptBytes) {
        bytes_ -= blocks_.front().bytes;
        freed.push_back(blocks_.front());
        blocks_.pop_front();
      }
    }
    for (const Block& each : freed) std::free(each.data);
  }

  size_t bytes() {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  std::mutex mutex_;
  std::deque<Block> blocks_;  // the one given back longest ago first
  size_t bytes_ = 0;
};

// Never destroyed: tensors may live longer than any static object.
KeptBlocks& kept() {
  static auto* blocks = new KeptBlocks;
  return *blocks;
}

}  // namespace

// A sanitizer looks for reads of freed memory: nothing is kept there.
std::byte* take_memory(size_t bytes, size_t alignment) {
  size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return nullptr;
  if (!kSanitized && bytes >= kKeptBlockBytes) {
    if (std::byte* data = kept().take(rounded, alignment)) return data;
  }
  return static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
}

void give_memory(std::byte* data) {
  size_t bytes = ::malloc_usable_size(data);
  // One beyond all that is kept would only drive the others out.
  bool is_kept = !kSanitized && bytes >= kKeptBlockBytes && bytes <= kKeptBytes;
  is_kept ? kept().give({data, bytes}) : std::free(data);
}

std::shared_ptr<std::byte> shared_memory(size_t bytes, size_t alignment) {
  std::byte* data = take_memory(bytes, alignment);
  if (data == nullptr) return nullptr;
  return {data, give_memory};
}

size_t kept_bytes() { return kept().bytes(); }

}  // namespace common
