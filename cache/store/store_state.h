// What an open store keeps in memory, shared by the sources that implement it and by no one else.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/store/collector_thread.h"
#include "cache/store/database.h"
#include "cache/store/intact_blobs.h"
#include "cache/store/pending_uses.h"
#include "cache/store/records.h"
#include "cache/store/store.h"
#include "cache/store/waiting_blobs.h"

namespace cache {

// Numbers kept up to date with every change of plans and kernels, in the same batch.
struct Counters {
  FamilyStats plans, kernels;
  uint64_t total_bytes() const { return plans.bytes + kernels.bytes; }
};

enum class BlobCondition { kIntact, kMissing, kDamaged };

// Kept like the counters of plans and kernels, but by who holds `measuring`.
struct SmallCounters {
  FamilyStats measurements, negatives;
};

// Lock order: collecting, then commit, then those of parts; measuring alone. Reads take no commit
// lock.
struct Store::State {
  std::string directory;
  StoreOptions options;
  std::unique_ptr<Database> database;

  // Serialises changes of plans and kernels, so that checks and counters hold until the write.
  std::mutex commit;
  Counters counters;
  uint64_t collect_above = 0;  // automatic collection waits for this many bytes
  WaitingBlobs waiting;

  // One collection at a time.
  std::mutex collecting;
  CollectorThread collector;

  // Serialises writes of measurements, of which the first one stays. Not `commit`: a sync lasts
  // long, and nobody else shall wait for it.
  std::mutex measuring;
  SmallCounters small;

  IntactBlobs intact;
  PendingUses uses;

  // The repairs of the database that this state knows of.
  std::atomic<uint64_t> repairs_seen{0};

  int64_t now() const { return options.wall_ns(); }

  // To be called before what is in memory is relied upon, without any lock: after a repair entries
  // are gone, and some that had been removed are back. Cheap where there was none.
  common::Status settle_repairs();
  common::Status recount();
  common::Status recount_small();
  // Revocations stand in two families, and so in two tables: damage to one brings no plan back.
  static void add_revocation(Batch& batch, const common::Digest& plan_id, std::string_view reason);
  common::Status add_revocation_number(Batch& batch, std::string_view owner) const;
  common::Result<uint64_t> newest_revocation() const;
  // By plan id, the reason.
  common::Result<std::map<common::Digest, std::string>> revoked_plans() const;

  template <class IsIntact>
  common::Result<BlobCondition> inspect_blob(const common::Digest& digest,
                                             const IsIntact& is_intact, std::string* bytes);
  // By the digest.
  common::Result<BlobCondition> verify_blob(const common::Digest& digest, std::string* bytes);
  // By memory, else by the checksum.
  common::Result<BlobCondition> check_blob(const Need& need);
  void add_removal(Batch& batch, const common::Digest& blob, uint64_t bytes);
  // Removes the blob if it is still damaged.
  common::Status discard_damaged(const common::Digest& digest);
  // As noted when it was put; empty when it never was.
  common::Result<std::optional<BlobNote>> blob_note(const common::Digest& digest) const;
  // Empty unless all of them are there and intact by their notes; `missing` then names one.
  common::Result<std::optional<std::vector<Need>>> resolve(
      const std::vector<common::Digest>& digests, common::Digest* missing);

  common::Result<bool> commit_plans(std::span<const NewPlan> plans, bool only_if_better);
  common::Result<bool> add_plan(Batch& batch, const NewPlan& plan, bool only_if_better);
  // Adds a plan's removal to the batch and the counters.
  void add_plan_removal(Batch& batch, const common::Digest& key, const PlanHeader& header,
                        size_t record_bytes);
  // Removes the plan if its record is still `record`.
  common::Status discard_plan(const common::Digest& key, const std::string& record);
  struct Found {
    std::string record;
    PlanHeader header;
    std::vector<std::string> blobs;
  };
  common::Result<std::optional<Found>> find_plan(const common::Digest& key, bool with_blobs);

  void note_lookup(const common::Digest& key, bool is_hit);

  // All of them, in their order. The caller holds `measuring`.
  common::Status add_changes(Batch& batch, std::span<const Changes> group);
  // Adds the measurement unless one is there or `keys` names it already.
  common::Status add_measurement(Batch& batch, const Changes::Measured& measured,
                                 std::unordered_set<std::string>& keys);
  // Adds the record. kInvalidInput when its number is taken, also by one of `keys`.
  common::Status add_record(Batch& batch, std::string_view job, const JobRecord& record,
                            std::unordered_set<std::string>& keys);
  // Removes what is stored of the job below a sequence number, and what `keys` names of it.
  common::Status add_job_removal(Batch& batch, std::string_view job, uint64_t below,
                                 const std::unordered_set<std::string>& keys);

  class Collection;
  // Writes the batch together with the counters; restores them when the write fails.
  common::Status write_counted(Batch& batch, const Counters& before);
  // The same for the small counters. The caller holds `measuring`.
  common::Status write_small(Batch& batch, const SmallCounters& before, bool durable);
  // Holds the lock of commits for a few entries at a time.
  common::Result<CollectReport> collect(uint64_t max_bytes);
  // Removes the oldest measurements until a tenth of the bound is free.
  common::Status collect_measurements();
  bool is_full();
  bool has_measurements_beyond();
  // Collects what is beyond the bounds, or has it collected.
  common::Status collect_if_full();
  common::Status collect_now();

  // Empty where there is no such plan, or none that can be read.
  common::Result<std::optional<PlanListing>> listing_of(const common::Digest& key);

  // Brings a store of format 1 to format 2.
  common::Status add_names();
  // Brings one of format 2 to format 3, and puts back what a repair has lost. Nobody changes plans
  // meanwhile.
  common::Status add_created_keys();
};

inline constexpr uint64_t kBlobBytesMax = uint64_t{1} << 30;
inline constexpr size_t kNeedsMax = size_t{1} << 20;

}  // namespace cache
