// How many processors and how much memory this process may use, which in a container is less than
// the machine has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace common {

// The affinity mask's, but no more than the CPU quotas of the process's control groups (version 2's
// cpu.max, version 1's cpu.cfs_quota_us) allow, rounded up; at least 1. What cannot be read does
// not limit.
int usable_processors();

// The machine's memory, but no more than the process's control groups allow (version 2's
// memory.max, version 1's memory.limit_in_bytes).
uint64_t usable_memory_bytes();

// The processors that a quota stands for: `text` is what cpu.max holds, "max 100000" or "150000
// 100000" in microseconds of each period. Empty without a limit.
std::optional<double> quota_processors(std::string_view text);

}  // namespace common
