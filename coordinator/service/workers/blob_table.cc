#include "coordinator/service/workers/blob_table.h"

#include <utility>

namespace coordinator::service {

struct BlobTable::Entry {
  BlobTable& table;
  common::Digest digest;
  common::SharedBytes bytes;

  Entry(BlobTable& owner, const common::Digest& its_digest, common::SharedBytes its_bytes)
      : table(owner), digest(its_digest), bytes(std::move(its_bytes)) {}
  ~Entry() {
    table.bytes_ -= bytes.bytes.size();
    table.entries_.erase(digest);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
};

std::optional<HeldBlob> BlobTable::hold(common::SharedBytes bytes) {
  common::Digest digest = common::digest_of(bytes.bytes);
  size_t size = bytes.bytes.size();
  auto found = entries_.find(digest);
  if (found != entries_.end()) return HeldBlob(found->second.lock(), digest);
  if (bytes_ + size > bytes_max_) return std::nullopt;
  bytes_ += size;
  auto entry = std::make_shared<Entry>(*this, digest, std::move(bytes));
  entries_.emplace(digest, entry);
  return HeldBlob(std::move(entry), digest);
}

common::SharedBytes BlobTable::find(const common::Digest& digest) const {
  auto found = entries_.find(digest);
  if (found == entries_.end()) return {};
  return found->second.lock()->bytes;
}

}  // namespace coordinator::service
