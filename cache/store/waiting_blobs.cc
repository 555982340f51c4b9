#include "cache/store/waiting_blobs.h"

namespace cache {

using common::Digest;

namespace {

constexpr size_t kRecentBlobsMax = size_t{1} << 16;  // pruned by age beyond this

}  // namespace

void WaitingBlobs::note(const Digest& digest, int64_t now_ns, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (recent_.size() >= kRecentBlobsMax) {
    std::erase_if(recent_, [now_ns](const auto& entry) {
      return entry.second.at_ns + kRecentBlobNs < now_ns;
    });
  }
  recent_[digest] = {now_ns, bytes};
}

uint64_t WaitingBlobs::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [digest, noted] : recent_) bytes += noted.bytes;
  return bytes;
}

void WaitingBlobs::end_wait(std::span<const Digest> needs) {
  std::lock_guard lock(mutex_);
  for (const Digest& need : needs) {
    recent_.erase(need);
    if (takes_inventory_) needed_since_.insert(need);
  }
}

void WaitingBlobs::begin_inventory(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  int64_t recent_from = now_ns - kRecentBlobNs;
  std::erase_if(recent_, [&](const auto& entry) { return entry.second.at_ns < recent_from; });
  takes_inventory_ = true;
  needed_since_.clear();
}

void WaitingBlobs::end_inventory() {
  std::lock_guard lock(mutex_);
  takes_inventory_ = false;
  needed_since_.clear();
}

}  // namespace cache
