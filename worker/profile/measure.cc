#include "worker/profile/measure.h"

#include <algorithm>
#include <cmath>

#include "common/base/clock.h"
#include "common/base/log.h"

namespace worker {
namespace {

// Short runs are repeated for at least this long, at most this many times as often as asked.
constexpr int64_t kShortRunsNs = 10'000'000;
constexpr uint32_t kShortRunsFactor = 20;
// Calls are timed one by one in at most this share of the time for whole runs.
constexpr int64_t kCallTimeDivisor = 2;
// Runs that are not counted because the device was slowed down.
constexpr uint32_t kDroppedMax = 20;

uint64_t quantile(std::vector<uint64_t>& values, double q) {
  std::ptrdiff_t index = std::lround(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<size_t>(index)];
}

// Whether to stop after `runs` runs that took `spent_ns` together.
bool enough(const common::MeasureOptions& options, uint32_t runs, int64_t spent_ns,
            int64_t time_max_ns) {
  if (runs == 0) return false;
  if (spent_ns >= time_max_ns) return true;
  uint32_t wanted = std::max<uint32_t>(1, options.repetitions);
  if (runs < wanted) return false;
  return spent_ns >= kShortRunsNs || runs / kShortRunsFactor >= wanted;
}

}  // namespace

common::Result<Measurement> measure(common::Executor& executor,
                                    std::span<const common::HostTensor> inputs,
                                    const common::MeasureOptions& options) {
  common::SteadyClock clock;
  common::RunOutputs outputs;
  Measurement result;
  int64_t time_max_ns = static_cast<int64_t>(options.time_max_ms) * 1'000'000;
  std::vector<uint64_t> totals;
  int64_t start = clock.now_ns();
  const int64_t began = start;
  // Giving up is for saving time: where there is none to save, a program that takes a microsecond
  // would be given up for the cold caches of its first run.
  auto too_slow = [&](int64_t ns) {
    return options.give_up_ns != 0 && static_cast<uint64_t>(ns) > options.give_up_ns &&
           clock.now_ns() - began >= kShortRunsNs;
  };

  for (uint32_t k = 0; k < options.warmups; ++k) {
    LFARM_ASSIGN_OR_RETURN(int64_t ns, executor.run_total_ns(inputs, outputs));
    // A cold run is slower than a warm one, so that only a clear case ends here.
    if (too_slow(ns / 2) || clock.now_ns() - start > time_max_ns) {
      totals.push_back(static_cast<uint64_t>(ns));
      break;
    }
  }
  bool gave_up = !totals.empty();
  uint32_t dropped = 0;
  start = clock.now_ns();
  while (!gave_up && !enough(options, static_cast<uint32_t>(totals.size()), clock.now_ns() - start,
                             time_max_ns)) {
    LFARM_ASSIGN_OR_RETURN(int64_t ns, executor.run_total_ns(inputs, outputs));
    // Where every run is slowed down, slow times are the true ones.
    if (dropped < kDroppedMax) {
      std::string slowdown = executor.device().slowdown();
      if (!slowdown.empty()) {
        if (dropped++ == 0) common::log_warning("runs are not counted: " + slowdown);
        continue;
      }
    }
    totals.push_back(static_cast<uint64_t>(ns));
    gave_up = too_slow(ns) && totals.size() >= 2;
  }
  result.runs = static_cast<uint32_t>(totals.size());
  result.total_ns = quantile(totals, 0.5);
  result.spread_ns = quantile(totals, 0.75) - quantile(totals, 0.25);
  if (!options.per_kernel || gave_up) return result;

  std::vector<std::vector<uint64_t>> calls(executor.plan().calls.size());
  start = clock.now_ns();
  for (uint32_t runs = 0; runs < result.runs; ++runs) {
    LFARM_ASSIGN_OR_RETURN(auto times, executor.run_calls_ns(inputs, outputs));
    for (size_t c = 0; c < calls.size(); ++c) calls[c].push_back(static_cast<uint64_t>(times[c]));
    if (clock.now_ns() - start > time_max_ns / kCallTimeDivisor) break;
  }
  for (std::vector<uint64_t>& times : calls) result.call_ns.push_back(quantile(times, 0.5));
  return result;
}

}  // namespace worker
