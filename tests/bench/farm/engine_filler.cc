#include "tests/bench/farm/engine_filler.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "common/plan/seal.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/farm/timed.h"
#include "tests/unit/clients/sealed_plan.h"

namespace bench {

using cache::ShardRecord;
using common::cat;
using common::Digest;
using common::digest_of;

namespace {

constexpr int64_t kLeaseMs = 15'000;
// One script of each shard.
constexpr int64_t kFilledAtOnce =
    int64_t{common::kShardCount} * static_cast<int64_t>(cache::ShardEngine::kChangesMax);

void check(const cache::FenceAnswer& answer) {
  if (answer.verdict == cache::FenceVerdict::kTaken) return;
  throw std::runtime_error("a coordinator serves the engine's shards: end it first");
}

std::string noise(size_t bytes, uint64_t seed) {
  common::Random random(seed);
  std::string text(bytes, '\0');
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = random.next();
    std::memcpy(&text[at], &word, std::min(sizeof word, bytes - at));
  }
  return text;
}

}  // namespace

EngineFiller::EngineFiller(cache::RemoteStore& store, const std::string& space, size_t plan_bytes)
    : store_(store), engine_(store, {space, 0}), leases_(store, space), bytes_(plan_bytes) {
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    cache::FenceState there = must(engine_.look(shard));
    fences_.push_back({shard, there.fence.transitions + 1, common::Incarnation::draw()});
    check(must(engine_.raise(fences_.back())));
    sequences_.push_back(there.sequence);
  }
}

int64_t EngineFiller::filled() {
  int64_t there = 0;
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    there += static_cast<int64_t>(must(engine_.count(shard, ShardRecord::kPlan)));
  }
  return there / kFilledAtOnce * kFilledAtOnce;
}

Digest EngineFiller::name_of(int64_t plan) { return digest_of(cat("plan ", plan)); }

void EngineFiller::fill(int64_t from, int64_t plans) {
  for (int64_t begin = from; begin < plans; begin += kFilledAtOnce) {
    int64_t end = std::min(plans, begin + kFilledAtOnce);
    for (int64_t first = begin; first < std::min<int64_t>(end, begin + common::kShardCount);
         ++first) {
      write_filler(first, end);
    }
  }
}

void EngineFiller::write_one(int64_t plan) { write_filler(plan, plan + 1); }

// Plans `first`, `first` + 64, ... before `end`, all of one shard.
void EngineFiller::write_filler(int64_t first, int64_t end) {
  std::vector<Named> plans;
  std::vector<std::string> objects;
  std::vector<cache::RemoteObject> put;
  for (int64_t k = first; k < end; k += common::kShardCount) {
    plans.emplace_back(name_of(k), noise(bytes_, static_cast<uint64_t>(k)));
    objects.push_back(cat("object ", k));
  }
  for (const std::string& object : objects) put.push_back({digest_of(object), object});
  must(store_.put_objects(put));
  write(shard_of(first), plans);
}

void EngineFiller::write(uint32_t shard, const std::vector<Named>& plans) {
  std::vector<cache::ShardChange> changes;
  for (const auto& [name, bytes] : plans) changes.push_back({ShardRecord::kPlan, name, bytes});
  check(must(engine_.write(fences_[shard], ++sequences_[shard], changes)));
}

std::vector<common::PlanKey> EngineFiller::add_signed(int count, const common::SigningKey& key) {
  const std::string objects[] = {"object0", "object1"};
  std::vector<cache::RemoteObject> put;
  for (const std::string& object : objects) put.push_back({digest_of(object), object});
  must(store_.put_objects(put));
  const std::string tenant(common::kLocalTenant);
  std::vector<common::PlanKey> keys;
  for (int k = 0; k < count; ++k) {
    common::Plan plan = common::chain_plan(static_cast<int>(std::size(objects)));
    plan.key.graph_hash = digest_of(cat("graph ", k));
    plan.key.target = {kLoadTarget};
    plan.key.epoch = common::kCompilerEpoch;
    plan.provenance.best_ns = 1'000;
    auto sealed = common::encode_sealed(common::seal(key, tenant, plan));
    write(common::shard_of(tenant, plan.key.graph_hash),
          {{common::place_of(tenant, plan.key.digest()), std::string(common::as_text(sealed))}});
    keys.push_back(plan.key);
  }
  return keys;
}

void EngineFiller::leave() {
  std::map<std::string, std::string> versions;
  std::vector<common::ShardLease> leases;
  for (const common::ShardLease& lease : must(leases_.read())) {
    versions[lease.name] = lease.version;
    // Of a coordinator that an earlier run has ended: the next one would share with it.
    bool is_member = lease.name.starts_with("member-");
    if (is_member) leases.push_back({lease.name, "", 0, 0, {}, lease.version});
  }
  for (const common::Fence& fence : fences_) {
    std::string name = cat("shard-", fence.shard);
    std::string version = versions[name];
    leases.push_back({std::move(name), "", fence.transitions, kLeaseMs, {}, std::move(version)});
  }
  must(leases_.write(leases));
}

}  // namespace bench
