// Plans that an administrator brings from another farm: fetched blob by blob from the client,
// checked, and kept all or none.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "common/wire/socket.h"
#include "coordinator/service/job/environment.h"

namespace coordinator::service {

// Not thread-safe. Nothing of an import can be seen before all of it has been kept.
class Imports {
 public:
  explicit Imports(Environment& environment) : env_(environment) {}

  // Answers with BlobRequests and then PlansChanged or JobFailed. A peer's new import takes the
  // place of its last one.
  void begin(const std::string& peer, const std::string& tenant,
             const common::ImportPlans& message);
  // False when nobody waits for such a blob of this peer.
  bool blob_arrived(const std::string& peer, const common::Digest& digest,
                    const common::SharedBytes& bytes);
  bool blob_missing(const std::string& peer, const common::Digest& digest);
  void forget(const std::string& peer) { imports_.erase(peer); }
  // Imports whose client has fallen silent end.
  void tick(int64_t now_ns);
  bool idle() const { return imports_.empty(); }

 private:
  struct Import {
    uint64_t number = 0;
    uint64_t request_id = 0;
    std::string tenant;
    common::PublicKey signer{};
    common::Digest revocations;
    common::RevocationList revoked;
    std::vector<common::Digest> order;    // of the plans in the request
    std::set<common::Digest> plan_blobs;  // the same
    std::deque<common::Digest> to_ask;
    std::set<common::Digest> asked;
    size_t working = 0;  // blobs that background threads look at
    std::vector<ForeignPlan> plans;
    int64_t deadline_ns = 0;
  };
  Import* find(const std::string& peer, uint64_t number);
  void advance(const std::string& peer, Import& import);
  void take_revocations(const std::string& peer, Import& import, common::ByteView bytes);
  void take_plan(const std::string& peer, Import& import, const common::Digest& digest,
                 const common::SharedBytes& bytes);
  void plan_opened(const std::string& peer, Import& import, common::Result<ForeignPlan> opened);
  void take_object(const std::string& peer, Import& import, const common::SharedBytes& bytes);
  void keep(const std::string& peer, Import& import);
  void fail(const std::string& peer, const common::Error& error);

  Environment& env_;
  std::map<std::string, Import> imports_;  // by peer
  uint64_t numbers_ = 0;
};

}  // namespace coordinator::service
