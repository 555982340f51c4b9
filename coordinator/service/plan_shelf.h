// Plans as clients get them: found in the store, or signed and put there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

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

  // The answer to one request, without what the request itself decides.
  common::PlanReady message(uint64_t request_id) const;
};

// Not thread-safe but for keep().
class PlanShelf {
 public:
  PlanShelf(cache::Store& store, const common::SigningKey& key) : store_(store), key_(key) {}

  // Empty when there is none, or it lost one of its objects.
  common::Result<std::optional<ReadyPlan>> find(const common::Digest& key,
                                                cache::Lookup lookup = cache::Lookup::kServe);
  // A plan for the graph and any target of the family, a CPU's before others; of all if it is "".
  common::Result<std::optional<ReadyPlan>> find_any_target(const common::Digest& graph_hash,
                                                           const std::string& policy,
                                                           const std::string& family);
  // Signs and keeps a plan whose objects are in the store, durably; the plan that is there stays if
  // it is as fast. `search_ms`: what finding it took. Thread-safe, because it waits for the disk.
  common::Status keep(const common::Plan& plan, int64_t search_ms) const;
  common::PublicKey public_key() const { return key_.public_key(); }

 private:
  struct Origin {
    int64_t baseline_ns = 0;
    int64_t candidates = 0;
  };
  common::Result<ReadyPlan> ready(cache::StoredPlan stored);

  static constexpr size_t kOriginsMax = 4'096;
  cache::Store& store_;
  const common::SigningKey key_;
  // By plan digest: decoding a plan for two numbers would cost more than finding it.
  std::unordered_map<common::Digest, Origin> origins_;
};

}  // namespace coordinator::service
