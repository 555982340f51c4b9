#include "clients/runtime/farm/farm_client.h"

#include <algorithm>
#include <set>
#include <utility>

#include "clients/runtime/farm/revocations.h"
#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/wire/codec.h"

namespace clients {

using common::cat;
using common::Message;
using common::Packet;
using common::Result;
using common::SharedBytes;
using common::Status;

namespace {

// Requests for blobs that wait for their answers.
constexpr size_t kBlobsAtOnce = 64;
// News of plans that wait for who asks for them.
constexpr size_t kNewsMax = 16'384;

uint64_t request_of(const Message& message) {
  if (auto* m = std::get_if<common::Accepted>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::PlanReady>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::JobFailed>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::PlanMissing>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::StatusReply>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::PlanRevoked>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::PlansChanged>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::RevocationsAre>(&message)) return m->request_id;
  if (auto* m = std::get_if<common::JobTrace>(&message)) return m->request_id;
  return 0;
}

}  // namespace

Result<std::unique_ptr<FarmClient>> FarmClient::connect(FarmClientOptions options) {
  std::unique_ptr<FarmClient> client(new FarmClient(std::move(options)));
  LFARM_RETURN_IF_ERROR(client->link_.open());
  return client;
}

FarmClient::FarmClient(FarmClientOptions options) : options_(std::move(options)), link_(options_) {}

Status FarmClient::ask(const Message& message, const SharedBytes& blob) {
  return link_.ask({Packet{message, blob, {}}});
}

// The next answer; empty when none came for a while.
Result<std::optional<Packet>> FarmClient::receive() {
  LFARM_ASSIGN_OR_RETURN(auto packet, link_.receive());
  if (!packet) return packet;
  if (auto* news = std::get_if<common::PlanNews>(&packet->message)) {
    // Who does not ask for them asks for the plan itself sooner or later.
    if (news_.size() < kNewsMax) news_.push_back(std::move(*news));
    return std::optional<Packet>();
  }
  if (auto* wanted = std::get_if<common::BlobRequest>(&packet->message)) {
    LFARM_RETURN_IF_ERROR(answer_blob_request(wanted->digest));
    return std::optional<Packet>();
  }
  return packet;
}

Status FarmClient::answer_blob_request(const common::Digest& digest) {
  for (const Packet& question : link_.questions()) {
    if (question.blob && common::blob_digest_of(question.message) == digest) {
      return link_.send(common::Blob{digest}, question.blob);
    }
  }
  if (blob_source_) {
    LFARM_ASSIGN_OR_RETURN(SharedBytes bytes, blob_source_(digest));
    if (bytes) return link_.send(common::Blob{digest}, bytes);
  }
  return link_.send(common::BlobMissing{digest});
}

Result<std::optional<PulledPlan>> FarmClient::pull(const common::PlanKey& key,
                                                   const std::string& machine) {
  LFARM_ASSIGN_OR_RETURN(WatchedPlan pulled, pull_newer(key, machine, {}));
  return std::move(pulled.plan);
}

Result<WatchedPlan> FarmClient::pull_newer(const common::PlanKey& key, const std::string& machine,
                                           const common::Digest& known) {
  common::PullPlan request;
  request.machine = machine;
  request.known = known;
  return pull(std::move(request), key);
}

Result<WatchedPlan> FarmClient::watch(const common::PlanKey& key, const std::string& machine,
                                      const common::Digest& known) {
  common::PullPlan request;
  request.machine = machine;
  request.known = known;
  request.watch = true;
  return pull(std::move(request), key);
}

Result<WatchedPlan> FarmClient::pull(common::PullPlan request, const common::PlanKey& key) {
  request.request_id = ++requests_;
  request.plan_key = key.digest();
  request.graph_hash = key.graph_hash;
  request.with_objects = true;
  LFARM_RETURN_IF_ERROR(ask(request, {}));
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    if (!packet || request_of(packet->message) != request.request_id) continue;
    if (std::holds_alternative<common::PlanMissing>(packet->message)) return WatchedPlan();
    if (auto* failed = std::get_if<common::JobFailed>(&packet->message)) {
      LFARM_ASSIGN_OR_RETURN(bool is_asked, link_.ask_again(*failed));
      if (is_asked) continue;
      return common::Error{failed->code, failed->message};
    }
    auto* ready = std::get_if<common::PlanReady>(&packet->message);
    if (ready == nullptr) continue;
    WatchedPlan out;
    out.facts = *ready;
    if (ready->plan == request.known) return out;
    auto plan = open_plan(std::move(*packet), key);
    if (plan.ok()) {
      out.plan = std::move(*plan);
      return out;
    }
    if (plan.error().code != common::Code::kCorrupt) return plan.error();
    common::log_warning(plan.error().message);
    return WatchedPlan();
  }
}

