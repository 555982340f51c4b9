// What an application holds of lfarm: the tiers that plans come from, and the device they run on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "clients/runtime/farm/farm_access.h"
#include "clients/runtime/farm/negatives.h"
#include "clients/runtime/farm/plan_resolver.h"
#include "clients/runtime/model/prepared_store.h"
#include "clients/runtime/model/size_ranges.h"
#include "common/base/result.h"
#include "common/plan/policy.h"
#include "common/runtime/device/device.h"
#include "common/runtime/device/device_allocator.h"
#include "common/runtime/executor/arena_pool.h"

namespace clients {

struct SessionOptions {
  // access.endpoint empty: the farm that runs on the state directory, if one does.
  FarmAccess access;
  std::string device = "auto";  // see common::open_device
  common::DeviceAllocator allocator;
  int threads = 0;  // of the host, for one call; 0: those of the machine
  common::PlanPolicy policy;
  uint64_t cache_bytes = DiskCache::kBytesMaxDefault;
  // Of a search, where the farm has no plan yet. 0: the farm's own.
  uint64_t budget_candidates = 0;
  uint64_t budget_ms = 0;
  // The parts of a model's sizes that have plans of their own; none: one plan for all sizes.
  std::vector<SizeRanges> sizes;
  // Between questions to the farm for what it has revoked, while plans of its are here; 0: none.
  uint64_t revocations_ms = 30'000;
};

class LiveLink;

// A plan that was asked for, and that comes or does not, may become a better one, and may be
// withdrawn: whoever uses it looks before each use whether changes() has grown. Thread-safe.
class PlanRequest {
 public:
  // The newest; null while there is none.
  SharedPlan plan() const;
  // Null when there was none in time, or something has gone wrong so far.
  SharedPlan wait(std::chrono::milliseconds time) const;
  // Why there is no plan yet: success while nothing has gone wrong. Farms that are away are asked
  // again, so that a plan may come after an error.
  common::Status status() const;

  // How often plan() has become another one; to be looked at before plan().
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // Whether the farm has revoked a plan that plan() was: it must not be used any more.
  bool is_withdrawn(const common::Digest& plan) const;

 private:
  friend class Session;
  friend class LiveLink;
  void offer(SharedPlan plan);
  void fail(common::Status status, bool is_over);
  // Takes back what the list holds. Returns plan() if it went with it.
  SharedPlan withdraw(const common::RevocationList& revoked);
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  SharedPlan plan_;
  common::Status status_;
  bool is_over_ = false;               // nobody works on it any more
  std::vector<common::Digest> given_;  // that plan() was
  std::set<common::Digest> withdrawn_;
  std::atomic<uint64_t> changes_{0};
  std::once_flag looked_;  // on the disk, by the first who asked; others wait for it
  std::thread fetcher_;
  std::atomic<bool> is_fetching_{false};
  // To ask with.
  common::PlanKey key_;
  std::optional<common::Graph> graph_;  // empty where only its hash is known
  std::string name_;                    // of who asked first
};

// Thread-safe. Plans come from memory, then disk, then the farm (PlanResolver); of several threads
// and processes that ask for one plan, one asks the farm to search. A tier that fails is passed
// over. No lock that callers share is held while a file is read. One
// connection stays open, on which the farm tells of better plans as its searches find them: they
// replace those in memory and on the disk. What the farm revokes leaves both within
// SessionOptions::revocations_ms, and is asked for anew.
class Session {
 public:
  // Opens the device and nothing else: whether a farm is there shows when it is asked. Closing
  // waits for no search; those that nobody else waits for end (keep_searches).
  static common::Result<std::shared_ptr<Session>> open(SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Whether the farm's searches for this session's plans go on when it closes.
  void keep_searches(bool keep) { keeps_searches_ = keep; }
  common::Device& device() { return *device_; }
  // What the session's instances share for values between kernels.
  const std::shared_ptr<common::ArenaPool>& arenas() const { return arenas_; }
  // Where they find what plans compute of weights alone.
  const PreparedStore& prepared() const { return prepared_; }
  // Of a graph's plan on this session's device.
  common::PlanKey key_of(const common::Digest& graph_hash) const;

  // Never waits for a farm: what memory and disk do not have is fetched by a thread of the
  // session's own, with a search at the farm where it must be. One request a plan.
  // `name`: what the farm calls the job; may be empty.
  std::shared_ptr<const PlanRequest> request(const common::Graph& graph,
                                             const std::string& name = "");
  // The same for a graph of which only its hash is known: a farm that has no plan is not asked to
  // search.
  std::shared_ptr<const PlanRequest> request(const common::Digest& graph_hash);

  const std::vector<SizeRanges>& sizes() const { return options_.sizes; }

 private:
  Session(SessionOptions options, std::unique_ptr<common::Device> device, int threads);
  friend class LiveLink;
  SharedPlan find_on_disk(const common::PlanKey& key);
  PlanQuery query_of(const PlanRequest& request) const;
  std::shared_ptr<const PlanRequest> request(const common::PlanKey& key, const common::Graph* graph,
                                             const std::string& name);
  void look_on_disk(PlanRequest* request);
  void start_fetching(PlanRequest* request);
  void fetch(PlanRequest* request);
  common::Status fetch_once(PlanRequest* request);
  common::Status ask_farm(PlanRequest* request);
  std::vector<std::shared_ptr<PlanRequest>> requests() const;
  void withdraw(const PlanTrust& trust);
  // False when the session closes meanwhile.
  bool pause(std::chrono::milliseconds time);
  common::Status check_open() const;

  SessionOptions options_;
  std::unique_ptr<common::Device> device_;
  std::shared_ptr<common::ArenaPool> arenas_ = std::make_shared<common::ArenaPool>();
  const PreparedStore prepared_;
  PlanResolver resolver_;
  Negatives negatives_;
  mutable std::mutex mutex_;
  std::condition_variable closing_;
  bool is_closing_ = false;
  std::atomic<bool> keeps_searches_{false};
  // By the plan key's digest. Those that are there stay.
  std::map<common::Digest, std::shared_ptr<PlanRequest>> requests_;
  std::unique_ptr<LiveLink> link_;  // once there is a request
};

}  // namespace clients
