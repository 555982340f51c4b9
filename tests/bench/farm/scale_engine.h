// The engine of several coordinators with many plans.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

// Writes `plans` plans of `plan_bytes` bytes to the engine and prints one line of JSON.
// Throws where the server cannot be used or is not empty.
int run_scale_engine(const std::string& address, int64_t plans, size_t plan_bytes);

}  // namespace bench
