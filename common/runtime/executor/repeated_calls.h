// Times a plan's calls as they run in a recorded row, where no launch by the host and no event lies
// between two kernels, and a kernel that may begin early does. For the executor's own sources.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/runtime/device/device.h"

namespace common {

class BoundCalls;

// Each kernel is repeated in a recording of its own, and a time is that of the recording over its
// launches:
//
//   launch a; launch a; [a a a a a a a a]; launch b; [b b b b b b b b]; launch a; ...
//
// Calls of one kernel on equal sizes are timed once. Repetitions change nothing that the calls
// behind read: results that lie in an operand's memory go elsewhere, others are written again as
// they were. Weights and states are read from copies, one for each repetition, as a run reads them
// that finds them in the device's memory and not in its caches.
class RepeatedCalls {
 public:
  // `calls` outlives it, and was made ready with Pace::kOneByOne before each run. `is_cold`:
  // weights and states are not in the caches when a run's call reads them.
  RepeatedCalls(BoundCalls& calls, bool is_cold);

  // Runs all calls in order; nanoseconds of each. What takes long, or cannot be recorded, is timed
  // as it is launched.
  Result<std::vector<int64_t>> run(Device& device);

 private:
  // Weights, states and what calls at load made, of one call.
  struct ColdInput {
    size_t pointer;  // among the calls'
    size_t bytes;
    size_t offset;  // in a repetition's part of the pool
  };
  struct Group {
    std::vector<size_t> records;  // the first is timed
    std::vector<ColdInput> cold;
    std::vector<size_t> moved;        // pointers of outputs that lie in an input's memory
    size_t part_bytes = 0;            // of the pool, for each repetition
    size_t moved_bytes = 0;           // for all repetitions together
    int64_t launched_ns = INT64_MAX;  // the least that a launch took
    size_t repetitions = 0;           // of the recording
    bool is_recordable = true;
    std::unique_ptr<Recording> recording;
  };

  void find_operands(Group& group, bool is_cold);
  static void choose_repetitions(Group& group);
  Result<int64_t> time_group(Device& device, Timer& timer, Group& group);
  Status fill_pool(Device& device, const Group& group);
  Status launch_repetitions(Device& device, const Group& group);

  BoundCalls& calls_;
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;  // by record
  bool is_cold_;
  DeviceMemory pool_;
};

}  // namespace common
