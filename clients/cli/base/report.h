// How commands end: exit codes, and errors as one line.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/text/units.h"

namespace clients {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnsupported = 3;
inline constexpr int kExitUnreachable = 4;
inline constexpr int kExitVerification = 5;

int exit_code(common::Code code);

// Prints "lfarm: MESSAGE" on one line of standard error and returns the exit code.
int fail(const common::Error& error);
// fail(), or kExitDone where nothing failed.
int exit_code_of(const common::Status& status);

using common::bytes_text;
using common::duration_text;

}  // namespace clients
