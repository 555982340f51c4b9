#include "worker/profile/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/clock.h"
#include "common/base/log.h"

namespace worker {
namespace {

// Short runs are repeated for at least this long, at most this many times as often as asked.
constexpr int64_t kShortRunsNs = 10'000'000;
constexpr uint32_t kShortRunsFactor = 1000;
// Shorter runs are taken together for at least this long: where a clock ticks every 10 ns, one run
// of 62 ns looks like one of 60 or of 70, and only their mean like one of 62.
constexpr uint64_t kBatchNs = 2'000;
// Calls are timed one by one in at most this share of the time for whole runs.
constexpr int64_t kCallTimeDivisor = 2;
// Runs that are not counted because the device was slowed down: so many, and one for each that is.
constexpr uint32_t kDroppedMax = 20;

uint64_t quantile(std::vector<uint64_t>& values, double q) {
  std::ptrdiff_t index = std::lround(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<size_t>(index)];
}

// The mean of the middle half of runs, those that are short in batches: as deaf to interruptions as
// a median, and finer than the ticks of the clock.
uint64_t middle_mean(const std::vector<uint64_t>& values) {
  size_t batch = kBatchNs / std::max<uint64_t>(1, values[values.size() / 2]);
  batch = std::clamp<size_t>(batch, 1, std::max<size_t>(1, values.size() / 8));
  std::vector<double> means;
  for (size_t begin = 0; begin + batch <= values.size(); begin += batch) {
    double sum = 0;
    for (size_t k = begin; k < begin + batch; ++k) sum += static_cast<double>(values[k]);
    means.push_back(sum / static_cast<double>(batch));
  }
  std::sort(means.begin(), means.end());
  size_t cut = means.size() / 4;
  auto end = means.end() - static_cast<std::ptrdiff_t>(cut);
  double sum = std::accumulate(means.begin() + static_cast<std::ptrdiff_t>(cut), end, 0.0);
  return static_cast<uint64_t>(std::lround(sum / static_cast<double>(means.size() - 2 * cut)));
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
    if (dropped < kDroppedMax + totals.size()) {
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
  result.total_ns = middle_mean(totals);
  result.spread_ns = quantile(totals, 0.75) - quantile(totals, 0.25);
  if (!options.per_kernel || gave_up) return result;

  std::vector<std::vector<uint64_t>> calls(executor.plan().calls.size());
  start = clock.now_ns();
  for (uint32_t runs = 0; runs < result.runs; ++runs) {
    LFARM_ASSIGN_OR_RETURN(auto times, executor.run_calls_ns(inputs, outputs));
    for (size_t c = 0; c < calls.size(); ++c) calls[c].push_back(static_cast<uint64_t>(times[c]));
    if (clock.now_ns() - start > time_max_ns / kCallTimeDivisor) break;
  }
  for (std::vector<uint64_t>& times : calls) result.call_ns.push_back(middle_mean(times));
  return result;
}

}  // namespace worker
