// All names of a shard's records of one kind, a page at a time and each once.
//
//   NameWalk walk(engine, 17, ShardRecord::kPlan);
//   while (!walk.is_done()) {
//     LFARM_ASSIGN_OR_RETURN(std::vector<common::Digest> names, walk.next());
//     ...
//   }
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/engine/shard_engine.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace cache {

// Records that are there from the first next() to the last one are named once. Those that come or
// go meanwhile may be named, and may be gone by then. Not thread-safe; borrows the engine.
// Remembers the shard's names, some 60 bytes each: of 10 million plans a shard has 160,000.
class NameWalk {
 public:
  NameWalk(ShardEngine& engine, uint32_t shard, ShardRecord record)
      : engine_(engine), shard_(shard), record_(record) {}

  bool is_done() const { return is_done_; }
  // The next names, none where the engine has given those before. After an error the same call may
  // be repeated.
  common::Result<std::vector<common::Digest>> next();

 private:
  ShardEngine& engine_;
  const uint32_t shard_;
  const ShardRecord record_;
  std::string from_;
  std::unordered_set<common::Digest> seen_;
  bool is_done_ = false;
};

// The names of all records of the kind, for a kind of which a shard has few.
common::Result<std::vector<common::Digest>> all_names(ShardEngine& engine, uint32_t shard,
                                                      ShardRecord record);

}  // namespace cache