Result<std::vector<common::PlanNews>> FarmClient::news(std::chrono::milliseconds time,
                                                       int wake_fd) {
  LFARM_RETURN_IF_ERROR(link_.ask({}));
  if (news_.empty() && !link_.has_arrivals()) {
    LFARM_RETURN_IF_ERROR(link_.wait_for_arrivals(static_cast<int>(time.count()), wake_fd));
  }
  while (link_.has_arrivals()) {
    // Whatever else has come answers questions that were given up.
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] auto other, receive());
  }
  return std::exchange(news_, {});
}

Result<PulledPlan> FarmClient::submit(
    const SubmitRequest& request, const std::function<void(uint64_t job)>& on_accepted,
    const std::function<void(const common::Progress&)>& on_progress) {
  common::Submit message;
  message.request_id = ++requests_;
  message.graph_hash = request.key.graph_hash;
  message.target = request.key.target.name;
  message.policy = request.key.policy;
  message.graph = common::digest_of(request.graph);
  message.budget_candidates = request.budget_candidates;
  message.budget_ms = request.budget_ms;
  message.seed = request.seed;
  message.in_flight = request.in_flight;
  message.priority = request.priority;
  message.only_reverify = request.only_reverify;
  message.name = request.name;
  message.machine = request.machine;
  message.force = request.force;
  auto plan = wait_for_plan(message, request, on_accepted, on_progress);
  if (plan.ok() || plan.error().code != common::Code::kCorrupt) return plan;
  // What the farm found damaged just now it makes again.
  common::log_warning(plan.error().message);
  message.request_id = ++requests_;
  return wait_for_plan(message, request, on_accepted, on_progress);
}

Result<PulledPlan> FarmClient::wait_for_plan(
    const common::Submit& message, const SubmitRequest& request,
    const std::function<void(uint64_t job)>& on_accepted,
    const std::function<void(const common::Progress&)>& on_progress) {
  common::log_debug("a plan is asked for", {{"request_id", message.request_id},
                                            {"graph", message.graph_hash.hex()},
                                            {"target", message.target}});
  LFARM_RETURN_IF_ERROR(ask(message, common::share(request.graph)));
  uint64_t job = 0;
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    if (!packet) continue;
    if (auto* progress = std::get_if<common::Progress>(&packet->message)) {
      if (progress->job_id != job) continue;
      if (on_progress) on_progress(*progress);
      if (!request.takes_first || progress->best_ns == 0) continue;
      LFARM_ASSIGN_OR_RETURN(auto first, pull(request.key, request.machine));
      if (first && first->facts.standing != common::Standing::kNeighbour) return std::move(*first);
      // The answer may have come, and been passed over, while this waited for another one.
      LFARM_RETURN_IF_ERROR(ask(message, common::share(request.graph)));
      continue;
    }
    if (request_of(packet->message) != message.request_id) continue;
    if (auto* accepted = std::get_if<common::Accepted>(&packet->message)) {
      job = accepted->job_id;
      common::log_debug("a job searches for it",
                        {{"request_id", message.request_id}, {"job", job}});
      if (on_accepted) on_accepted(job);
    } else if (auto* failed = std::get_if<common::JobFailed>(&packet->message)) {
      LFARM_ASSIGN_OR_RETURN(bool is_asked, link_.ask_again(*failed));
      if (!is_asked) return common::Error{failed->code, failed->message};
    } else if (auto* ready = std::get_if<common::PlanReady>(&packet->message)) {
      common::log_debug("a plan came", {{"request_id", message.request_id},
                                        {"job", ready->job_id},
                                        {"plan", ready->plan.hex()}});
      return open_plan(std::move(*packet), request.key);
    }
  }
}

