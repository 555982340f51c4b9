// Times a verified candidate: the mean of the middle half of repeated runs of the whole plan, and
// of each call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/runtime/executor.h"
#include "common/wire/task.h"

namespace worker {

struct Measurement {
  uint64_t total_ns = 0;   // mean of the middle half
  uint64_t spread_ns = 0;  // from the first to the third quartile
  uint32_t runs = 0;
  std::vector<uint64_t> call_ns;  // the same of each call; empty unless asked for
};

// Warms up, then runs `options.repetitions` times, or more when runs are so short that a timer
// tick or an interrupt would decide, or fewer when the time is up or a run took longer than
// give_up_ns. Runs while something outside slowed the device down are not counted, as long as they
// are few. Weights and states are bound already.
common::Result<Measurement> measure(common::Executor& executor,
                                    std::span<const common::HostTensor> inputs,
                                    const common::MeasureOptions& options);

}  // namespace worker
