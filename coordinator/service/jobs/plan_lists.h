// Lists of the store's plans, in which clients look up a plan by the first digits of its id.
#pragma once

#include <string>

#include "coordinator/service/job/environment.h"

namespace coordinator::service {

// Of the latest plans that match a list has at most this many.
inline constexpr size_t kPlansListedMax = 1'000;

// {"total", "plans"}: the plans that `who` may see whose id, plan key or graph hash begins with
// these hexadecimal digits (all of them without digits), the latest first. Keys are looked at where
// neither ids nor graphs match. Reads every plan: not for the event loop.
common::Result<std::string> plan_list_json(cache::Store& store, const common::Principal& who,
                                           const std::string& digits);

// Not thread-safe.
class PlanLists {
 public:
  explicit PlanLists(Environment& environment) : env_(environment) {}

  // Answers with StatusReply, or refuses.
  void send(const std::string& peer, const common::Principal& who,
            const common::StatusRequest& request);

 private:
  static constexpr size_t kAtOnce = 2;  // ten thousand plans take about a second to read
  Environment& env_;
  size_t reading_ = 0;
};

}  // namespace coordinator::service
