#include "cache/store/intact_blobs.h"

namespace cache {

using common::Digest;

namespace {

constexpr size_t kIntactMax = size_t{1} << 18;  // 32 bytes each and the table around them

}  // namespace

bool IntactBlobs::holds(const Digest& digest) {
  std::lock_guard lock(mutex_);
  return intact_.count(digest) != 0;
}

void IntactBlobs::insert(const Digest& digest) {
  if (intact_.size() >= kIntactMax) intact_.clear();
  intact_.insert(digest);
}

void IntactBlobs::add(const Digest& digest) {
  std::lock_guard lock(mutex_);
  insert(digest);
}

uint64_t IntactBlobs::removals() {
  std::lock_guard lock(mutex_);
  return removals_;
}

void IntactBlobs::add_unless_removed(const Digest& digest, uint64_t removals_before) {
  std::lock_guard lock(mutex_);
  if (removals_ == removals_before) insert(digest);
}

void IntactBlobs::forget(std::span<const Digest> digests) {
  std::lock_guard lock(mutex_);
  for (const Digest& digest : digests) intact_.erase(digest);
  ++removals_;
}

void IntactBlobs::forget_all() {
  std::lock_guard lock(mutex_);
  intact_.clear();
  ++removals_;
}

}  // namespace cache
