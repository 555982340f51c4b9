// The worker as a program, for whichever devices it is built with.
#pragma once

#include <span>

#include "worker/backend/backend.h"

namespace worker {

// In the order in which --device auto tries them; at least one.
using Backends = std::span<const Backend* const>;

// Takes tasks from a coordinator, compiles them, and has its executor child verify and measure
// them, until SIGTERM or SIGINT drains it. Returns the exit code; threads may still run then.
int run_worker(int argc, char** argv, Backends backends);

}  // namespace worker
