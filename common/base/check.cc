#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/result.h"

namespace common {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  const char* slash = std::strrchr(file, '/');
  std::fprintf(stderr, "bug: %s:%d: %s failed: %.*s\n", slash ? slash + 1 : file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::abort();
}

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalidInput:
      return "invalid input";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kVerification:
      return "verification failed";
    case Code::kCorrupt:
      return "corrupt data";
    case Code::kTimedOut:
      return "timed out";
    case Code::kDeviceSick:
      return "device sick";
    case Code::kInternal:
      return "internal error";
    case Code::kOutOfRange:
      return "index out of range";
  }
  return "unknown";
}

}  // namespace common
