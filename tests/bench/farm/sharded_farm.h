// Coordinators of one signing key that share a farm over a redis-server of the benchmark's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/files.h"
#include "common/ir/hlir/graph.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/farm/service/redis_server.h"

namespace bench {

struct ShardedFarmOptions {
  int coordinators = 3;
  int lease_ms = 3'000;  // of a shard
  bool curve = false;
};

// Not thread-safe. Throws where there is no redis-server, or a coordinator does not start.
class ShardedFarm {
 public:
  explicit ShardedFarm(const ShardedFarmOptions& options);

  int coordinators() const { return options_.coordinators; }
  FarmUnderLoad& coordinator(int k) { return *farms_[static_cast<size_t>(k)]; }
  // All endpoints, those after number `k` first.
  std::string endpoints_after(int k) const;
  std::unique_ptr<clients::FarmClient> connect(const std::string& endpoints) const;
  // Shards of coordinator `k`, once all serve as many.
  std::vector<uint32_t> shards_when_even(int k);
  // The next graph that nobody has submitted, in one of the shards.
  common::Graph next_graph(const std::vector<uint32_t>& shards);

  // Of all coordinators together; memory of the largest.
  ProcessUse use() const;
  ProcessUse engine_use() const { return process_use(redis_.pid()); }

 private:
  const ShardedFarmOptions options_;
  cache::RedisServer redis_;
  std::vector<common::ScratchDirectory> states_;
  std::vector<std::unique_ptr<FarmUnderLoad>> farms_;
  int64_t next_size_ = 8;
};

}  // namespace bench
