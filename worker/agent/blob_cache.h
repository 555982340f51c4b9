// Blobs by digest, bounded by bytes: graphs that tasks need and objects that reports name.
#pragma once

#include <list>
#include <unordered_map>

#include "common/base/digest.h"
#include "common/wire/socket.h"

namespace worker {

// Least recently used blobs go first; the newest stays, however large it is. Whoever holds a
// SharedBytes keeps its bytes after they left the cache. Not thread-safe.
class BlobCache {
 public:
  explicit BlobCache(size_t bytes_max) : bytes_max_(bytes_max) {}

  void insert(const common::Digest& digest, common::SharedBytes blob);
  // Empty when it is not held.
  common::SharedBytes find(const common::Digest& digest);
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    common::Digest digest;
    common::SharedBytes blob;
  };
  size_t bytes_max_;
  size_t bytes_ = 0;
  std::list<Entry> newest_first_;
  std::unordered_map<common::Digest, std::list<Entry>::iterator> places_;
};

}  // namespace worker
