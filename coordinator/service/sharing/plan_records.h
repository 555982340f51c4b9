// Where a farm's plans lie in the store that it shares: under their places, or, where several
// coordinators hold shards, in the engine, where only a shard's holder changes them. Their objects
// lie there, too, or in an object store beside it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote/remote_store.h"
#include "cache/s3/s3_objects.h"
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
  // `objects`: the object store; empty: objects lie in `remote`. `sharding`: null where one
  // coordinator serves everything.
  PlanRecords(cache::RemoteStore& remote, const std::optional<cache::S3Options>& objects,
              Sharding* sharding);

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

  // As in cache::RemoteObjects. Objects that were put before there was an object store are read
  // where they are.
  common::Result<std::optional<std::vector<std::string>>> get_objects(
      std::span<const common::Digest> digests);
  common::Result<bool> has_objects(std::span<const common::Digest> digests);
  // "ADDRESS does not answer: ..." of the server that is not asked now; empty: both are.
  std::string trouble() const;
  // The object store; null where there is none.
  const cache::S3Objects* object_store() const { return object_store_.get(); }

 private:
  cache::RemoteObjects& objects();

  cache::RemoteStore& remote_;
  const std::unique_ptr<cache::S3Objects> object_store_;
  Sharding* const sharding_;
};

}  // namespace coordinator::service
