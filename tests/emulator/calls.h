// How often the emulated driver was asked to do something.
#pragma once

#include <gtest/gtest.h>

#include "common/process/shared_library.h"

namespace emulator {

// Calls of this function of the driver that did their work so far; names lack their suffixes.
inline int calls_of(const char* name) {
  auto driver = common::SharedLibrary::open({"libcuda.so.1"});
  int (*count)(const char*) = nullptr;
  EXPECT_TRUE(driver.ok() && (*driver)->find(count, "lfEmulatorCalls"));
  return count == nullptr ? -1 : count(name);
}

}  // namespace emulator
