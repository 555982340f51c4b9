#include "farm_packets.h"

#include "common/base/cat.h"
#include "common/wire/codec.h"

namespace sim {

namespace {

// One bit in a thousand makes another verdict of a verdict, which no decoder can see. It is hit on
// purpose now and then.
constexpr double kHitsOutcome = 0.2;

// Heartbeats stand for what a message holds that no other one does.
common::Message message_of(const Event& event) {
  if (auto* hello = std::get_if<WorkerHello>(&event)) {
    common::WorkerHello message;
    message.worker_id = common::cat("worker-", hello->worker);
    message.target = hello->target;
    message.slots = hello->slots;
    return message;
  }
  if (auto* result = std::get_if<TaskResult>(&event)) {
    common::TaskResult message;
    message.lease = {result->task, result->epoch};
    message.outcome = result->outcome;
    message.message = "found in the simulation";
    return message;
  }
  if (auto* returned = std::get_if<LeaseReturned>(&event)) {
    return common::LeaseReturned{{returned->task, returned->epoch}};
  }
  common::Heartbeat message;
  if (auto* beat = std::get_if<WorkerHeartbeat>(&event)) {
    for (const HeldLease& held : beat->leases) message.leases.push_back({held.task, held.epoch});
  }
  return message;
}

}  // namespace

Damaged damage_on_the_way(const Event& event, common::Random& random) {
  common::Message sent = message_of(event);
  auto* result = std::get_if<common::TaskResult>(&sent);
  common::Bytes bytes;
  if (result != nullptr && random.chance(kHitsOutcome)) {
    result->outcome = static_cast<TaskOutcome>(static_cast<uint8_t>(result->outcome) ^ 1);
    bytes = common::encode(sent);
  } else {
    bytes = common::encode(sent);
    size_t bit = random.below(bytes.size() * 8);
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
  auto message = common::decode(bytes);
  Damaged damaged;
  damaged.decodes = message.ok();
  if (!message.ok()) return damaged;
  auto* was = std::get_if<TaskResult>(&event);
  auto* is = std::get_if<common::TaskResult>(&*message);
  if (was != nullptr && is != nullptr) {
    damaged.event =
        TaskResult{was->worker, is->lease.task_id, is->lease.epoch, is->outcome, was->result};
  }
  return damaged;
}

}  // namespace sim
