// Lists of the store's plans, in which clients look up a plan by the first digits of its id.
#pragma once

#include <string>

#include "coordinator/service/job/environment.h"

namespace coordinator::service {

// Of the latest plans that match a page has at most this many.
inline constexpr size_t kPlansListedMax = 1'000;
// Plans that are read for one page: a tenant may see few of them.
inline constexpr size_t kPlansReadMax = 20'000;

// {"total", "plans", "next"}: a page of the plans that `who` may see, the latest first, behind the
// page whose "next" is `after`. With digits only of those whose id or graph hash begins with these
// hexadecimal digits, or, where there are none, whose plan key does. "next" is there where there
// may be more; "total" is how many there are, where that is known without reading them all. Reads
// at most kPlansReadMax plans: not for the event loop. kInvalidInput when `digits` or `after` is
// none.
common::Result<std::string> plan_list_json(cache::Store& store, const common::Principal& who,
                                           const std::string& digits,
                                           const std::string& after = {});

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
