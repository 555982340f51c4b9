// Where a farm's plans lie in the store that it shares: under their places, or, where several
// coordinators hold shards, in the engine, where only a shard's holder changes them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote/remote_store.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "coordinator/service/shards/sharding.h"

namespace coordinator::service {

struct PlanPlace {
  std::string tenant;
  common::Digest plan_key;
  std::string machine;
  common::Digest graph_hash;  // zero: not known; a shard's plan is not found without

  common::Digest digest() const;
  uint32_t shard() const;
};

// Thread-safe; calls may wait for the network.
class PlanRecords {
 public:
  // `sharding`: null where one coordinator serves everything.
  PlanRecords(cache::RemoteStore& remote, Sharding* sharding)
      : remote_(remote), sharding_(sharding) {}

  common::Result<std::optional<std::string>> get(const PlanPlace& place);
  // The same of many of a shard, by their places' digests, in one exchange.
  common::Result<std::vector<std::optional<std::string>>> get_all(
      uint32_t shard, std::span<const common::Digest> places);
  // Objects first. `recipe`: the one of them that is the plan's recipe; empty: it has none.
  // kUnavailable also when another coordinator holds the plan's shard.
  common::Status put(const PlanPlace& place, std::string_view plan,
                     std::span<const cache::RemoteObject> objects,
                     const std::optional<common::Digest>& recipe);
  // Of the plan that is there; empty where it has none, or where nothing is sharded.
  common::Result<std::optional<common::Digest>> recipe(const PlanPlace& place);
  bool are_sharded() const { return sharding_ != nullptr; }

 private:
  cache::RemoteStore& remote_;
  Sharding* sharding_;
};

}  // namespace coordinator::service
