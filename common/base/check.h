// LFARM_CHECK: assertions for bugs, always on. Input errors are Results, never checks.
#pragma once

#include <string_view>

namespace common {
// Prints one line with the place and the condition to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);
}  // namespace common

#define LFARM_CHECK(condition, message)                                  \
  do {                                                                   \
    if (__builtin_expect(!(condition), 0)) {                             \
      ::common::check_failed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                    \
  } while (false)
