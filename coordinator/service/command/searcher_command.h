// `lfarm-coordinator --role search`: a searcher's command line.
#pragma once

#include "coordinator/service/loop/options.h"

namespace coordinator::service {

// Whether the arguments ask for a searcher.
bool asks_for_searcher(int argc, const char* const* argv);
// Searches for a coordinator until SIGTERM or SIGINT, which end the process at once. Returns the
// exit code: 2 for wrong usage, an endpoint or a key, 3 for a coordinator of another build, 1 for
// anything else.
int run_searcher_command(int argc, const char* const* argv, SearchFactory create_search);

}  // namespace coordinator::service
