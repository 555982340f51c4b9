// Plans as clients get them: found in the store, or signed and put there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/store/store.h"
#include "common/base/signing.h"
#include "common/plan/plan.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"

namespace coordinator::service {

struct ReadyPlan {
  common::Digest key;
  common::Digest plan;        // of `bytes`
  common::SharedBytes bytes;  // an encoded SignedPlan
  int64_t best_ns = 0;
  int64_t baseline_ns = 0;
  int64_t candidates = 0;
  common::Digest revocations;  // blob with the list that is in force
  std::vector<common::Digest> objects;

  // The answer to one request, without what the request itself decides.
  common::PlanReady message(uint64_t request_id) const;
};

// A plan and its objects in one piece of memory, as PlanReady::parts says.
struct WholePlan {
  common::SharedBytes bytes;
  std::vector<common::BlobPart> parts;
};

// Each tenant has plans of its own. Not thread-safe but for keep().
class PlanShelf {
 public:
  PlanShelf(cache::Store& store, const common::SigningKey& key) : store_(store), key_(key) {}

  // The tenant's plan. Empty when there is none, or it lost one of its objects, or was signed with
  // a key that the farm had before, which no client takes: such a plan is removed.
  common::Result<std::optional<ReadyPlan>> find(const std::string& tenant,
                                                const common::Digest& key,
                                                cache::Lookup lookup = cache::Lookup::kServe);
  // The tenant's plan for the graph and any target of the family, a CPU's before others; of all if
  // it is "".
  common::Result<std::optional<ReadyPlan>> find_any_target(const std::string& tenant,
                                                           const common::Digest& graph_hash,
                                                           const std::string& policy,
                                                           const std::string& family);
  // Empty when an object is lost, or they are more than common::kPulledObjectsBytesMax bytes.
  common::Result<std::optional<WholePlan>> with_objects(const ReadyPlan& plan);
  // Signs and keeps a tenant's plan whose objects are in the store, durably; the plan that is there
  // stays if it is as fast. `search_ms`: what finding it took. Thread-safe, because it waits for
  // the disk.
  common::Status keep(const std::string& tenant, const common::Plan& plan, int64_t search_ms) const;
  common::PublicKey public_key() const { return key_.public_key(); }

  // Reads which plans were revoked. To be called once, before anything else.
  common::Status load_revocations();
  // Withdraws the plan of that id, which need not be here any more, or the plans that tenants have
  // under a plan key of that digest, durably. Returns their ids. kUnsupported when the list is
  // full.
  common::Result<std::vector<common::Digest>> revoke(const common::Digest& id,
                                                     const std::string& reason);
  // The signed list and its digest; empty and zero while nothing is revoked.
  const common::SharedBytes& revocations() const { return revocations_; }
  const common::Digest& revocations_digest() const { return revocations_digest_; }
  // Whether the tenant may have this blob of the store. kVerification when it is a revoked plan,
  // kInvalidInput when it is another tenant's; whatever is no plan is anyone's who knows its
  // digest.
  common::Status check_access(const std::string& tenant, const common::Digest& digest,
                              common::ByteView blob) const;

 private:
  struct Origin {
    int64_t baseline_ns = 0;
    int64_t candidates = 0;
  };
  common::Result<std::optional<ReadyPlan>> ready(const common::Digest& key,
                                                 cache::StoredPlan stored);
  common::Result<std::vector<common::Digest>> plans_under(const common::Digest& key);

  static constexpr size_t kOriginsMax = 4'096;
  static constexpr size_t kWholeBytesMax = size_t{64} << 20;
  cache::Store& store_;
  const common::SigningKey key_;
  // By plan digest: decoding a plan for two numbers would cost more than finding it.
  std::unordered_map<common::Digest, Origin> origins_;
  // By plan digest: those asked for lately, which were read from the disk and hashed once.
  std::unordered_map<common::Digest, WholePlan> whole_;
  size_t whole_bytes_ = 0;
  common::SharedBytes revocations_;
  common::Digest revocations_digest_;
};

}  // namespace coordinator::service
