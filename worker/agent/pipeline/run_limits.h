// How long a candidate may be compiled and may run before its child is killed.
#pragma once

#include <cstdint>

#include "common/wire/task.h"
#include "worker/profile/executor_client.h"

namespace worker {

// A whole program is compiled in a few seconds; beyond this the compiler hangs.
inline constexpr int kCompileMsMax = 120'000;
// For the runs of a candidate that verify it, on a dozen inputs under guards: at least, so that a
// page fault or a busy machine is no hang, and at most, which is also what they have while nobody
// knows how long such a graph takes.
inline constexpr int64_t kVerifyMsMin = 3'000;
inline constexpr int64_t kVerifyMsMax = 30'000;
// A verified run fills and copies besides running: as long as about so many plain runs.
inline constexpr int64_t kRunsPerCase = 16;
// For measuring: so many times what the task asks for, since warm-ups and runs by call come on top.
inline constexpr int64_t kMeasureFactor = 3;

// Milliseconds for the compiler, of `left_ms` that the task's lease has left.
int compile_limit_ms(int64_t left_ms);

// A candidate has kVerifyMsMin and, for each input that it is verified on, kRunsPerCase times
// measure.give_up_ns, which the search sets to a multiple of the best known time: a candidate that
// is slower by that is of no use. On top comes the measuring. Other tasks (baselines, finalists)
// run known code and have all of `left_ms`, which bounds everything.
ProfileLimits run_limits(const common::TaskPayload& task, int64_t left_ms);

}  // namespace worker
