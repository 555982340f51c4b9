// The cache of one state directory: plans, the kernels they need, measurements, known failures and
// the journals of running jobs, kept so that a plan is served whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/store/tenant_usage.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace cache {

struct StoreOptions {
  bool read_only = false;
  // Bound on the bytes of plans and kernels; puts beyond it evict what was used longest ago.
  // 0: unbounded. It bounds what is kept, not the disk: removed bytes leave the disk later.
  uint64_t max_bytes = 0;
  size_t block_cache_bytes = size_t{16} << 20;
  // Measurements that are kept; beyond it the oldest go, a tenth at a time. 0: all.
  uint64_t max_measurements = 0;
  // Whether what is beyond the bounds is removed by a thread of the store, some entries at a time,
  // while puts go on; else by the put that went beyond, which can take seconds.
  bool collects_in_background = false;
  // Blobs, and as many plans, of which a collection remembers something at a time, 48 bytes of a
  // blob and of a plan each. A store of more is read once for each part of its blobs.
  size_t collects_at_once = size_t{1} << 20;
  // Nanoseconds since 1970; empty means common::wall_clock_ns.
  std::function<int64_t()> wall_ns;
  // NewPlan::names of plans that a release without names has stored, by their bytes; asked once,
  // when the store is brought to this release's format. Empty: none have any.
  std::function<std::vector<common::Digest>(std::string_view bytes)> names_of;
};

// What is known of a plan without reading its bytes.
struct PlanFacts {
  common::Digest key;         // graph hash + target + numerics policy + compiler epoch
  common::Digest graph_hash;  // plans of one graph are found by it
  common::Digest plan_id;     // identifies the plan's content; revocations name it
  int64_t best_ns = 0;        // measured time of the plan; 0 when unknown
  int64_t search_ms = 0;      // what finding it took, and what a hit saves
};

struct NewPlan {
  PlanFacts facts;
  std::string bytes;
  std::vector<common::Digest> needs;  // blobs without which the plan is useless
  // Beside its id, what the plan is found by with plans_named().
  std::vector<common::Digest> names = {};
  // Whether a put returns only once the plan is on the disk. Else it is after the next put that
  // does: for a plan that can be had again.
  bool is_durable = true;
};

struct StoredPlan {
  PlanFacts facts;
  int64_t created_wall_ns = 0;
  std::string bytes;
  std::vector<common::Digest> needs;
};

// A plan with the verified bytes of its blobs: blobs[i] has the digest plan.needs[i].
struct PlanBundle {
  StoredPlan plan;
  std::vector<std::string> blobs;
};

struct PlanListing {
  PlanFacts facts;
  uint64_t bytes = 0;  // of the plan without its blobs
  uint64_t needs = 0;  // number of blobs
  int64_t created_wall_ns = 0;
  int64_t last_used_wall_ns = 0;
  uint64_t uses = 0;  // lookups that served it or an earlier plan under its key
};

struct PlanPage {
  std::vector<PlanListing> plans;
  std::string next;  // where the next page begins; empty: this is the last one
};

struct StoredMeasurement {
  double ns = 0;
  uint32_t samples = 0;
  int64_t when_wall_ns = 0;
  friend bool operator==(const StoredMeasurement&, const StoredMeasurement&) = default;
};

// Why something is known not to work.
struct Negative {
  std::string reason;
  int64_t expires_wall_ns = 0;  // 0: never
};

struct JobRecord {
  uint64_t sequence = 0;
  std::string bytes;
};

// Small records of several kinds, to be written together; see Store::commit().
struct Changes {
  struct Record {
    std::string job;
    JobRecord record;
  };
  struct Measured {
    common::Digest fingerprint;
    std::string device;
    StoredMeasurement measurement;
  };
  struct Named {
    std::string name;
    std::string bytes;
  };
  std::vector<Record> records;
  std::vector<Measured> measurements;
  std::vector<Named> named;
  std::vector<std::string> removed_jobs;  // last, with the records that stand here
};

struct FamilyStats {
  uint64_t count = 0;
  uint64_t bytes = 0;  // of values
  void add(uint64_t value_bytes) {
    count += 1;
    bytes += value_bytes;
  }
  // Stays at 0 where more is removed than was counted, as after damage.
  void remove(uint64_t value_bytes) {
    count -= count > 0 ? 1 : 0;
    bytes -= bytes > value_bytes ? value_bytes : bytes;
  }
};

