// What the emulated driver was asked to do.
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

// Whether somebody retains the device's primary context.
inline bool has_context(int device) {
  auto driver = common::SharedLibrary::open({"libcuda.so.1"});
  int (*ask)(int, unsigned*, int*) = nullptr;
  EXPECT_TRUE(driver.ok() && (*driver)->find(ask, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  EXPECT_TRUE(ask != nullptr && ask(device, &flags, &active) == 0);
  return active != 0;
}

}  // namespace emulator
