#include "common/shard/shard.h"

namespace common {

uint32_t shard_of(std::string_view tenant, const Digest& graph_hash) {
  Digest drawn = Hasher().text("shard").text(tenant).digest(graph_hash).finish();
  return static_cast<uint32_t>(drawn.prefix64() % kShardCount);
}

uint64_t job_number_after(uint64_t last, uint32_t shard) {
  uint64_t next = last + 1;
  return next + (shard + kShardCount - shard_of_job(next)) % kShardCount;
}

uint32_t shard_of_job(uint64_t job) { return static_cast<uint32_t>(job % kShardCount); }

}  // namespace common
