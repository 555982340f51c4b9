// The encoded graphs that running jobs refer to, each held once however many tasks name it.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "common/base/digest.h"
#include "common/wire/socket.h"

namespace coordinator::service {

// Shared ownership of one entry; the entry goes with its last holder. Must not outlive the table.
class HeldBlob {
 public:
  HeldBlob(std::shared_ptr<const void> entry, common::Digest digest)
      : entry_(std::move(entry)), digest_(digest) {}
  const common::Digest& digest() const { return digest_; }

 private:
  std::shared_ptr<const void> entry_;
  common::Digest digest_;
};

// Not thread-safe.
class BlobTable {
 public:
  explicit BlobTable(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Empty when the table would hold more than its bound.
  std::optional<HeldBlob> hold(common::SharedBytes bytes);
  // Null when nobody holds it.
  common::SharedBytes find(const common::Digest& digest) const;
  size_t bytes() const { return bytes_; }
  size_t count() const { return entries_.size(); }

 private:
  struct Entry;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  std::unordered_map<common::Digest, std::weak_ptr<Entry>> entries_;
};

}  // namespace coordinator::service
