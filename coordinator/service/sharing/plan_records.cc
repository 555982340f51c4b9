#include "coordinator/service/sharing/plan_records.h"

#include "common/base/cat.h"
#include "common/plan/seal.h"
#include "common/shard/shard.h"

namespace coordinator::service {

using cache::RemoteRecord;
using cache::ShardRecord;
using common::Result;

common::Digest PlanPlace::digest() const { return common::place_of(tenant, plan_key, machine); }

uint32_t PlanPlace::shard() const { return common::shard_of(tenant, graph_hash); }

PlanRecords::PlanRecords(cache::RemoteStore& remote, const std::optional<cache::S3Options>& objects,
                         Sharding* sharding)
    : remote_(remote),
      object_store_(objects ? std::make_unique<cache::S3Objects>(*objects) : nullptr),
      sharding_(sharding) {}

cache::RemoteObjects& PlanRecords::objects() {
  if (object_store_) return *object_store_;
  return remote_;
}

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
                                std::span<const cache::RemoteObject> objects,
                                const std::optional<common::Digest>& recipe) {
  if (plan.size() > cache::RemoteStore::kRecordBytesMax) {
    return common::unsupported("a plan is too large to be shared");
  }
  LFARM_RETURN_IF_ERROR(this->objects().put_objects(objects));
  if (sharding_ == nullptr) return remote_.put(RemoteRecord::kPlan, place.digest(), plan);
  std::string hex = recipe ? recipe->hex() : "";
  cache::ShardChange changes[] = {{ShardRecord::kPlan, place.digest(), plan},
                                  {ShardRecord::kRecipe, place.digest(), std::nullopt}};
  if (recipe) changes[1].bytes = hex;
  return sharding_->keeper.write(place.shard(), changes);
}

Result<std::optional<common::Digest>> PlanRecords::recipe(const PlanPlace& place) {
  if (sharding_ == nullptr || place.graph_hash.is_zero()) return std::optional<common::Digest>();
  LFARM_ASSIGN_OR_RETURN(
      auto hex, sharding_->engine.read(place.shard(), ShardRecord::kRecipe, place.digest()));
  return hex ? common::Digest::parse(*hex) : std::nullopt;
}

Result<std::optional<std::vector<std::string>>> PlanRecords::get_objects(
    std::span<const common::Digest> digests) {
  LFARM_ASSIGN_OR_RETURN(auto found, objects().get_objects(digests));
  if (found || !object_store_) return found;
  return remote_.get_objects(digests);
}

Result<bool> PlanRecords::has_objects(std::span<const common::Digest> digests) {
  return objects().has_objects(digests);
}

std::string PlanRecords::trouble() const {
  auto trouble_of = [](const auto& server) -> std::string {
    std::string why = server.health().trouble;
    return why.empty() ? "" : common::cat(server.address(), " does not answer: ", why);
  };
  std::string trouble = trouble_of(remote_);
  return trouble.empty() && object_store_ ? trouble_of(*object_store_) : trouble;
}

}  // namespace coordinator::service
