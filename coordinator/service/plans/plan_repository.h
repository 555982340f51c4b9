// Plans as clients get them: found in the store, or signed and put there.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "common/base/signing.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"
#include "coordinator/service/plans/effort.h"
#include "coordinator/service/plans/recipe.h"
#include "coordinator/service/plans/revocation_log.h"
#include "coordinator/service/plans/tenants.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

struct OwnedPlan;

struct ReadyPlan {
  common::Digest key;
  std::string machine;        // class that it was chosen on
  common::Digest plan;        // of `bytes`
  common::SharedBytes bytes;  // an encoded Sealed
  int64_t best_ns = 0;
  int64_t baseline_ns = 0;
  int64_t candidates = 0;
  Effort effort;               // of the search that found it
  common::Digest revocations;  // blob with the list that is in force
  common::Standing standing = common::Standing::kFinal;
  std::vector<common::Digest> objects;

  // The answer to one request, without what the request itself decides.
  common::PlanReady message(uint64_t request_id) const;
};

// A plan as another farm signed it: its id there, and what it says.
struct ForeignPlan {
  common::Digest id;
  common::PublicKey signer{};
  common::Plan plan;
};

// A winner of another compiler, with what it takes to make it anew.
struct EarlierPlan {
  common::Digest id;
  common::Plan plan;
  common::PlanKey key;  // of today
  std::string machine;  // class that it is to be made anew for
  Recipe recipe;
  std::string recipe_blob;
  int64_t search_ms = 0;
};

// How a plan is kept.
struct KeptPlan {
  int64_t search_ms = 0;  // what finding it took
  std::string recipe;     // encoded; empty: it cannot be made anew
  bool replaces = false;  // the plan that is there, even if that is as fast
  bool is_copy = false;   // of one that lies elsewhere, too: not waited for until it is on the disk
  // The plan that this one was measured against and is better than, or is: replaced, too.
  common::Digest compared = {};
};

// A plan and its objects in one piece of memory, as PlanReady::parts says.
struct WholePlan {
  common::SharedBytes bytes;
  std::vector<common::BlobPart> parts;
};

// The store's names of records that say whom the plans under a key are published to begin with
// this.
inline constexpr std::string_view kPublishedPrefix = "published/";
// The record that says what both say; of an owner in both, what `newer` says.
std::string merge_publications(const std::string& newer, const std::string& older);

// Each tenant has plans of its own. Not thread-safe but for keep().
class PlanRepository {
 public:
  // `earlier`: keys that the farm signed with before; it vouches for what they signed.
  PlanRepository(cache::Store& store, SharedSigner signer, Tenants& tenants,
                 std::vector<common::PublicKey> earlier = {})
      : store_(store),
        signer_(std::move(signer)),
        earlier_(std::move(earlier)),
        tenants_(tenants),
        revocations_log_(store_, *signer_) {}

