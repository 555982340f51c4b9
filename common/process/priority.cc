#include "common/process/priority.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace common {
namespace {

// A tenth of the time that a busy thread of usual priority gets on the same processor.
constexpr int kLower = 10;
// Where other programs keep all processors busy, that would be a fortieth of one and less, and what
// is measured is measured among them anyway: half of the usual share.
constexpr int kLowerInACrowd = 3;
constexpr long kCrowd = 2;  // runnable threads for each processor, more than lfarm has itself

const long kProcessors = ::sysconf(_SC_NPROCESSORS_ONLN);

// The fourth field of /proc/loadavg, "3/120"; 0 where it cannot be read.
long runnable_threads() {
  int fd = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128];
  ssize_t length = ::read(fd, text, sizeof text);
  ::close(fd);
  int field = 1;
  long count = 0;
  for (ssize_t k = 0; k < length && field <= 4; ++k) {
    if (text[k] == ' ') {
      ++field;
    } else if (field == 4) {
      if (text[k] < '0' || text[k] > '9') break;
      count = count * 10 + (text[k] - '0');
    }
  }
  return count;
}

}  // namespace

int niceness_to_give_way(long runnable, long processors) {
  return runnable > kCrowd * processors ? kLowerInACrowd : kLower;
}

void give_way() {
  sched_param usual{};
  if (::sched_getscheduler(0) != SCHED_OTHER) ::sched_setscheduler(0, SCHED_OTHER, &usual);
  (void)!::nice(niceness_to_give_way(runnable_threads(), kProcessors));
}

}  // namespace common
