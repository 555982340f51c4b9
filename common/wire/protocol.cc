// Which messages each version of the protocol has, and which versions two sides have in common.
#include <algorithm>

#include "common/base/cat.h"
#include "common/wire/codec.h"

namespace common {

size_t envelope_bytes_about(const Message& message) {
  size_t bytes = 1024;
  if (auto* task = std::get_if<Task>(&message)) {
    bytes += task->payload.size() + task->blobs.size() * sizeof(Digest);
  } else if (auto* result = std::get_if<TaskResult>(&message)) {
    bytes += result->report.size() + result->message.size() + result->blobs.size() * sizeof(Digest);
  } else if (auto* reply = std::get_if<StatusReply>(&message)) {
    bytes += reply->json.size();
  } else if (auto* ready = std::get_if<PlanReady>(&message)) {
    bytes += ready->parts.size() * 2 * sizeof(Digest);
  } else if (auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    bytes += heartbeat->leases.size() * sizeof(TaskLease);
  }
  return bytes;
}

// Every version that is spoken has all that are not listed.
uint32_t introduced_in(const Message& message) {
  auto* status = std::get_if<StatusRequest>(&message);
  bool lists_plans = status != nullptr && status->what == StatusTopic::kPlans;
  return lists_plans || std::holds_alternative<PlanNews>(message) ? 3 : 1;
}

std::optional<uint32_t> agreed_version(const ProtocolRange& a, const ProtocolRange& b) {
  uint32_t version = std::min(a.max, b.max);
  return a.holds(version) && b.holds(version) ? std::optional(version) : std::nullopt;
}

std::string text_of(const ProtocolRange& range) {
  return range.min == range.max ? cat("protocol ", range.min)
                                : cat("protocol ", range.min, " to ", range.max);
}

}  // namespace common
