#include "cache/engine/name_walk.h"

#include <utility>

namespace cache {

using common::Digest;
using common::Result;

Result<std::vector<Digest>> NameWalk::next() {
  std::vector<Digest> names;
  if (is_done_) return names;
  LFARM_ASSIGN_OR_RETURN(NamePage page, engine_.names(shard_, record_, from_));
  for (const Digest& name : page.names) {
    if (seen_.insert(name).second) names.push_back(name);
  }
  from_ = std::move(page.next);
  is_done_ = from_.empty();
  return names;
}

Result<std::vector<Digest>> all_names(ShardEngine& engine, uint32_t shard, ShardRecord record) {
  std::vector<Digest> all;
  NameWalk walk(engine, shard, record);
  while (!walk.is_done()) {
    LFARM_ASSIGN_OR_RETURN(std::vector<Digest> some, walk.next());
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace cache
