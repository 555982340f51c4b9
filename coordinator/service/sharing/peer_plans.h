// What farms tell each other through a store that they share, and what of it this farm believes:
// nothing that a farm it trusts has not signed.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/remote/remote_store.h"
#include "cache/store/store.h"
#include "common/base/signing.h"
#include "common/shard/shard.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/plans/plan_repository.h"
#include "coordinator/service/sharing/plan_records.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

struct PeerTrust {
  SharedSigner own;
  std::vector<common::PublicKey> peers;  // without the own key
};

// Whether this farm is to search.
enum class Claim : uint8_t {
  kOurs,    // it is: nobody else does, or nobody knows
  kTheirs,  // a farm that is trusted searches already
  kFound,   // nobody: the plan has come
};

struct PeerCounts {
  uint64_t hits = 0, misses = 0;  // of plans that were looked for
  uint64_t offered = 0;           // plans put into the shared store
  uint64_t refused = 0;           // what was found there and is not to be believed
  uint64_t revoked = 0;           // plans withdrawn because another farm withdrew them
};

// Whether the shared store did not answer, so that the same call may succeed later.
bool is_away(const common::Status& status);

// Thread-safe; calls wait for the network, so none is for the thread that serves.
//
// A plan keeps its content from farm to farm, whoever signs it: the digest of its grant. Each farm
// signs what it takes, for its clients, so that ids differ; revocations name id and content.
class PeerPlans {
 public:
  PeerPlans(cache::RemoteStore& remote, PlanRecords& records, cache::Store& store,
            const PlanRepository& repository, PeerTrust trust, int64_t claim_ms);

  // Brings the plan into this farm's store, signed for its clients, where shards are held with its
  // recipe. False when the shared store has none, or none that can be believed or used.
  bool fetch(const PlanPlace& place);
  // The recipe among what this store's plan needs beside its objects; empty: there is none.
  common::Result<std::optional<common::Digest>> recipe_here(
      const cache::StoredPlan& stored, std::span<const common::Digest> objects) const;
  // Shares the tenant's plan, unless an equal or faster one is there. The same plan without its
  // recipe gets that.
  common::Status offer(const PlanPlace& place);
  // fetch(), then offer(): the faster one of this store's plan and of the shared store's comes into
  // both.
  common::Status compare(const PlanPlace& place);
  // Reads the next kPlansCompared plans of this coordinator's store after the place `last`, in the
  // order of places, and compares those of `shards`. Plans that are alike on both sides are found
  // by one exchange a shard. Returns the place of the last plan that was read, empty at the end.
  // After kUnavailable and kTimedOut some were compared, and the call may be repeated.
  using Shards = std::bitset<common::kShardCount>;
  common::Result<std::optional<common::Digest>> compare_some(
      const Shards& shards, const std::optional<common::Digest>& last);
  static constexpr size_t kPlansCompared = 256;

  // Looks for the plan, else asks for the right to search for it.
  Claim claim(const PlanPlace& place);
  // Of every claim that this farm has.
  void renew_claims();
  void release(const common::Digest& place);
  // Gives all claims back, and those too that are still on their way: this farm stops.
  void leave();

  // Tells other farms that these plans must not be loaded any more, together with all that this
  // farm withdrew before. `plans` are signed plans, as they are kept.
  common::Status publish_revocations(const std::vector<common::Digest>& ids,
                                     const std::vector<std::string>& plans);
  // Ids of plans of this farm that other farms have withdrawn, by their lists that are new since
  // the last note_applied(). A list that cannot be read delays no other's.
  struct News {
    std::vector<common::Digest> plans;
    std::map<common::Digest, common::Digest> lists;  // farm's key -> list
    bool is_whole = true;                            // every list that there is was read
    bool own_is_short = false;  // the list in this farm's name lacks what it has withdrawn
  };
  News learn_revocations();
  // The plans of these news are served no more: their lists need not be looked at again.
  void note_applied(const News& news);
  // What was learned and published in earlier lives. To be called once, before anything else.
  common::Status load();

  PeerCounts counts() const;

 private:
  struct Opened {
    common::Digest content;
    common::Plan plan;
  };
  common::Result<Opened> open(const std::string& bytes, const std::string& tenant,
                              const common::Digest& plan_key, const std::string& machine) const;
  common::Status check_signed(const common::Sealed& outer) const;
  common::Result<bool> bring(const PlanPlace& place);
  common::Result<std::string> recipe_there(const PlanPlace& place);
  common::Result<bool> lacks_recipe_there(const PlanPlace& place, const cache::StoredPlan& stored,
                                          const std::string& there,
                                          std::span<const common::Digest> objects);
  struct KeptPlace {
    PlanPlace place;
    std::string bytes;                  // of the signed plan
    std::vector<common::Digest> needs;  // its objects and its recipe
  };
  common::Result<std::optional<KeptPlace>> place_of_kept(const cache::PlanListing& listing,
                                                         const Shards& shards);
  common::Result<std::vector<PlanPlace>> different(std::vector<KeptPlace> some);
  // One farm's list, as it lies in the shared store; empty: there is none.
  void read_list(const common::PublicKey& peer, const std::optional<std::string>& bytes, News& news,
                 std::set<common::Digest>& named);
  common::Status remove_revoked(std::span<const common::Digest> places);
  bool is_trusted(const common::PublicKey& signer) const;
  bool is_revoked(const common::Digest& id) const;
  common::Status keep_ids(std::string_view name, const std::set<common::Digest>& ids);
  common::Result<std::set<common::Digest>> kept_ids(std::string_view name);
  common::Result<std::set<common::Digest>> published_by_replicas();
  common::Result<std::string> claim_text(const common::Digest& place) const;
  enum class Holder : uint8_t { kNobody, kThisFarm, kPeer };
  Holder holder_of(const std::string& claim, const common::Digest& place) const;
  void hold(const common::Digest& place, std::string claim);
  void refuse(const std::string& what);

  cache::RemoteStore& remote_;
  PlanRecords& records_;
  cache::Store& store_;
  const PlanRepository& repository_;
  const PeerTrust trust_;
  const int64_t claim_ms_;
  // Of two offers of one place the later one sees what the earlier one has written.
  std::array<std::mutex, common::kShardCount> offering_;
  mutable std::mutex mutex_;
  std::unordered_map<common::Digest, std::string> claims_;  // by place, as they stand in the store
  std::set<common::Digest> revoked_;                        // by other farms: ids and contents
  std::set<common::Digest> withdrawn_;                      // by this farm: the same
  std::unordered_map<common::Digest, common::Digest> lists_;  // farm's key -> list last seen
  bool leaving_ = false;
  PeerCounts counts_;
};

}  // namespace coordinator::service
