#include "common/runtime/executor/run_sharing.h"

#include <algorithm>

namespace common {
namespace {

// Trials come in groups of one kind, in turns. The first of a group finds the other threads as the
// group before left them, asleep or waiting, and does not count.
constexpr int kGroup = 5;
constexpr int kGroups = 4;
constexpr int kTrials = kGroup * kGroups;
// Waking threads adds little to longer runs.
constexpr int64_t kLongNs = 1'500'000;
// The other way has to be so much quicker than the present one.
constexpr double kClearly = 0.97;

int64_t median(std::vector<int64_t>& times) {
  auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

bool RunSharing::tries_sharing() const { return trial_ / kGroup % 2 == 0; }

void RunSharing::tell(int64_t ns) {
  if (trial_ < 0) {
    if (--runs_left_ == 0) trial_ = 0;
    return;
  }
  std::vector<int64_t>& times = times_[tries_sharing() ? 1 : 0];
  if (trial_ % kGroup != 0) times.push_back(ns);
  ++trial_;
  bool is_long = trial_ == kGroup && *std::min_element(times.begin(), times.end()) > kLongNs;
  if (trial_ == kTrials || is_long) decide();
}

void RunSharing::decide() {
  trial_ = -1;
  runs_left_ = kRunsBetween;
  is_settled_ = true;
  bool is_known = !times_[0].empty() && !times_[1].empty();
  if (!is_known) {
    shares_ = true;  // a long run ended the trials
  } else {
    auto present = static_cast<double>(median(times_[shares_ ? 1 : 0]));
    auto other = static_cast<double>(median(times_[shares_ ? 0 : 1]));
    if (other < kClearly * present) shares_ = !shares_;
  }
  for (std::vector<int64_t>& times : times_) times.clear();
}

}  // namespace common
