#include "coordinator/service/message_router.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/shard/shard.h"
#include "coordinator/service/journal/audit.h"
#include "coordinator/service/status.h"
#include "coordinator/service/workers/worker_quarantine.h"

namespace coordinator::service {

using common::cat;
using common::Code;

namespace {

// How long a client waits that asks for a shard that nobody serves.
constexpr uint32_t kAskAgainMs = 500;

template <class Message>
constexpr bool kIsFromWorker =
    std::is_same_v<Message, common::Credit> || std::is_same_v<Message, common::Heartbeat> ||
    std::is_same_v<Message, common::LeaseReturned> || std::is_same_v<Message, common::WorkerBye>;

// Whether the message asks for an answer, which takes memory until the peer reads it.
bool asks_for_answer(const common::Message& message) {
  return std::holds_alternative<common::Submit>(message) ||
         std::holds_alternative<common::PullPlan>(message) ||
         std::holds_alternative<common::AskRevocations>(message) ||
         std::holds_alternative<common::StatusRequest>(message) ||
         std::holds_alternative<common::AskTrace>(message) ||
         std::holds_alternative<common::BlobRequest>(message) ||
         std::holds_alternative<common::CancelJob>(message) ||
         std::holds_alternative<common::ImportPlans>(message) ||
         std::holds_alternative<common::PublishPlan>(message) ||
         std::holds_alternative<common::Reverify>(message) ||
         std::holds_alternative<common::Ping>(message) ||
         std::holds_alternative<common::ClientHello>(message);
}

}  // namespace

MessageRouter::MessageRouter(Environment& environment, JobTable& jobs, std::string coordinator_id)
    : env_(environment),
      jobs_(jobs),
      coordinator_id_(std::move(coordinator_id)),
      clients_(environment.options.limits.clients_max),
      imports_(environment),
      plan_lists_(environment) {}

void MessageRouter::receive(common::Arrival arrival) {
  const std::string& peer = arrival.peer;
  if (!arrival.packet.ok()) {
    const common::Error& error = arrival.packet.error();
    common::log_warning(cat("a message from ", arrival.address, " is refused: ", error.message));
    return env_.outbox.refuse(peer, error.code, error.message);
  }
  common::Packet& packet = *arrival.packet;
  bool is_allowed = common::may_send(*arrival.principal, packet.message);
  audit(packet.message, *arrival.principal, arrival.address, !is_allowed);
  if (!is_allowed) {
    return env_.outbox.refuse(peer, Code::kInvalidInput,
                              cat("this key may not send ", common::message_name(packet.message),
                                  "; ask the farm's administrator for the role"));
  }
  if (asks_for_answer(packet.message) && env_.outbox.turn_away(peer)) return;
  Sender from{peer, arrival.address, *arrival.principal, std::move(packet.blob)};
  bool is_greeting = std::holds_alternative<common::WorkerHello>(packet.message) ||
                     std::holds_alternative<common::ClientHello>(packet.message) ||
                     std::holds_alternative<common::Ping>(packet.message);
  if (!is_greeting && env_.workers.is_displaced(peer)) {
    // The connection is still there, so this is not the same worker come back.
    return env_.outbox.refuse(peer, Code::kInvalidInput,
                              "another worker has taken this worker's name; give each its own");
  }
  if (!is_greeting && !is_known(peer)) {
    return env_.outbox.refuse(peer, Code::kUnavailable,
                              "the farm does not know this connection; say hello");
  }
  std::visit([&](auto& message) { on(from, message); }, packet.message);
}

void MessageRouter::forget(const std::vector<std::string>& peers) {
  for (const std::string& peer : peers) {
    env_.workers.drop(peer);
    clients_.forget(peer);
    env_.watches.forget(peer);
    imports_.forget(peer);
  }
}

void MessageRouter::turn(int64_t now_ns) {
  imports_.tick(now_ns);
  clients_.probe(
      now_ns, [this](const std::string& peer) { return env_.outbox.send(peer, common::Pong{}); });
}

bool MessageRouter::is_known(const std::string& peer) {
  return env_.workers.is_worker(peer) || clients_.touch(peer, env_.clock.now_ns());
}

std::optional<uint32_t> MessageRouter::agree(const Sender& from, const char* who,
                                             const common::ProtocolRange& theirs) {
  const common::ProtocolRange& ours = env_.options.protocol;
  auto version = common::agreed_version(ours, {theirs.min, std::max(theirs.min, theirs.max)});
  if (version) return version;
  env_.outbox.refuse(
      from.peer, Code::kUnsupported,
      cat("this ", who, " speaks ", common::text_of(theirs), ", the farm ", common::text_of(ours),
          ": update the ", theirs.min > ours.max ? "farm" : who));
  return std::nullopt;
}

void MessageRouter::welcome(const Sender& to, uint32_t version) {
  common::Welcome message;
  message.coordinator_id = coordinator_id_;
  message.heartbeat_ms = static_cast<uint32_t>(env_.options.times.heartbeat_ms);
  message.signing_key = env_.plans.public_key();
  message.compiler_epoch = env_.options.epoch;
  message.tenant = to.principal.tenant;
  message.protocol_version = version;
  env_.outbox.send(to.peer, message);
}

void MessageRouter::on(const Sender& from, const common::WorkerHello& message) {
  auto version = agree(from, "worker", {message.protocol_min, message.protocol_max});
  if (!version) return;
  if (auto why = quarantine_of(env_.store, message.worker_id)) {
    return env_.outbox.refuse(from.peer, Code::kVerification, *why);
  }
  if (env_.workers.hello(from.peer, from.address, message)) welcome(from, *version);
}

void MessageRouter::on(const Sender& from, const common::ClientHello& message) {
  auto version = agree(from, "client", {message.protocol_min, message.protocol_max});
  if (!version) return;
  clients_.hello(from.peer, message, env_.clock.now_ns());
  welcome(from, *version);
}

void MessageRouter::on(const Sender& from, const common::Ping& message) {
  env_.outbox.send(from.peer, common::Pong{message.number});
}

// True where this coordinator serves the graph's shard; else the peer is told who does, or when to
// ask again.
bool MessageRouter::serves(const Sender& from, const common::Digest& graph_hash,
                           uint64_t request_id) {
  ShardKeeper* keeper = env_.shared.keeper();
  if (keeper == nullptr) return true;
  uint32_t shard = common::shard_of(from.principal.tenant, graph_hash);
  if (keeper->serves(shard)) return true;
  common::JobFailed answer{request_id, 0, Code::kUnavailable, "", "", "", 0};
  keeper->note_redirect();
  auto other = keeper->served_by_other(shard);
  if (other && !other->endpoint.empty()) {
    answer.endpoint = other->endpoint;
    answer.server_key = other->public_key;
    answer.message =
        cat("the coordinator at ", other->endpoint, " serves this model; submit there");
  } else {
    answer.again_ms = kAskAgainMs;
    answer.message = cat("no coordinator serves shard ", shard, " just now; submit again");
  }
  env_.outbox.send(from.peer, answer);
  return false;
}

void MessageRouter::on(const Sender& from, const common::Submit& message) {
  if (!serves(from, message.graph_hash, message.request_id)) return;
  jobs_.submit(from.peer, from.principal, message, from.blob);
}

void MessageRouter::on(const Sender& from, const common::CancelJob& message) {
  jobs_.cancel(from.peer, from.principal, message.job_id);
}

void MessageRouter::on(const Sender& from, const common::PullPlan& message) {
  const std::string& tenant = from.principal.tenant;
  // What this store has of another coordinator's shard, or of one that was taken lately, may be
  // old: then the engine is asked first.
  bool may_be_old =
      !message.graph_hash.is_zero() &&
      (!holds(tenant, message.graph_hash) || env_.shared.may_be_old(tenant, message.graph_hash));
  if (!may_be_old && answer_pull(from.peer, tenant, message))
    return env_.monitored.meters.plan_asked(tenant, "hit");
  // What other farms have shared, if they share with this one.
  env_.shared.fetch({tenant, message.plan_key, message.machine, message.graph_hash},
                    [this, peer = from.peer, tenant, message](bool found) {
                      bool may_be_here = found || env_.shared.keeper() != nullptr;
                      bool is_there = (may_be_here && answer_pull(peer, tenant, message)) ||
                                      answer_pull(peer, tenant, message, true);
                      env_.monitored.meters.plan_asked(tenant, is_there ? "shared" : "none");
                      if (is_there) return;
                      if (message.watch) env_.watches.watch(peer, tenant, message, {});
                      env_.outbox.send(peer, common::PlanMissing{message.request_id});
                    });
}

bool MessageRouter::holds(const std::string& tenant, const common::Digest& graph_hash) const {
  const ShardKeeper* keeper = env_.shared.keeper();
  return keeper == nullptr || keeper->serves(common::shard_of(tenant, graph_hash)).has_value();
}

// False when there is no such plan here.
bool MessageRouter::answer_pull(const std::string& peer, const std::string& tenant,
                                const common::PullPlan& message, bool of_neighbours) {
  auto ready = of_neighbours ? env_.plans.find_neighbour(tenant, message.plan_key, message.machine)
                             : env_.plans.find(tenant, message.plan_key, message.machine);
  if (!ready.ok()) {
    const common::Error& error = ready.error();
    env_.outbox.send(peer, common::JobFailed{message.request_id, 0, error.code, error.message});
    return true;
  }
  if (!ready->has_value()) return false;
  // Only who holds the shard searches.
  bool is_wanted = (*ready)->standing == common::Standing::kNeighbour;
  if (is_wanted && holds(tenant, message.graph_hash)) {
    jobs_.wish_for(tenant, **ready, message.machine);
  }
  if (message.watch) env_.watches.watch(peer, tenant, message, (*ready)->plan);
  common::PlanReady answer = (*ready)->message(message.request_id);
  if (message.known == (*ready)->plan) {
    env_.outbox.send(peer, answer);
    return true;
  }
  common::SharedBytes bytes = (*ready)->bytes;
  if (message.with_objects) {
    auto whole = env_.plans.with_objects(**ready);
    // What cannot come along can be asked for.
    if (!whole.ok()) common::log_warning(whole.error().message);
    if (whole.ok() && *whole) {
      answer.parts = std::move((*whole)->parts);
      bytes = std::move((*whole)->bytes);
    }
  }
  env_.outbox.send(peer, answer, bytes);
  return true;
}

void MessageRouter::on(const Sender& from, const common::AskRevocations& message) {
  common::RevocationsAre answer{message.request_id, env_.plans.revocations_digest()};
  bool is_news = answer.list != message.known;
  env_.outbox.send(from.peer, answer, is_news ? env_.plans.revocations() : common::SharedBytes{});
}

void MessageRouter::on(const Sender& from, const common::StatusRequest& message) {
  if (message.what == common::StatusTopic::kPlans) {
    return plan_lists_.send(from.peer, from.principal, message);
  }
  common::StatusReply reply;
  reply.request_id = message.request_id;
  reply.json = status_json(message.what, {env_, jobs_, clients_, coordinator_id_, from.principal},
                           message.after);
  if (reply.json.size() > common::kStatusBytesMax) {
    return env_.outbox.refuse(from.peer, Code::kUnavailable, "the status is too long to send");
  }
  env_.outbox.send(from.peer, reply);
}

void MessageRouter::on(const Sender& from, const common::AskTrace& message) {
  jobs_.send_trace(from.peer, from.principal, message);
}

void MessageRouter::on(const Sender& from, const common::RevokePlan& message) {
  const std::string &peer = from.peer, &tenant = from.principal.tenant;
  if (message.rule.is_none()) {
    return answer_revoked(peer, tenant, message, env_.plans.revoke(message.id, message.reason));
  }
  common::RevocationRule rule = message.rule;
  rule.until_ns = std::min(rule.until_ns, common::wall_clock_ns());
  common::Status added = env_.plans.add_rule(rule);
  if (!added.ok()) return env_.outbox.refuse(peer, added.error().code, added.error().message);
  // In the background, since every plan of the store is read.
  env_.threads.background.start(
      [this, peer, tenant, message, rule, &plans = env_.plans]() -> Background::Done {
        auto made = plans.plans_made(rule);
        return [this, peer, tenant, message, made = std::move(made)]() mutable {
          answer_revoked(peer, tenant, message,
                         made.ok() ? env_.plans.revoke_made(std::move(*made), message.reason)
                                   : std::move(made));
        };
      });
}

void MessageRouter::answer_revoked(const std::string& peer, const std::string& tenant,
                                   const common::RevokePlan& message,
                                   common::Result<std::vector<common::Digest>> revoked) {
  if (!revoked.ok()) {
    return env_.outbox.refuse(peer, revoked.error().code, revoked.error().message);
  }
  env_.shared.revoked(*revoked);
  for (const common::Digest& plan : *revoked) {
    common::log_warning(cat("a plan is revoked: ", message.reason),
                        {{"plan", plan.hex()}, {"tenant", tenant}});
  }
  env_.outbox.send(peer, common::PlanRevoked{message.request_id, std::move(*revoked)});
}

void MessageRouter::on(const Sender& from, const common::PublishPlan& message) {
  auto plan = env_.plans.publish(from.principal.tenant, message.plan_key, message.tenants,
                                 message.withdraw);
  common::Result<std::vector<common::Digest>> plans = std::vector<common::Digest>();
  if (plan.ok()) {
    common::log_info(message.withdraw ? "a plan is published no more" : "a plan is published",
                     {{"plan", plan->hex()}, {"tenant", from.principal.tenant}});
    plans->push_back(*plan);
    env_.shared.note_soon();
  } else {
    plans = plan.error();
  }
  answer(from.peer, message.request_id, std::move(plans));
}

void MessageRouter::on(const Sender& from, const common::Reverify& message) {
  jobs_.reverify(from.principal, [this, peer = from.peer, id = message.request_id](auto plans) {
    answer(peer, id, std::move(plans));
  });
}

void MessageRouter::answer(const std::string& peer, uint64_t request_id,
                           common::Result<std::vector<common::Digest>> plans) {
  if (plans.ok()) {
    if (plans->size() > common::kDigestsMax) plans->resize(common::kDigestsMax);
    env_.outbox.send(peer, common::PlansChanged{request_id, std::move(*plans)});
  } else {
    env_.outbox.send(peer,
                     common::JobFailed{request_id, 0, plans.error().code, plans.error().message});
  }
}

void MessageRouter::on(const Sender& from, const common::ImportPlans& message) {
  imports_.begin(from.peer, from.principal.tenant, message);
}

// Graphs of running jobs are workers' alone, and first, because workers wait for them. Then the
// revocation list, kernels, and plans to those whose they are.
void MessageRouter::on(const Sender& from, const common::BlobRequest& message) {
  bool is_worker = env_.workers.is_worker(from.peer);
  common::SharedBytes bytes;
  if (is_worker) bytes = env_.blobs.find(message.digest);
  if (message.digest == env_.plans.revocations_digest()) bytes = env_.plans.revocations();
  if (!bytes) {
    auto stored = env_.store.get_blob(message.digest);
    if (!stored.ok()) common::log_warning(stored.error().message);
    if (stored.ok() && stored->has_value()) {
      auto owner = std::make_shared<const std::string>(std::move(**stored));
      bytes = {common::as_bytes(*owner), owner};
      auto access = env_.plans.check_access(from.principal.tenant, message.digest, bytes.bytes);
      if (!access.ok()) {
        return env_.outbox.refuse(from.peer, access.error().code, access.error().message);
      }
    }
  }
  if (bytes) {
    env_.outbox.send(from.peer, common::Blob{message.digest}, bytes);
  } else {
    env_.outbox.send(from.peer, common::BlobMissing{message.digest});
  }
}

void MessageRouter::on(const Sender& from, const common::Blob& message) {
  if (env_.workers.is_worker(from.peer)) {
    jobs_.object_arrived(message.digest, from.blob);
  } else if (!imports_.blob_arrived(from.peer, message.digest, from.blob)) {
    jobs_.graph_arrived(message.digest, from.blob);
  }
}

void MessageRouter::on(const Sender& from, const common::BlobMissing& message) {
  std::string worker = env_.workers.name_of_peer(from.peer);
  if (!worker.empty()) {
    jobs_.object_missing(worker, message.digest);
  } else if (!imports_.blob_missing(from.peer, message.digest)) {
    jobs_.graph_missing(from.peer, message.digest);
  }
}

void MessageRouter::on(const Sender&, const common::Pong&) {}

void MessageRouter::on(const Sender& from, const common::Refused& message) {
  common::log_warning(cat("a peer at ", from.address, " refused a message: ", message.message));
}

void MessageRouter::on(const Sender& from, common::TaskResult& message) {
  env_.workers.on(from.peer, std::move(message));
}

template <class Message>
void MessageRouter::on(const Sender& from, const Message& message) {
  if constexpr (kIsFromWorker<Message>) {
    if (env_.workers.is_worker(from.peer)) return env_.workers.on(from.peer, message);
    env_.outbox.refuse(from.peer, Code::kUnavailable, "this connection is no worker; say hello");
  } else {
    env_.outbox.refuse(from.peer, Code::kInvalidInput,
                       cat("a coordinator takes no ", common::message_name(message)));
  }
}

}  // namespace coordinator::service