Result<PulledPlan> FarmClient::open_plan(Packet ready, const common::PlanKey& key) {
  PulledPlan out;
  out.facts = std::get<common::PlanReady>(ready.message);
  out.id = out.facts.plan;
  SharedBytes bytes = std::move(ready.blob);
  for (size_t i = 1; i < ready.parts.size(); ++i) {
    out.objects.emplace(out.facts.parts[i].digest, SharedBytes{ready.parts[i], bytes.owner});
  }
  if (!ready.parts.empty()) bytes.bytes = ready.parts[0];
  if (!bytes) {
    LFARM_ASSIGN_OR_RETURN(auto fetched, blob(out.id));
    if (!fetched) {
      return common::corrupt(
          cat("the farm lost plan ", out.id.short_hex(), " meanwhile; submit again"));
    }
    bytes = std::move(*fetched);
  }
  LFARM_ASSIGN_OR_RETURN(PlanTrust trusted, trust());
  LFARM_RETURN_IF_ERROR(learn_revocations(out.facts.revocations, &trusted));
  LFARM_ASSIGN_OR_RETURN(out.plan, open_signed_plan(bytes.bytes, trusted, key));
  std::vector<common::Digest> missing;
  for (const common::Digest& object : out.plan.objects) {
    if (!out.objects.contains(object)) missing.push_back(object);
  }
  if (!missing.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto fetched, blobs(missing));
    out.objects.merge(fetched);
  }
  for (const common::Digest& object : out.plan.objects) {
    if (!out.objects.contains(object)) {
      return common::corrupt(cat("the farm lost object ", object.short_hex(), " of plan ",
                                 out.id.short_hex(), "; submit again"));
    }
  }
  out.signed_plan = std::move(bytes);
  return out;
}

Result<PlanTrust> FarmClient::trust() {
  if (trust_ && trust_->welcomes == link_.welcomes()) return trust_->plans;
  const common::Welcome& farm = link_.welcome();
  PlanTrust trust{farm.signing_key, farm.tenant, {}};
  if (options_.trust) {
    LFARM_ASSIGN_OR_RETURN(trust.signer, options_.trust(farm.signing_key));
  }
  if (!options_.revocations.empty()) {
    LFARM_ASSIGN_OR_RETURN(trust.revoked, Revocations(options_.revocations).known(trust.signer));
  }
  trust_ = {trust, link_.welcomes()};
  return trust;
}

Result<common::RevocationList> FarmClient::revocations() {
  LFARM_ASSIGN_OR_RETURN(PlanTrust trusted, trust());
  common::AskRevocations request{++requests_, revocations_};
  LFARM_RETURN_IF_ERROR(ask(request, {}));
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    if (!packet || request_of(packet->message) != request.request_id) continue;
    auto* are = std::get_if<common::RevocationsAre>(&packet->message);
    if (are == nullptr) continue;
    if (packet->blob) {
      LFARM_ASSIGN_OR_RETURN(
          trusted.revoked,
          Revocations(options_.revocations).learn(trusted.signer, packet->blob.bytes));
      revocations_ = are->list;
      trust_ = {trusted, link_.welcomes()};
    }
    return trusted.revoked;
  }
}

Status FarmClient::learn_revocations(const common::Digest& list, PlanTrust* trust) {
  if (list.is_zero() || list == revocations_) return {};
  LFARM_ASSIGN_OR_RETURN(auto bytes, blob(list));
  // The farm has a newer one meanwhile, of which the next answer will tell.
  if (!bytes) return {};
  LFARM_ASSIGN_OR_RETURN(trust->revoked,
                         Revocations(options_.revocations).learn(trust->signer, bytes->bytes));
  revocations_ = list;
  trust_ = {*trust, link_.welcomes()};
  return {};
}

Result<std::vector<common::Digest>> FarmClient::revoke(const common::Digest& id,
                                                       const std::string& reason) {
  return revoke({0, id, reason, {}});
}

Result<std::vector<common::Digest>> FarmClient::revoke(common::RevokePlan request) {
  request.request_id = ++requests_;
  LFARM_RETURN_IF_ERROR(ask(request, {}));
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    if (!packet || request_of(packet->message) != request.request_id) continue;
    if (auto* done = std::get_if<common::PlanRevoked>(&packet->message)) {
      return std::move(done->plans);
    }
  }
}