struct StoreStats {
  FamilyStats plans, kernels, measurements, negatives, jobs;
  // Of all tenants' usage, as far as it has been written: a farm that runs knows more.
  uint64_t hits = 0;
  uint64_t saved_ms = 0;
  uint64_t misses = 0;  // lookups that found nothing to serve, over all processes so far
  uint64_t disk_bytes = 0;
  uint64_t damaged_files = 0;  // set aside in the folder "quarantine", where the latest are kept
};
// One of these by the name that tools know.
struct StatsField {
  const char* name;
  std::variant<FamilyStats, uint64_t> value;
};
// All of them, for whoever prints them.
std::vector<StatsField> fields(const StoreStats& stats);

struct CollectReport {
  uint64_t plans_removed = 0;
  uint64_t blobs_removed = 0;
  uint64_t bytes_removed = 0;
  uint64_t bytes_kept = 0;
  friend bool operator==(const CollectReport&, const CollectReport&) = default;
};

// How the disk treats the store.
struct StoreHealth {
  std::string trouble;         // why the last write failed; empty when it did not
  uint64_t failed_writes = 0;  // since the store was opened
  uint64_t damaged_files = 0;  // as in StoreStats
};

enum class Lookup : uint8_t {
  kServe,    // for someone who asked for the plan: counted as a hit or a miss, and as a use
  kInspect,  // to look at it
};

