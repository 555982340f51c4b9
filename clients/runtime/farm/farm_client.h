// A client's connection to a farm: submits graphs, pulls plans, asks how the farm is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "clients/runtime/farm/farm_link.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "common/base/incarnation.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/plan/plan.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"

namespace clients {

struct FarmClientOptions : FarmLinkOptions {
  // Says which key this farm's plans must be signed with, given the one it says it signs with; an
  // error refuses them all. Asked before the first plan.
  std::function<common::Result<common::PublicKey>(const common::PublicKey& offered)> trust;
  std::string revocations;  // directory of the lists that farms gave (revocations.h)
};

struct SubmitRequest {
  common::PlanKey key;
  common::Bytes graph;  // encoded
  uint64_t budget_candidates = 0;
  uint64_t budget_ms = 0;
  uint64_t seed = 0;
  uint32_t priority = common::kPriorityDefault;
  uint32_t in_flight = 0;  // see common::Submit
  bool only_reverify = false;
  std::string name;     // what people call the model, see common::Submit
  std::string machine;  // machine class that the plan is for, see common::Submit
  bool force = false;   // see common::Submit
  // The first plan of the search will do, which goes on at the farm.
  bool takes_first = false;
};

// What a farm says of the plan under a key, to who has one already.
struct WatchedPlan {
  // Empty: the farm has none. Without what finding it took.
  std::optional<common::PlanReady> facts;
  std::optional<PulledPlan> plan;  // empty also when it is the one that is known
};

// Not thread-safe. Where a farm has several coordinators, one that does not serve a graph says who
// does: the question goes there, and the next ones, too. See FarmLink.
class FarmClient {
 public:
  // Says hello and waits for the answer. kUnavailable when none comes.
  static common::Result<std::unique_ptr<FarmClient>> connect(FarmClientOptions options);

  const std::string& endpoint() const { return link_.endpoint(); }
  // The compiler epoch of this farm's plan keys.
  const std::string& compiler_epoch() const { return link_.welcome().compiler_epoch; }

  // Empty when the farm's cache has no plan under this key, or only one that is damaged.
  // `machine`: the class that the plan is to be for; facts.standing says when it is of another.
  common::Result<std::optional<PulledPlan>> pull(const common::PlanKey& key,
                                                 const std::string& machine = {});
  // The same for who has the plan `known` (zero: none), which does not come again.
  common::Result<WatchedPlan> pull_newer(const common::PlanKey& key, const std::string& machine,
                                         const common::Digest& known);
  // The same, and the farm sends news of the key from now on, for as long as the connection lasts.
  common::Result<WatchedPlan> watch(const common::PlanKey& key, const std::string& machine,
                                    const common::Digest& known);
  // News of watched keys; waits for them until `time` is over or the descriptor can be read (-1:
  // none). Farms of earlier versions send none.
  common::Result<std::vector<common::PlanNews>> news(std::chrono::milliseconds time, int wake_fd);
  // See FarmLink. After a change the farm watches nothing for this client.
  uint64_t welcomes() const { return link_.welcomes(); }
  // Waits for the plan, however long the search takes. `on_accepted` gets the job's id.
  common::Result<PulledPlan> submit(
      const SubmitRequest& request, const std::function<void(uint64_t job)>& on_accepted,
      const std::function<void(const common::Progress&)>& on_progress);
  // A blob of the farm's by its digest; empty when it holds none.
  common::Result<std::optional<common::SharedBytes>> blob(const common::Digest& digest);
  // Several, asked for together; those that the farm does not hold are missing.
  common::Result<std::unordered_map<common::Digest, common::SharedBytes>> blobs(
      std::span<const common::Digest> digests);
  // What a job's time went on, as JSON in the format of Chrome's trace events. kInvalidInput where
  // there is none.
  common::Result<std::string> trace(uint64_t job);
  // JSON text. `begins` and `after` as in common::StatusRequest.
  common::Result<std::string> status(common::StatusTopic topic, const std::string& begins = {},
                                     const std::string& after = {});
  common::Status cancel(uint64_t job) { return cancel(std::vector<uint64_t>{job}); }
  // All are asked for before the first answer is awaited.
  common::Status cancel(const std::vector<uint64_t>& jobs);
  // Withdraws a plan by its id, or those under a plan key. Returns their ids.
  common::Result<std::vector<common::Digest>> revoke(const common::Digest& id,
                                                     const std::string& reason);
  // Withdraws what the request names: a plan, or all that a rule is about. Returns their ids. The
  // request's number is filled in.
  common::Result<std::vector<common::Digest>> revoke(common::RevokePlan request);
  // Gives the farm plans that another signed, all or none; `blob` brings what the farm asks for,
  // empty when there is no such blob. Returns their ids at this farm.
  using BlobSource = std::function<common::Result<common::SharedBytes>(const common::Digest&)>;
  common::Result<std::vector<common::Digest>> import_plans(common::ImportPlans request,
                                                           BlobSource blob);
  // Lets other tenants have the plan under the key, or no longer. Returns the plan's id.
  common::Result<std::vector<common::Digest>> publish(common::PublishPlan request);
  // Has plans of other compiler epochs made anew. Returns which.
  common::Result<std::vector<common::Digest>> reverify();
  // What the farm has revoked, which is kept for other processes too.
  common::Result<common::RevocationList> revocations();
  // What this client's plans must be, by the revocations that are known so far.
  common::Result<PlanTrust> trust();

 private:
  // What the farm's plans are checked by; read again when the link's welcomes() has changed.
  struct Trusted {
    PlanTrust plans;
    uint64_t welcomes = 0;
  };
  explicit FarmClient(FarmClientOptions options);
  common::Status ask(const common::Message& message, const common::SharedBytes& blob);
  common::Result<std::optional<common::Packet>> receive();
  common::Result<WatchedPlan> pull(common::PullPlan request, const common::PlanKey& key);
  common::Status learn_revocations(const common::Digest& list, PlanTrust* trust);
  common::Result<std::vector<common::Digest>> change_plans(const common::Message& request,
                                                           uint64_t request_id);
  common::Status answer_blob_request(const common::Digest& digest);
  common::Result<PulledPlan> wait_for_plan(
      const common::Submit& message, const SubmitRequest& request,
      const std::function<void(uint64_t job)>& on_accepted,
      const std::function<void(const common::Progress&)>& on_progress);
  common::Result<PulledPlan> open_plan(common::Packet ready, const common::PlanKey& key);

  const FarmClientOptions options_;
  FarmLink link_;
  std::vector<common::PlanNews> news_;  // that came, and nobody has asked for yet
  // Numbers of requests: each client begins at a random one, so that a number tells one request
  // from all others in a log. Below 2^53, for readers of JSON.
  uint64_t requests_ = common::Incarnation::draw().low >> 12;
  std::optional<Trusted> trust_;
  common::Digest revocations_;  // the list that was last learned
  BlobSource blob_source_;      // while plans are imported
};

}  // namespace clients
