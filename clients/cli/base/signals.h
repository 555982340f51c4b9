// Ctrl-C and SIGTERM as a flag that long work looks at.
#pragma once

#include "common/base/result.h"

namespace clients {

// SIGINT, SIGTERM and SIGHUP set the flag from now on; SIGPIPE is ignored.
void watch_signals();
// The signal that asked this process to stop; 0: none.
int stop_signal();
// kInternal, saying so, once a signal asked to stop.
common::Status check_stop();

}  // namespace clients