// All functions are thread-safe. One process writes to a state directory at a time; read-only
// stores may be open beside it. Byte strings are opaque here: callers encode and sign them.
class Store {
 public:
  // Opens, or creates, the store below `directory`, in a few milliseconds. One of an earlier format
  // is rewritten first, plan by plan, and takes up where it was when that is cut off. kUnavailable:
  // another process writes to it, the disk is full, or a read-only open finds none; kUnsupported:
  // written by another version; kInvalidInput: the directory cannot be used. Damaged files are set
  // aside, with a line in the log, and the rest is served; to a read-only open they are kCorrupt.
  static common::Result<std::unique_ptr<Store>> open(const std::string& directory,
                                                     const StoreOptions& options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // --- Blobs, addressed by the digest of their bytes ------------------------------------------
  // Keeps the bytes (at most 1 GiB) and returns digest_of(bytes). A damaged copy is replaced.
  // A blob that no plan needs is safe from collection for ten minutes.
  common::Result<common::Digest> put_blob(std::string_view bytes);
  // Empty when absent. kCorrupt when the bytes no longer have their digest; they are removed then.
  common::Result<std::optional<std::string>> get_blob(const common::Digest& digest);
  // Whether it is there; restarts its ten minutes. Does not verify the bytes.
  common::Result<bool> has_blob(const common::Digest& digest);

  // --- Plans ------------------------------------------------------------------------------------
  // Keeps the plan under its key in place of an earlier one. kInvalidInput, naming the
  // blob, unless all needed blobs are there and intact; kVerification when it was revoked.
  common::Status put_plan(const NewPlan& plan);
  // The same if no usable plan is there, or only a slower one; best_ns must be positive. Returns
  // whether it was kept: of equal or repeated puts exactly one is.
  common::Result<bool> put_plan_if_better(const NewPlan& plan);
  // The same for plans under different keys: all that are better, or after an error none.
  common::Status put_plans_if_better(std::span<const NewPlan> plans);
  // Empty unless the plan is there with all of its blobs; a plan that lost one is removed. Blobs
  // are checked once for each open store, for accidental damage: only get_bundle and get_blob
  // compare digests, so execute what they return.
  common::Result<std::optional<StoredPlan>> get_plan(const common::Digest& key,
                                                     Lookup lookup = Lookup::kServe);
  // The same with the bytes of the blobs, all verified by this call.
  common::Result<std::optional<PlanBundle>> get_bundle(const common::Digest& key);
  // Keys of the plans of one graph, for all targets.
  common::Result<std::vector<common::Digest>> plans_of_graph(const common::Digest& graph_hash);
  // Keys of the plans with this id or name, in order.
  common::Result<std::vector<common::Digest>> plans_named(const common::Digest& name);
  // The plan with this id, to look at it. Empty when there is none.
  common::Result<std::optional<StoredPlan>> plan_of_id(const common::Digest& plan_id);
  // All plans, in the order of their keys, some at a time: the visitor may call the store. A plan
  // that is there throughout is visited once, one that comes or goes meanwhile at most once. An
  // error of the visitor ends it.
  common::Status for_each_plan(const std::function<common::Status(const PlanListing&)>& visit);
  // The same up to `count` of them, of those behind a key.
  common::Result<std::vector<PlanListing>> plans_after(const std::optional<common::Digest>& key,
                                                       size_t count);
  // The latest plans first: `count` of them behind the first `skip`, from the beginning where
  // `from` is empty, else from a page's `next`. kInvalidInput when it is no page's.
  common::Result<PlanPage> newest_plans(const std::string& from, size_t count, size_t skip = 0);
  // Of at most `count` plans with an id, a name or a graph that begins with these hexadecimal
  // digits, in the order of their keys.
  common::Result<std::vector<PlanListing>> plans_beginning(std::string_view digits, size_t count);
  // All of them at once, for stores that are known to have few.
  common::Result<std::vector<PlanListing>> list_plans();
  // Returns whether there was one. Its blobs stay until the next collection.
  common::Result<bool> remove_plan(const common::Digest& key);
  // Removes the plans with this id and refuses them from now on. Returns how many were removed.
  // `owner`: whose plan it was, for last_revocation(); empty: anybody's.
  common::Result<uint64_t> revoke(const common::Digest& plan_id, std::string_view reason,
                                  std::string_view owner = {});
  // The reason when the plan id was revoked.
  common::Result<std::optional<std::string>> revocation(const common::Digest& plan_id);
  // The ids of all revoked plans, in order.
  common::Result<std::vector<common::Digest>> revocations();
  // The number of the last revocation for this owner or for anybody; 0: there was none. Each has a
  // higher number than those before, however the wall clock is set meanwhile.
  common::Result<uint64_t> last_revocation(std::string_view owner = {});
  // Of the last of all.
  common::Result<uint64_t> newest_revocation();

  // --- Measurements: of one kernel, by its fingerprint, on one device -------------------------
  // The first one stays; returns whether this was it.
  common::Result<bool> put_measurement(const common::Digest& fingerprint, std::string_view device,
                                       const StoredMeasurement& measurement);
  common::Result<std::optional<StoredMeasurement>> get_measurement(
      const common::Digest& fingerprint, std::string_view device);
  common::Status for_each_measurement(
      const std::function<void(const common::Digest& fingerprint, std::string_view device,
                               const StoredMeasurement& measurement)>& visit);

  // --- Negatives --------------------------------------------------------------------------------
  common::Status put_negative(const common::Digest& fingerprint, const Negative& negative);
  // Empty when absent or expired.
  common::Result<std::optional<Negative>> get_negative(const common::Digest& fingerprint);
  // Those that never expire.
  common::Status for_each_negative(const std::function<void(const common::Digest& fingerprint,
                                                            const Negative& negative)>& visit);

  // --- Journals of jobs -------------------------------------------------------------------------
  // Adds records to the journal of `job` (1 to 255 bytes), all or none. kInvalidInput when a
  // sequence number is taken. `durable`: returns after they reached the disk, together with
  // everything written before.
  common::Status append_job(std::string_view job, std::span<const JobRecord> records, bool durable);
  // In the order of their sequence numbers; empty when the job is unknown.
  common::Result<std::vector<JobRecord>> read_job(std::string_view job);
  // Jobs that have records.
  common::Result<std::vector<std::string>> open_jobs();
  // Removes the records below a sequence number, by default all of them.
  common::Status remove_job(std::string_view job,
                            uint64_t below = std::numeric_limits<uint64_t>::max());
  // Brings everything written so far to the disk.
  common::Status sync();
  // Writes all changes, in their order, or none; they are on the disk when it returns. What holds
  // for append_job, put_measurement, put_named and remove_job holds for their parts here. One call
  // costs one sync however much it writes.
  common::Status commit(std::span<const Changes> group);

  // --- Small named values -----------------------------------------------------------------------
  common::Status put_named(std::string_view name, std::string_view bytes);
  common::Result<std::optional<std::string>> get_named(std::string_view name);
  // Those whose names begin with `prefix`, in their order.
  common::Status for_each_named(
      std::string_view prefix,
      const std::function<void(std::string_view name, std::string_view bytes)>& visit);
  // The same of those behind the name `prefix` + `after`, until the visitor returns false.
  common::Status scan_named(
      std::string_view prefix, std::string_view after,
      const std::function<bool(std::string_view name, std::string_view bytes)>& visit);
  // Of all tenants that have ever used the farm, as far as it has been written.
  common::Result<std::map<std::string, TenantUsage>> tenant_usages();

  // --- Upkeep -----------------------------------------------------------------------------------
  // Why the last write failed; empty when it did not.
  std::string trouble() const;
  // The same and more. Reads a folder.
  StoreHealth health() const;
  // Reads the journals of open jobs; all else is counted as it is put.
  common::Result<StoreStats> stats();
  // Removes blobs that no plan needs, then plans in the order of their last use until plans and
  // kernels take at most `max_bytes`, and gives the space back. Takes memory by collects_at_once.
  common::Result<CollectReport> gc(uint64_t max_bytes);
  // Makes `directory`, which must not exist, a store with all that this one holds now, while both
  // reads and writes go on. See restore_store() (cache/store/backup.h).
  common::Status checkpoint(const std::string& directory);
  // Read-only: catches up with the process that writes. Call it to see later plans.
  common::Status refresh();

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cache
