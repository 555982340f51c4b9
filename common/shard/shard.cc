#include "common/shard/shard.h"

namespace common {

uint32_t shard_of(std::string_view tenant, const Digest& graph_hash) {
  Digest drawn = Hasher().text("shard").text(tenant).digest(graph_hash).finish();
  return static_cast<uint32_t>(drawn.prefix64() % kShardCount);
}

}  // namespace common