  // The tenant's plan; where it has none, a copy of one that another tenant shares with it or has
  // published, which says neither whose it was nor for whom it was made. Empty when there is none,
  // or it lost one of its objects. One that was signed with a key that the farm had before is
  // signed anew, if that key is one of `earlier`, else removed: no client takes it.
  common::Result<std::optional<ReadyPlan>> find(const std::string& tenant,
                                                const common::Digest& key,
                                                const std::string& machine,
                                                cache::Lookup lookup = cache::Lookup::kServe);
  // The same of another machine class than `machine`, of those that there are the one that is most
  // like it: a provisional plan. Without a wish any class is right, and the plan final.
  common::Result<std::optional<ReadyPlan>> find_neighbour(const std::string& tenant,
                                                          const common::Digest& key,
                                                          const std::string& machine);
  // The tenant's plan for the graph and any target of the family, a CPU's before others; of all if
  // it is "".
  common::Result<std::optional<ReadyPlan>> find_any_target(const std::string& tenant,
                                                           const common::Digest& graph_hash,
                                                           const std::string& policy,
                                                           const std::string& epoch,
                                                           const std::string& family);
  // The tenant's fastest plan for the key's graph, target and policy on the machine class, or on
  // one that is not known, that another compiler epoch made and that can be made anew.
  common::Result<std::optional<EarlierPlan>> find_earlier(const std::string& tenant,
                                                          const common::PlanKey& key,
                                                          const std::string& machine);
  // The plan at a place with its recipe and whose it is, to be made anew where and for what it was
  // made. Empty where there is none, or none that can be made anew.
  common::Result<std::optional<std::pair<std::string, EarlierPlan>>> at_place(
      const common::Digest& place);
  // What it takes to search for the tenant's plan under the key again: the recipe of any class's.
  common::Result<std::optional<EarlierPlan>> find_recipe(const std::string& tenant,
                                                         const common::Digest& key);
  using StaleCheck = std::function<bool(const common::Plan&)>;
  // Places and uses of this farm's plans of the epoch for which `is_stale`, most used first: at
  // most `count`. Reads every plan. Thread-safe.
  struct StalePlan {
    common::Digest place;
    uint64_t uses = 0;
    int64_t last_used_wall_ns = 0;
  };
  common::Result<std::vector<StalePlan>> stale_plans(const std::string& epoch,
                                                     const StaleCheck& is_stale,
                                                     size_t count) const;
  // The plans of all epochs but `epoch` for which there is none of that epoch, and those of its own
  // for which `is_stale`; of one tenant, or of all if it is "". With their tenants; as many as one
  // message can name. Reads every plan. Thread-safe.
  common::Result<std::vector<std::pair<std::string, EarlierPlan>>> all_earlier(
      const std::string& tenant, const std::string& epoch, const StaleCheck& is_stale) const;
  // The tenant's plan under the key with what it takes to make it anew; empty where there is none,
  // or nobody knows how it was made.
  common::Result<std::optional<EarlierPlan>> find_made(const std::string& tenant,
                                                       const common::PlanKey& key,
                                                       const std::string& machine);
  // Lets those tenants, or all if there are none, have the owner's plan under the key; or nobody
  // new. Returns the plan's id; kInvalidInput when there is no such plan.
  common::Result<common::Digest> publish(const std::string& owner, const common::Digest& key,
                                         const std::vector<std::string>& tenants, bool withdraw);
  // Other tenants whose plans under the key this one may have.
  common::Result<std::vector<std::string>> owners_for(const std::string& tenant,
                                                      const common::Digest& key);
  // Empty when an object is lost, or they are more than common::kPulledObjectsBytesMax bytes.
  common::Result<std::optional<WholePlan>> with_objects(const ReadyPlan& plan);
  // Signs and keeps a tenant's plan whose objects are in the store, durably. The plan that is there
  // stays if it is as fast, unless it is one of a search that had not ended and `plan` is not.
  // Returns the id that the plan has got by being signed. Thread-safe, because it waits for the
  // disk.
  common::Result<common::Digest> keep(const std::string& tenant, const common::Plan& plan,
                                      const KeptPlan& how) const;
  // The same for plans that another farm signed and found, all or none: this farm vouches for them
  // from now on. Returns the ids of the plans that tenants get under their keys. Thread-safe.
  common::Result<std::vector<common::Digest>> keep_imported(const std::string& tenant,
                                                            std::vector<ForeignPlan> plans,
                                                            const std::string& farm) const;
  // Withdraws imported plans that the farm of that key has revoked since. Returns how many.
  common::Result<size_t> revoke_imported(const common::PublicKey& signer,
                                         const common::RevocationList& list);
  // That clients trust.
  common::PublicKey public_key() const { return signer_->authority(); }
  // Of tenants' keys whose plan may be another one since the last call: the place of the key for no
  // machine class (common::place_of), whatever the plan's class. Thread-safe.
  std::vector<common::Digest> take_changes();

