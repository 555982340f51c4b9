#include "coordinator/service/sharing/plan_records.h"

#include "common/plan/seal.h"
#include "common/shard/shard.h"

namespace coordinator::service {

using cache::RemoteRecord;
using cache::ShardRecord;
using common::Result;

common::Digest PlanPlace::digest() const { return common::place_of(tenant, plan_key, machine); }

uint32_t PlanPlace::shard() const { return common::shard_of(tenant, graph_hash); }

Result<std::optional<std::string>> PlanRecords::get(const PlanPlace& place) {
  if (sharding_ == nullptr) return remote_.get(RemoteRecord::kPlan, place.digest());
  if (place.graph_hash.is_zero()) return std::optional<std::string>();
  return sharding_->engine.read(place.shard(), ShardRecord::kPlan, place.digest());
}

Result<std::vector<std::optional<std::string>>> PlanRecords::get_all(
    uint32_t shard, std::span<const common::Digest> places) {
  if (sharding_ == nullptr) return remote_.get_all(RemoteRecord::kPlan, places);
  return sharding_->engine.read_all(shard, ShardRecord::kPlan, places);
}

common::Status PlanRecords::put(const PlanPlace& place, std::string_view plan,
                                std::span<const cache::RemoteObject> objects) {
  if (sharding_ == nullptr) return remote_.put_plan(place.digest(), plan, objects);
  if (plan.size() > cache::RemoteStore::kRecordBytesMax) {
    return common::unsupported("a plan is too large to be shared");
  }
  LFARM_RETURN_IF_ERROR(remote_.put_objects(objects));
  cache::ShardChange change{ShardRecord::kPlan, place.digest(), plan};
  return sharding_->keeper.write(place.shard(), {&change, 1});
}

}  // namespace coordinator::service