Result<std::vector<common::Digest>> FarmClient::import_plans(common::ImportPlans request,
                                                             BlobSource blob) {
  request.request_id = ++requests_;
  blob_source_ = std::move(blob);
  auto done = change_plans(request, request.request_id);
  blob_source_ = {};
  return done;
}

Result<std::vector<common::Digest>> FarmClient::publish(common::PublishPlan request) {
  request.request_id = ++requests_;
  return change_plans(request, request.request_id);
}

Result<std::vector<common::Digest>> FarmClient::reverify() {
  common::Reverify request{++requests_};
  return change_plans(request, request.request_id);
}

Result<std::vector<common::Digest>> FarmClient::change_plans(const Message& request,
                                                             uint64_t request_id) {
  LFARM_RETURN_IF_ERROR(ask(request, {}));
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    if (!packet || request_of(packet->message) != request_id) continue;
    if (auto* done = std::get_if<common::PlansChanged>(&packet->message)) {
      return std::move(done->plans);
    }
    if (auto* failed = std::get_if<common::JobFailed>(&packet->message)) {
      return common::Error{failed->code, failed->message};
    }
  }
}

Result<std::optional<SharedBytes>> FarmClient::blob(const common::Digest& digest) {
  LFARM_ASSIGN_OR_RETURN(auto found, blobs({&digest, 1}));
  auto blob = found.find(digest);
  if (blob == found.end()) return std::optional<SharedBytes>();
  return std::optional<SharedBytes>(std::move(blob->second));
}

Result<std::unordered_map<common::Digest, SharedBytes>> FarmClient::blobs(
    std::span<const common::Digest> digests) {
  std::unordered_map<common::Digest, SharedBytes> found;
  for (size_t begin = 0; begin < digests.size(); begin += kBlobsAtOnce) {
    auto part = digests.subspan(begin, std::min(kBlobsAtOnce, digests.size() - begin));
    std::set<common::Digest> open(part.begin(), part.end());
    std::vector<Packet> questions;
    for (const common::Digest& digest : open) {
      questions.push_back({common::BlobRequest{digest}, {}, {}});
    }
    LFARM_RETURN_IF_ERROR(link_.ask(std::move(questions)));
    while (!open.empty()) {
      LFARM_ASSIGN_OR_RETURN(auto packet, receive());
      if (!packet) continue;
      if (auto* missing = std::get_if<common::BlobMissing>(&packet->message)) {
        open.erase(missing->digest);
      } else if (auto* blob = std::get_if<common::Blob>(&packet->message)) {
        if (open.erase(blob->digest) != 0) found[blob->digest] = std::move(packet->blob);
      }
    }
  }
  return found;
}

Result<std::string> FarmClient::trace(uint64_t job) {
  common::AskTrace request{++requests_, job};
  LFARM_RETURN_IF_ERROR(ask(request, {}));
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    if (!packet || request_of(packet->message) != request.request_id) continue;
    if (std::holds_alternative<common::JobTrace>(packet->message)) {
      return std::string(common::as_text(packet->blob.bytes));
    }
    if (auto* failed = std::get_if<common::JobFailed>(&packet->message)) {
      return common::Error{failed->code, failed->message};
    }
  }
}

Result<std::string> FarmClient::status(common::StatusTopic topic, const std::string& begins,
                                       const std::string& after) {
  common::StatusRequest request{++requests_, topic, begins, after};
  LFARM_RETURN_IF_ERROR(ask(request, {}));
  while (true) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    if (!packet || request_of(packet->message) != request.request_id) continue;
    if (auto* reply = std::get_if<common::StatusReply>(&packet->message)) {
      return std::move(reply->json);
    }
  }
}

Status FarmClient::cancel(const std::vector<uint64_t>& jobs) {
  std::vector<Packet> questions;
  for (uint64_t job : jobs) questions.push_back(Packet{common::CancelJob{job}, {}, {}});
  LFARM_RETURN_IF_ERROR(link_.ask(std::move(questions)));
  std::set<uint64_t> open(jobs.begin(), jobs.end());
  while (!open.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto packet, receive());
    auto* done = packet ? std::get_if<common::JobCancelled>(&packet->message) : nullptr;
    if (done != nullptr) open.erase(done->job_id);
  }
  return {};
}

}  // namespace clients
