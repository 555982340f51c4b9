#include "common/process/host_compiler.h"

#include <cstdlib>
#include <vector>

#include "common/base/cat.h"
#include "common/process/subprocess.h"

namespace common {
namespace {

constexpr int kVersionTimeoutMs = 10'000;

}  // namespace

Result<HostCompiler> find_host_compiler() {
  std::vector<std::string> candidates = {"clang-14", "clang", "gcc", "cc"};
  if (const char* chosen = std::getenv("LFARM_CC"); chosen != nullptr && *chosen != '\0') {
    candidates = {chosen};
  }
  for (const std::string& program : candidates) {
    auto output = run_command({program, "--version"}, kVersionTimeoutMs);
    if (!output.ok() || output->timed_out || output->status.code != 0 ||
        output->status.signal != 0) {
      continue;
    }
    return HostCompiler{program, output->output.substr(0, output->output.find('\n'))};
  }
  return unavailable(cat("no C compiler runs (tried ", candidates[0],
                         candidates.size() > 1 ? ", clang, gcc, cc" : "",
                         "); install clang-14 or set LFARM_CC"));
}

}  // namespace common
