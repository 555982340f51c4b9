// The C compiler of this machine: what workers for the CPU compile with.
#pragma once

#include <string>

#include "common/base/result.h"

namespace common {

struct HostCompiler {
  std::string program;
  std::string version;  // the first line that the program says of itself
};

// The one that $LFARM_CC names, else the first of clang-14, clang, gcc and cc that runs.
// kUnavailable when there is none.
Result<HostCompiler> find_host_compiler();

}  // namespace common
