// Decides whether a run's launches are shared with the device's other threads, by trying both.
//
// What sharing a launch costs depends on the launches around it: threads that wait between them
// fall asleep, and waking them takes longer than many a kernel. A device that decides launch by
// launch runs a plan of small kernels at one speed or at half of it, as its first timings fell out.
// So runs as wholes are timed, some with and some without the other threads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace common {

// Of one plan on one size set. Not thread-safe.
class RunSharing {
 public:
  // Whether the next run may share its launches.
  bool may_share() const { return trial_ < 0 ? shares_ : tries_sharing(); }
  // Whether the next run's time is wanted.
  bool is_trial() const { return trial_ >= 0; }
  // The next run took `ns`. A run that is a trial is told with its time, any other with 0.
  void tell(int64_t ns);
  // Whether the first trials are over.
  bool is_settled() const { return is_settled_; }

 private:
  bool tries_sharing() const;
  void decide();

  int64_t runs_left_ = kFirstRuns;  // until trials begin
  int trial_ = -1;                  // of kTrials; -1: none is under way
  bool shares_ = true;
  bool is_settled_ = false;
  std::array<std::vector<int64_t>, 2> times_;  // without and with sharing

  // The device times single launches meanwhile.
  static constexpr int64_t kFirstRuns = 5;
  // Trials are repeated after so many runs, because the machine's other load may have changed.
  static constexpr int64_t kRunsBetween = 20'000;
};

}  // namespace common
