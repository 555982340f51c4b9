// `lfarm-worker print-source TARGET [--separated]`: an encoded program on standard input, its
// kernels' source on standard output, for `lfarm print --stage source` and the farm's page.
#pragma once

#include <string>

#include "worker/backend/backend.h"

namespace worker {

// `target`: or a device, whose own is taken where it is there. `separated`: a zero byte before each
// kernel. Exit code 0, or 2 with one line on standard error.
int run_print_source(const Backend& backend, const std::string& target, bool separated);

}  // namespace worker
