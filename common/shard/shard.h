// Virtual shards: what a farm's models are divided into, so that several coordinators share the
// work.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/digest.h"

namespace common {

// A constant: a model's shard must not change with the number of coordinators.
inline constexpr uint32_t kShardCount = 64;

// The shard of a tenant's model, below kShardCount. Every target, policy and machine class of one
// graph is in one shard.
uint32_t shard_of(std::string_view tenant, const Digest& graph_hash);

// Numbers of jobs where several coordinators serve: the smallest one above `last` that says the
// job's shard, as its remainder by kShardCount.
uint64_t job_number_after(uint64_t last, uint32_t shard);
uint32_t shard_of_job(uint64_t job);

}  // namespace common
