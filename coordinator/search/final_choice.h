// Chooses a search's result among whole programs that were verified: by comparisons, tasks in which
// a worker runs them in turns, because times of different minutes say little on a busy machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/task.h"
#include "coordinator/search/job_search.h"

namespace coordinator {

// A whole program that was verified, and its time by itself.
struct Contender {
  common::Program program;
  uint64_t total_ns = 0;
};

// What the choice rests on. Times and ratios are of the comparison that decided.
struct Choice {
  size_t contender = 0;
  uint64_t total_ns = 0;  // of one run
  uint64_t first_ns = 0;  // of the first contender
  // The first contender's time over the chosen one's, and its 95 % confidence interval; 0: there
  // was no comparison, and the least time counted.
  double speedup = 0, speedup_low = 0, speedup_high = 0;
  double disturbed = 0;  // share of rounds that were disturbed
  std::string note;      // for people; empty where there is nothing to say
};

class FinalChoice {
 public:
  // The first contender is the plain program or, where that failed, any. At least one. `time_ms`:
  // of the search, of which comparisons take an eighth at most; 0: not limited.
  explicit FinalChoice(std::vector<Contender> contenders, int64_t time_ms = 0);

  // The comparison to send next, without graph and sizes; empty while one is awaited or when it is
  // decided. Each one's fingerprint is its own.
  struct Task {
    common::Digest fingerprint;
    common::TaskPayload payload;
  };
  std::optional<Task> next();
  void tell(const CandidateResult& result);
  bool is_decided() const { return is_decided_; }
  const Choice& choice() const { return choice_; }

 private:
  void decide_by_own_times();
  bool take(const common::TaskReport& report);
  void add_note();

  std::vector<Contender> contenders_;
  std::vector<size_t> rivals_;  // contenders by the place of their reports
  int64_t time_left_ms_;        // for comparisons
  int attempts_ = 0;
  bool is_awaited_ = false;
  bool is_decided_ = false;
  Choice choice_;
};

}  // namespace coordinator
