// What a collection of a store decides on: parts of bounded size, each read in one pass over the
// database in the order of its keys. The blobs themselves stay unread.
//
//   BlobCounts blobs = BlobCounts::after(database, last, 1'000'000)
//   blobs.count(database)         reads all plans
//   blobs.all()                   of these blobs, how many plans need each
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cache/store/database.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace cache {

struct CountedBlob {
  common::Digest digest;
  uint64_t bytes = 0;
  uint64_t references = 0;  // needs of plans that name it
};

// Some of a store's blobs in the order of their digests, 48 bytes each. Not thread-safe.
class BlobCounts {
 public:
  // The first `count` blobs behind a digest, without references.
  static common::Result<BlobCounts> after(const Database& database,
                                          const std::optional<common::Digest>& last, size_t count);
  // Those of `digests` that are there, each once, without references.
  static common::Result<BlobCounts> of(const Database& database,
                                       std::vector<common::Digest> digests);
  // Adds the references of all plans.
  common::Status count(const Database& database);

  const std::vector<CountedBlob>& all() const { return blobs_; }
  // Null when it is none of these.
  CountedBlob* find(const common::Digest& digest);

 private:
  std::vector<CountedBlob> blobs_;
};

struct AgedPlan {
  common::Digest key;
  int64_t last_used_wall_ns = 0;  // 0: its record is malformed
  int64_t created_wall_ns = 0;    // likewise
};

// The `count` plans that were used longest ago, in that order, those that were used at the same
// time in the order of their keys. Reads all plans and their uses, as far as these are written;
// remembers `count` of them.
common::Result<std::vector<AgedPlan>> oldest_plans(const Database& database, size_t count);

// Cuts off the plans behind the first that need more than `count` blobs together, but for the first
// one, and returns what those that stay need. A record that cannot be read needs nothing.
common::Result<std::vector<common::Digest>> needs_of(const Database& database,
                                                     std::vector<AgedPlan>& plans, size_t count);

}  // namespace cache
