// Spreads the blocks of one launch over a few operating system threads.
#pragma once

#include <memory>

#include "tests/emulator/device/multiprocessor.h"

namespace emulator {

// Its helper threads start with the first launch of several blocks and live as long as the process.
class GridRunner {
 public:
  GridRunner();
  ~GridRunner();
  GridRunner(const GridRunner&) = delete;
  GridRunner& operator=(const GridRunner&) = delete;
  // Returns when all blocks have ended, with the first fault. One call at a time.
  Fault run(const GridLaunch& launch);

 private:
  struct Helpers;
  std::unique_ptr<Helpers> helpers_;
  Multiprocessor own_;
};

}  // namespace emulator
