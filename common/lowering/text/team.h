// How the threads of a GPU's block compute a kernel's units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace common {

// Vectors of `steps` steps of a loop are stored together after it. A compiler does not move a load
// before a store that may alias it: with a store in each step, the loads of the next step wait.
struct StoreBatch {
  int64_t steps = 1;  // 1: each step stores
  std::string step;   // the loop's index
  int level = 0;      // the scope around the loop
};

// `size` threads compute a unit together: they share the steps of its loops and combine what each
// of them summed. In the code a thread's number within its team is `member`.
struct Team {
  int level = 0;     // the scope that all of a team's threads run through together
  int64_t size = 1;  // a power of two, or whole warps; at most 1024
  int64_t side = 1;  // units side by side: neighbouring threads belong to neighbouring units
  int lane = -1;     // the index by which neighbouring threads differ outside of shared loops
  // So many blocks take a part each of the first reduction that the team computes together; the
  // last to finish goes on with the result. More than 1 only for teams of a whole block.
  int64_t blocks = 1;
  int64_t vector = 1;  // neighbouring steps that one thread takes at once, where memory allows
  // The indices of the units that the team computes at once, along the axis in which they differ;
  // empty where it computes one.
  std::vector<int> rows;
  bool ahead = false;  // a loop's vectors are loaded one step before they are used
  StoreBatch batch;
};

}  // namespace common
