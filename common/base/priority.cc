#include "common/base/priority.h"

#include <sched.h>
#include <unistd.h>

namespace common {
namespace {

// A tenth of the time that a busy thread of usual priority gets on the same processor.
constexpr int kLower = 10;

}  // namespace

void give_way() {
  sched_param usual{};
  if (::sched_getscheduler(0) != SCHED_OTHER) ::sched_setscheduler(0, SCHED_OTHER, &usual);
  (void)!::nice(kLower);
}

}  // namespace common
