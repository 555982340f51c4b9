// How long this process's threads were ready to run and had no processor.
#pragma once

#include <cstdint>
#include <optional>

namespace worker {

// Nanoseconds of all threads since each began, or empty where the kernel does not tell them. Takes
// some 10 microseconds a thread.
//
// Source: the second field of /proc/self/task/TID/schedstat (Linux,
// Documentation/scheduler/sched-stats.rst).
std::optional<int64_t> run_delay_ns();

}  // namespace worker
