// The command line of the coordinator, apart from main so that tests can give it their own search.
#pragma once

#include "coordinator/service/loop/options.h"

namespace coordinator::service {

// Serves until SIGTERM or SIGINT and returns the process's exit code: 0 stopped, 2 wrong usage or
// endpoint, 4 the state directory is in use, 1 anything else. SIGHUP reads the allow-list again.
// With `--role search`, a searcher (searcher_command.h).
int run_coordinator(int argc, const char* const* argv, SearchFactory create_search);

}  // namespace coordinator::service
