// Moves what a farm knows between a state directory's own store and the engine in which several
// coordinators keep their shards, for the same signing key.
//
//   to_engine():  plans with their recipes, revocations, notes and measurements of kernels are
//                 copied, journals of open jobs are moved
//   to_store():   the same the other way
//
// Each plan and each journal is read back from the target before it counts, and a journal leaves
// its source only then. A migration that was cut off is run again and goes on: what is there is
// not copied twice. Of two plans at one place the faster one stays on both sides.
#pragma once

#include <cstdint>
#include <functional>

#include "cache/remote/remote_store.h"
#include "cache/store/store.h"
#include "common/base/result.h"
#include "coordinator/service/migration/farm_hold.h"
#include "coordinator/service/plans/owned_plan.h"
#include "coordinator/service/plans/plan_repository.h"
#include "coordinator/service/plans/tenants.h"
#include "coordinator/service/shards/sharding.h"
#include "coordinator/service/sharing/peer_plans.h"
#include "coordinator/service/sharing/plan_records.h"
#include "coordinator/service/sharing/replica_notes.h"
#include "coordinator/service/sharing/shared_measurements.h"
#include "coordinator/service/sharing/shared_tier.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

struct MigrationCounts {
  uint64_t plans = 0;        // of the source
  uint64_t seen = 0;         // of these, so far; in the end copied + there + passed_over + refused
  uint64_t copied = 0;       // that the target had not, or a slower one
  uint64_t there = 0;        // of which the target had one as fast
  uint64_t passed_over = 0;  // revoked ones, and those of searches that have not ended
  uint64_t refused = 0;      // damaged ones, ones that were not signed here, or too large
  uint64_t recipes = 0;      // of these plans that the target can make anew
  uint64_t jobs = 0;         // open jobs that were moved
  uint64_t jobs_left = 0;    // that stay at the source: damaged, or too large for the engine
  uint64_t revocations = 0;  // that the target knows of
  MovedMeasurements measurements;
};

// Not thread-safe; borrows what it is given. All calls wait for the network.
class Migration {
 public:
  // Is told of each plan. An error ends the migration with it.
  using Progress = std::function<common::Status(const MigrationCounts& counts)>;

  // `hold`: of all shards in `sharding`.
  Migration(const SharedTierSetup& setup, Sharding& sharding, const FarmHold& hold,
            const SharedSigner& signer, cache::Store& store);
  common::Result<MigrationCounts> to_engine(const Progress& progress);
  common::Result<MigrationCounts> to_store(const Progress& progress);

 private:
  enum class Fate : uint8_t { kCopied, kThere, kPassedOver, kRefused };
  common::Status begin();
  common::Status count(Fate fate, const Progress& progress);
  common::Result<Fate> to_engine(const cache::PlanListing& plan);
  common::Result<Fate> to_store(uint32_t shard, const common::Digest& name);
  common::Result<bool> has_recipe(const cache::StoredPlan& stored, const OwnedPlan& owned) const;
  common::Status move_jobs(bool is_to_engine);

  Sharding& sharding_;
  const FarmHold& hold_;
  cache::Store& store_;
  cache::RemoteStore remote_;
  PlanRecords records_;
  Tenants tenants_;
  PlanRepository repository_;
  PeerPlans peers_;
  ReplicaNotes notes_;
  SharedMeasurements measurements_;
  MigrationCounts counts_;
};

}  // namespace coordinator::service
