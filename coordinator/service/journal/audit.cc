#include "coordinator/service/journal/audit.h"

#include <optional>
#include <variant>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {
namespace {

using common::cat;

// What a request that changes something is about; empty for all others.
std::optional<std::string> object_of(const common::Message& request) {
  if (auto* submit = std::get_if<common::Submit>(&request)) {
    return cat("graph ", submit->graph.hex());
  }
  if (auto* cancel = std::get_if<common::CancelJob>(&request)) return cat("job ", cancel->job_id);
  if (auto* revoke = std::get_if<common::RevokePlan>(&request)) {
    const common::RevocationRule& rule = revoke->rule;
    if (rule.is_none()) return cat("plan ", revoke->id.hex(), ": ", revoke->reason);
    return cat("plans of worker '", rule.worker, "', toolchain '", rule.toolchain, "', made from ",
               rule.from_ns, " to ", rule.until_ns, ": ", revoke->reason);
  }
  if (auto* publish = std::get_if<common::PublishPlan>(&request)) {
    return cat("plan key ", publish->plan_key.hex(), publish->withdraw ? ", withdrawn" : "");
  }
  if (std::holds_alternative<common::ImportPlans>(request)) return "plans";
  if (std::holds_alternative<common::Reverify>(request)) return "plans";
  if (auto* hello = std::get_if<common::WorkerHello>(&request)) {
    return cat("worker ", hello->worker_id);
  }
  return std::nullopt;
}

// 0 for a request without a number.
uint64_t number_of(const common::Message& request) {
  return std::visit(
      [](const auto& one) -> uint64_t {
        if constexpr (requires { one.request_id; }) return one.request_id;
        return 0;
      },
      request);
}

}  // namespace

void audit(const common::Message& request, const common::Principal& who, const std::string& address,
           bool refused) {
  auto object = object_of(request);
  if (!object) return;
  common::log_info("audit", {{"request", common::message_name(request)},
                             {"request_id", number_of(request)},
                             {"object", *object},
                             {"key", who.key_id},
                             {"tenant", who.tenant},
                             {"address", address},
                             {"refused", refused ? "yes" : "no"}});
}

}  // namespace coordinator::service
