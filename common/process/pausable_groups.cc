#include "common/process/pausable_groups.h"

#include <signal.h>

namespace common {

void PausableGroups::add(pid_t group) {
  std::lock_guard lock(mutex_);
  groups_.insert(group);
  if (paused_) ::kill(-group, SIGSTOP);
}

void PausableGroups::remove(pid_t group) {
  std::lock_guard lock(mutex_);
  if (groups_.erase(group) != 0 && paused_) ::kill(-group, SIGCONT);
}

void PausableGroups::pause() {
  std::lock_guard lock(mutex_);
  paused_ = true;
  since_ns_ = clock_.now_ns();
  signal_all(SIGSTOP);
}

void PausableGroups::resume() {
  std::lock_guard lock(mutex_);
  paused_ = false;
  earlier_ns_ += clock_.now_ns() - since_ns_;
  signal_all(SIGCONT);
}

int64_t PausableGroups::paused_ns() const {
  std::lock_guard lock(mutex_);
  return earlier_ns_ + (paused_ ? clock_.now_ns() - since_ns_ : 0);
}

void PausableGroups::signal_all(int signal) {
  for (pid_t group : groups_) ::kill(-group, signal);
}

}  // namespace common
