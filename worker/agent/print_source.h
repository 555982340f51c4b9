// `lfarm-worker print-source DEVICE`: an encoded program on standard input, its kernels' source on
// standard output, for `lfarm print --stage source`.
#pragma once

#include "worker/agent/backend.h"

namespace worker {

// Exit code 0, or 2 with one line on standard error.
int run_print_source(const Backend& backend);

}  // namespace worker
