// A search as its log tells of it: the best time over candidates and time, and what each candidate
// came from and came to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/report/logs/run_head.h"
#include "common/base/result.h"
#include "common/records/run_log.h"

namespace clients {

inline constexpr size_t kCandidatesMax = 100'000;  // lines
inline constexpr size_t kProgressMax = 100'000;    // lines

// What a search knew at a time. 0: not yet known.
struct ProgressPoint {
  int64_t candidates = 0;  // tried by then
  double at_s = 0;         // since the job began
  double best_ms = 0;      // of the best whole program that was measured
  double expected_ms = 0;  // that the best parts found so far will take as a whole
};

// A kernel of a candidate and how long it took, beside the schedule that it had.
struct ScheduledKernel {
  std::string kernel;     // equal for kernels that differ in their schedules alone
  NamedNumbers schedule;  // by parameter
  double ms = 0;
};

struct TriedCandidate {
  int64_t id = 0;
  int64_t region = -1;    // that it computes; -1: the whole model
  std::string origin;     // how it was found: "schedules", "crossover", ...
  std::string outcome;    // "ok", or why it has no time
  double at_s = 0;        // when its result was there
  double ms = 0;          // 0: it was not measured
  bool was_best = false;  // faster than all of its region before it
};

// How candidates of one origin did.
struct OriginCount {
  std::string origin;
  int64_t tried = 0, right = 0, kept = 0;  // kept: was_best
};

struct SearchRun {
  RunHead head;
  std::string plan;  // its id
  double best_ms = 0, baseline_ms = 0;
  std::vector<ProgressPoint> progress;     // by time
  std::vector<TriedCandidate> candidates;  // by time
  std::vector<ScheduledKernel> kernels;    // in the order of lines
};

// kInvalidInput naming the line; `first_line` is the number of the log's first.
common::Result<SearchRun> parse_search(const common::RunLog& log, int64_t first_line = 1);

// In the order of their first candidates.
std::vector<OriginCount> count_origins(const SearchRun& search);

// The least time at each pair of values of two parameters of a kernel.
struct ScheduleLandscape {
  std::string kernel, x, y;  // the parameters' names
  std::vector<double> at_x, at_y;
  NumberRows least_ms;  // a row for each of at_y; NaN where nothing was tried
  size_t tried = 0;
};
// Of each kernel that at least four schedules were tried of: the two parameters with the most pairs
// of values. The kernel with the most schedules first; at most `count_max`.
std::vector<ScheduleLandscape> schedule_landscapes(const SearchRun& search, size_t count_max);

}  // namespace clients
