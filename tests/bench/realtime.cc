#include "tests/bench/realtime.h"

#include <sched.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>

#include "common/base/cat.h"

namespace bench {
namespace {

constexpr int kPriority = 50;  // below the kernel's own urgent threads

// False when any thread that still runs refuses.
bool schedule(pid_t process, int policy, int priority) {
  bool done = false;
  std::error_code error;
  std::string folder = common::cat("/proc/", process, "/task");
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    sched_param parameters{};
    parameters.sched_priority = priority;
    if (::sched_setscheduler(thread, policy, &parameters) == 0) {
      done = true;
    } else if (errno != ESRCH) {
      return false;
    }
  }
  return done;
}

}  // namespace

common::Result<RealTime> RealTime::begin(pid_t process) {
  RealTime turn(process);
  if (schedule(process, SCHED_FIFO, kPriority)) return turn;
  return common::unavailable(
      "the system gives no real-time priority: leave --realtime out, or run as root");
}

RealTime::~RealTime() {
  if (process_ >= 0) (void)schedule(process_, SCHED_OTHER, 0);
}

}  // namespace bench