  // Reads which plans were revoked and signs the list. To be called once, before anything else.
  common::Status load_revocations();
  // Signs the list anew when half of its time is over, the signer has another delegation, or nobody
  // signed the last change. To be called on every turn of the loop.
  void tend_revocations(int64_t wall_ns);
  // Withdraws the plan of that id, which need not be here any more, or the plans that tenants have
  // under a plan key of that digest, durably. Returns their ids. kUnsupported when the list is
  // full.
  common::Result<std::vector<common::Digest>> revoke(const common::Digest& id,
                                                     const std::string& reason);
  // Withdraws all plans that were made so, whatever copies there are, in three steps: the rule is
  // noted (kUnsupported when there are too many), the store is looked through for the ids of its
  // own such plans, which reads every plan and is thread-safe, and these are withdrawn. A rule ends
  // now at the latest: of what is made from now on nothing is known.
  common::Status add_rule(const common::RevocationRule& rule);
  common::Result<std::vector<common::Digest>> plans_made(const common::RevocationRule& rule) const;
  common::Result<std::vector<common::Digest>> revoke_made(std::vector<common::Digest> plans,
                                                          const std::string& reason);
  // The same of plans by their own ids, all at once.
  common::Status revoke_all(const std::vector<common::Digest>& plans, const std::string& reason);
  // The signed list and its digest; empty and zero while nothing is revoked.
  const common::SharedBytes& revocations() const { return revocations_log_.signed_list(); }
  const common::Digest& revocations_digest() const { return revocations_log_.digest(); }
  // Whether the tenant may have this blob of the store. kVerification when it is a revoked plan,
  // kInvalidInput when it is another tenant's; whatever is no plan is anyone's who knows its
  // digest.
  common::Status check_access(const std::string& tenant, const common::Digest& digest,
                              common::ByteView blob) const;

 private:
  struct Origin {
    int64_t baseline_ns = 0;
    int64_t candidates = 0;
    common::Standing standing = common::Standing::kFinal;
    Effort effort;
    std::optional<common::Delegation> delegation;
  };
  bool is_signed_well(const common::PublicKey& signer,
                      const std::optional<common::Delegation>& delegation) const;
  void note_change(const common::Digest& place) const;
  common::Result<cache::NewPlan> sealed(const std::string& tenant, const common::Plan& plan,
                                        const KeptPlan& how) const;
  common::Result<std::optional<EarlierPlan>> earlier(const common::Digest& place,
                                                     const std::string& tenant,
                                                     std::string* owner) const;
  common::Result<bool> copy_shared(const std::string& tenant, const common::Digest& key,
                                   const std::string& machine);
  common::Result<std::vector<std::string>> classes_of(const std::string& tenant,
                                                      const common::Digest& key) const;
  common::Status note_class(const std::string& tenant, const common::Digest& key,
                            const std::string& machine) const;
  common::Result<std::optional<ReadyPlan>> ready(const common::Digest& key,
                                                 cache::StoredPlan stored);
  common::Result<std::vector<common::Digest>> plans_under(const common::Digest& key);
  // Signs a plan of an earlier key, or of one whose delegation has ended, anew and puts it in its
  // own place. Empty when the signature is none of such a key.
  common::Result<std::optional<cache::StoredPlan>> signed_anew(const cache::StoredPlan& stored,
                                                               const OwnedPlan& owned);
  common::Result<std::string> owner_of(const common::Digest& plan) const;

  static constexpr size_t kOriginsMax = 4'096;
  static constexpr size_t kWholeBytesMax = size_t{64} << 20;
  cache::Store& store_;
  const SharedSigner signer_;
  const std::vector<common::PublicKey> earlier_;
  Tenants& tenants_;
  // By plan digest: decoding a plan for two numbers would cost more than finding it.
  std::unordered_map<common::Digest, Origin> origins_;
  // By plan digest: those asked for lately, which were read from the disk and hashed once.
  std::unordered_map<common::Digest, WholePlan> whole_;
  size_t whole_bytes_ = 0;
  mutable std::mutex classes_mutex_;  // held while the record of a key's classes is changed
  RevocationLog revocations_log_;
  mutable std::mutex changes_mutex_;
  mutable std::vector<common::Digest> changes_;
};

}  // namespace coordinator::service
