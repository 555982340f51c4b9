// Memory for temporaries that executors of one device use in turn.
//
// A training step's forward and backward plans never run at once, so that one arena, as large as
// the larger needs, does for both:
//
//   ExecutorOptions options;
//   options.arenas = std::make_shared<ArenaPool>();   // both executors get these options
#pragma once

#include <cstddef>
#include <mutex>

#include "common/runtime/executor/executor_memory.h"

namespace common {

// Thread-safe. Keeps at most one block between runs; executors that run at once allocate more. Not
// for devices whose launches are still to come when a run returns. The device outlives it.
class ArenaPool {
 public:
  // At least that many bytes; the block that is kept is given up where it is too small.
  Result<GuardedMemory> take(Device& device, size_t bytes);
  // After a run. Of two blocks the larger is kept.
  void give_back(GuardedMemory memory);
  // Gives up the block that is kept, such as when its largest user ends.
  void clear();
  // Bytes of the block that is kept; 0: none.
  size_t kept_bytes() const;

 private:
  mutable std::mutex mutex_;
  GuardedMemory kept_;
};

}  // namespace common
