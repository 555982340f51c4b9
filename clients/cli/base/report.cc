#include "clients/cli/base/report.h"

#include <cmath>
#include <cstdio>

#include "common/base/cat.h"

namespace clients {
namespace {

// Three significant digits and a unit.
std::string scaled(double value, const char* unit) {
  char text[64];
  int digits = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, unit);
  return text;
}

}  // namespace

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

std::string duration_text(double ns) {
  if (ns == 0) return "0 s";
  if (ns < 999.5) return scaled(ns, "ns");
  if (ns < 999.5e3) return scaled(ns / 1e3, "us");
  if (ns < 999.5e6) return scaled(ns / 1e6, "ms");
  return scaled(ns / 1e9, "s");
}

std::string bytes_text(double bytes) {
  if (bytes < 1024) return common::cat(static_cast<int64_t>(bytes), " bytes");
  if (bytes < 1024.0 * 1024) return scaled(bytes / 1024, "KiB");
  if (bytes < 1024.0 * 1024 * 1024) return scaled(bytes / 1024 / 1024, "MiB");
  return scaled(bytes / 1024 / 1024 / 1024, "GiB");
}

}  // namespace clients
