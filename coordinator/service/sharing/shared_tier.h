// The loop's side of the store that farms share: asks it in threads of its own, and lets nobody
// wait for an answer longer than the options say.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/remote/remote_store.h"
#include "cache/s3/s3_objects.h"
#include "cache/store/store.h"
#include "common/base/clock.h"
#include "coordinator/service/loop/background.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/plans/plan_repository.h"
#include "coordinator/service/plans/tenants.h"
#include "coordinator/service/shards/sharding.h"
#include "coordinator/service/sharing/peer_plans.h"
#include "coordinator/service/sharing/plan_records.h"
#include "coordinator/service/sharing/replica_notes.h"
#include "coordinator/service/sharing/shard_preparation.h"
#include "coordinator/service/sharing/shared_measurements.h"
#include "coordinator/service/sharing/shared_questions.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

// What the options say, checked.
struct SharedTierSetup {
  cache::RemoteOptions remote;
  std::optional<cache::S3Options> objects;  // empty: they lie in the remote store
  SharedTierOptions options;
};
// kInvalidInput when an address, the password's file or an object store's keys are wrong.
common::Result<SharedTierSetup> check_shared_tier(const SharedTierOptions& options);

struct SharedTierFacts {
  std::string address;  // empty: farms share nothing with this one
  std::string state;    // "ok", or what is wrong
  cache::RemoteHealth health;
  std::string objects_address;  // of the object store; empty: there is none
  std::string objects_state;    // "ok", or what is wrong
  cache::RemoteHealth objects_health;
  PeerCounts counts;
  uint64_t late = 0;     // requests that went on without an answer
  uint64_t dropped = 0;  // plans that were not offered, because too many waited
};

// Not thread-safe: all of it is called by the thread that serves. Without an address every call
// answers at once, as a store that holds nothing.
class SharedTier {
 public:
  using Done = std::function<void(bool found)>;
  using Claimed = std::function<void(Claim)>;

  // `sharding`: null where one coordinator serves everything.
  SharedTier(const SharedTierSetup& setup, const SharedSigner& signer, cache::Store& store,
             PlanRepository& plans, Tenants& tenants, const common::Clock& clock,
             Sharding* sharding = nullptr);
  ~SharedTier();
  SharedTier(const SharedTier&) = delete;
  SharedTier& operator=(const SharedTier&) = delete;

  // Takes up what replicas have left, and tells what was revoked while nobody was told. To be
  // called once, before anything else.
  common::Status begin();
  bool enabled() const { return link_ != nullptr; }

  // Calls `done`, once, when the plan has come or is known not to, or the time is up; maybe before
  // this returns. Requests for one plan share one question.
  void fetch(const PlanPlace& place, Done done);
  // The same for the right to search; the store's silence is a yes.
  void claim(const PlanPlace& place, Claimed done);
  // Gives the right back, after what was offered before has gone.
  void release(const common::Digest& place);
  // Shares a plan of this farm's store, in the background.
  void offer(const PlanPlace& place);
  // The same where shards are served, and calls `done` once the engine has the plan, or never takes
  // it, as one that is too large; not where another coordinator takes the shard first.
  void deliver_plan(const PlanPlace& place, std::function<void()> done);
  // Tells the other farms, in the background.
  void revoked(const std::vector<common::Digest>& ids);
  // Has the next replica's notes written on the next turn: something changed that was acknowledged.
  void note_soon() { note_ns_ = 0; }

  // Readable when deliver() has something to do; -1: never.
  int answers_fd() const;
  int pushes_fd() const;
  int shards_fd() const;
  void deliver();
  // Time-outs, claims to renew, looks for revocations. To be called on every turn of the loop.
  void turn(int64_t now_ns);
  // Whether somebody waits, so that turn() must be called soon.
  bool waited_for() const { return link_ && link_->questions.waited_for(); }
  // Lets what was offered go out, and gives all claims back, for a short while.
  void wind_up();

  // Whether the engine may have a faster plan for the graph than this coordinator's store, though
  // this one serves its shard: fetch() brings it.
  bool may_be_old(const std::string& tenant, const common::Digest& graph_hash) const;

  // Null where one coordinator serves everything.
  // What the server that holds the shards has been asked; empty where one coordinator serves
  // everything.
  cache::RemoteHealth engine_health() const {
    return sharding_ == nullptr ? cache::RemoteHealth() : sharding_->remote.health();
  }
  ShardKeeper* keeper() const { return sharding_ == nullptr ? nullptr : &sharding_->keeper; }
  ShardJournals* journals() const { return sharding_ == nullptr ? nullptr : &sharding_->journals; }
  // The job's journal goes from the engine, behind the plans that were offered before.
  void end_journal(const std::string& job);
  // The same of a journal of the shard with which nobody goes on.
  void remove_journal(uint32_t shard, const ShardJournal& journal);
  // Null where one coordinator serves everything.
  ShardPreparation* preparation() const { return preparation_.get(); }
  // Whether plans that were offered are still on their way.
  bool is_pushing() const { return pushes_ > 0; }

  SharedTierFacts facts() const;
  // Since what other farms revoked was last read, the shared store answering, or since begin();
  // empty without one.
  std::optional<double> revocations_age_s(int64_t now_ns) const;

 private:
  // The other side and the threads that talk to it.
  struct Link {
    Link(const SharedTierSetup& setup, const SharedSigner& signer, cache::Store& store,
         PlanRepository& plans, Sharding* sharding, const common::Clock& clock);
    cache::RemoteStore remote;
    PlanRecords records;
    PeerPlans peers;
    ReplicaNotes notes;
    SharedMeasurements measurements;
    SharedQuestions questions;
    Background pushing{1};
  };
  // What this farm and the others tell each other of them.
  struct Revocations {
    bool is_looking = false;
    bool has_unpublished = false;  // that the other farms do not know
    int64_t look_ns = 0;           // when to look next
    int64_t read_ns = 0;           // when what others revoked was read last
  };
  // See SharedQuestions.
  void ask(const common::Digest& what, Claimed done, std::function<Claim()> question, Claimed late);
  void push(std::function<void()> work);
  void publish(std::vector<common::Digest> ids);
  void look_for_revocations();
  void take_measurements();
  void apply(const PeerPlans::News& news);
  void leave_notes();
  void adopt(const ReplicaNotes::Usages& usages);

  static constexpr size_t kPushesMax = 1'024;
  const SharedTierOptions options_;
  cache::Store& store_;
  PlanRepository& plans_;
  Tenants& tenants_;
  const common::Clock& clock_;
  Sharding* const sharding_;
  size_t pushes_ = 0;  // that have not ended
  Revocations revocations_;
  bool noting_ = false;
  int64_t renew_ns_ = 0, note_ns_ = 0;
  uint64_t dropped_ = 0;
  std::unique_ptr<Link> link_;                     // last but one, so that its threads end first
  std::unique_ptr<ShardPreparation> preparation_;  // null where one coordinator serves everything
};

}  // namespace coordinator::service
