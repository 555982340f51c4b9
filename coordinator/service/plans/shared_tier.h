// The loop's side of the store that farms share: asks it in threads of its own, and lets nobody
// wait for an answer longer than the options say.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/remote/remote_store.h"
#include "cache/store/store.h"
#include "common/base/clock.h"
#include "common/base/signing.h"
#include "coordinator/service/loop/background.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/plans/peer_plans.h"
#include "coordinator/service/plans/plan_repository.h"
#include "coordinator/service/plans/replica_notes.h"
#include "coordinator/service/plans/tenants.h"

namespace coordinator::service {

// What the options say, checked.
struct SharedTierSetup {
  cache::RemoteOptions remote;
  SharedTierOptions options;
};
// kInvalidInput when the address or the password's file is wrong.
common::Result<SharedTierSetup> check_shared_tier(const SharedTierOptions& options);

struct SharedTierFacts {
  std::string address;  // empty: farms share nothing with this one
  std::string state;    // "ok", or what is wrong
  cache::RemoteHealth health;
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

  SharedTier(const SharedTierSetup& setup, const common::SigningKey& key, cache::Store& store,
             PlanRepository& plans, Tenants& tenants, const common::Clock& clock);
  ~SharedTier();
  SharedTier(const SharedTier&) = delete;
  SharedTier& operator=(const SharedTier&) = delete;

  // Takes up what replicas have left, and tells what was revoked while nobody was told. To be
  // called once, before anything else.
  common::Status begin();
  bool enabled() const { return link_ != nullptr; }

  // Calls `done`, once, when the plan has come or is known not to, or the time is up; maybe before
  // this returns. Requests for one plan share one question.
  void fetch(const std::string& tenant, const common::Digest& plan_key, const std::string& machine,
             Done done);
  // The same for the right to search; the store's silence is a yes.
  void claim(const std::string& tenant, const common::Digest& plan_key, const std::string& machine,
             Claimed done);
  // Gives the right back, after what was offered before has gone.
  void release(const common::Digest& place);
  // Shares a plan of this farm's store, in the background.
  void offer(const std::string& tenant, const common::Digest& plan_key, const std::string& machine);
  // Tells the other farms, in the background.
  void revoked(const std::vector<common::Digest>& ids);
  // Has the next replica's notes written on the next turn: something changed that was acknowledged.
  void note_soon() { note_ns_ = 0; }

  // Readable when deliver() has something to do; -1: never.
  int answers_fd() const;
  int pushes_fd() const;
  void deliver();
  // Time-outs, claims to renew, looks for revocations. To be called on every turn of the loop.
  void turn(int64_t now_ns);
  // Whether somebody waits, so that turn() must be called soon.
  bool waited_for() const { return !questions_.empty(); }
  // Lets what was offered go out, and gives all claims back, for a short while.
  void wind_up();

  SharedTierFacts facts() const;
  // Since what other farms revoked was last read, the shared store answering, or since begin();
  // empty without one.
  std::optional<double> revocations_age_s(int64_t now_ns) const;

 private:
  // A question under way, and who waits for it.
  struct Question {
    std::vector<Claimed> waiting;
    int64_t deadline_ns = 0;
  };
  // The other side and the threads that talk to it.
  struct Link {
    Link(const SharedTierSetup& setup, const common::SigningKey& key, cache::Store& store,
         PlanRepository& plans);
    cache::RemoteStore remote;
    PeerPlans peers;
    ReplicaNotes notes;
    Background asking;
    Background pushing;
  };
  // What this farm and the others tell each other of them.
  struct Revocations {
    bool is_looking = false;
    bool has_unpublished = false;  // that the other farms do not know
    int64_t look_ns = 0;           // when to look next
    int64_t read_ns = 0;           // when what others revoked was read last
  };
  // `late`: what becomes of an answer that nobody waits for any more.
  void ask(const common::Digest& what, Claimed done, std::function<Claim()> question, Claimed late);
  bool answer(const common::Digest& what, Claim claim);
  void push(std::function<void()> work);
  void publish(std::vector<common::Digest> ids);
  void look_for_revocations();
  void apply(const PeerPlans::News& news);
  void leave_notes();
  void adopt(const ReplicaNotes::Usages& usages);

  static constexpr size_t kPushesMax = 1'024;
  static constexpr size_t kQuestionsMax = 4'096;
  const SharedTierOptions options_;
  cache::Store& store_;
  PlanRepository& plans_;
  Tenants& tenants_;
  const common::Clock& clock_;
  std::unordered_map<common::Digest, Question> questions_;
  size_t asked_ = 0;   // questions that are with the threads, whoever still waits for them
  size_t pushes_ = 0;  // that have not ended
  Revocations revocations_;
  bool noting_ = false;
  int64_t renew_ns_ = 0, note_ns_ = 0;
  uint64_t late_ = 0, dropped_ = 0;
  std::unique_ptr<Link> link_;  // last, so that its threads end first
};

}  // namespace coordinator::service
