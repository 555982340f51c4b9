#include "clients/cli/base/report.h"

#include <cstdio>

#include "common/base/cat.h"

namespace clients {
int exit_code(common::Code code) {
  switch (code) {
    case common::Code::kInvalidInput:
      return kExitUsage;
    case common::Code::kUnsupported:
      return kExitUnsupported;
    case common::Code::kUnavailable:
      return kExitUnreachable;
    case common::Code::kVerification:
      return kExitVerification;
    case common::Code::kCorrupt:
      return kExitUsage;
    case common::Code::kTimedOut:
    case common::Code::kDeviceSick:
    case common::Code::kInternal:
    case common::Code::kOutOfRange:
      return kExitFailed;
  }
  return kExitFailed;
}

int fail(const common::Error& error) {
  std::string line = common::cat("lfarm: ", error.message);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  line += '\n';
  std::fputs(line.c_str(), stderr);
  return exit_code(error.code);
}

int exit_code_of(const common::Status& status) {
  return status.ok() ? kExitDone : fail(status.error());
}

}  // namespace clients
