// Times verified programs: one by itself, by the mean of the middle half of repeated runs and of
// each call; or several beside each other, by the ratios of their times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/runtime/executor/executor.h"
#include "common/wire/task.h"
#include "worker/profile/measurement.h"

namespace worker {

// Warms up, then runs `options.repetitions` times, or more when runs are so short that a timer
// tick or an interrupt would decide, or fewer when the time is up or a run took longer than
// give_up_ns. Disturbed samples (disturbance.h) are discarded and repeated within the time; where
// nearly all are disturbed, the quickest of them count. Weights and states are bound already.
common::Result<Measurement> measure(common::Executor& executor,
                                    std::span<const common::HostTensor> inputs,
                                    const common::MeasureOptions& options);

// A program with what measure() takes.
struct Loaded {
  common::Executor* executor = nullptr;
  std::span<const common::HostTensor> inputs;
};

// The median of a ratio and the bounds of its 95 % confidence interval.
struct Ratio {
  double median = 0, low = 0, high = 0;
};

struct Comparison {
  std::vector<Measurement> all;  // in the order of the programs; without call_ns
  std::vector<Ratio> ratios;     // of the first program's time over each one's
  double disturbed = 0;          // share of rounds in which something else ran
};

// Of measurements at several sizes, with these weights, the mean; disturbed as the most disturbed
// of them. Without times of the calls where one has none. The same of comparisons, whose ratios are
// of the means.
Measurement weighted_mean(std::span<const Measurement> all, std::span<const double> weights);
Comparison weighted_mean(std::span<const Comparison> all, std::span<const double> weights);

// Runs the programs, one at least, in turns: a sample of each a round, in an order that rotates.
// Ends after `options.repetitions` rounds or options.time_max_ms, or when the ratios are known to
// 1 %.
common::Result<Comparison> compare(std::span<const Loaded> programs,
                                   const common::MeasureOptions& options);

}  // namespace worker
