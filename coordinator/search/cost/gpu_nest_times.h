// What a kernel of loops takes on a GPU, by the nests that its schedules become.
#pragma once

#include <map>
#include <vector>

#include "common/ir/llir/llir.h"

namespace coordinator {

// One body's times, each predicted when it is first asked for. Not thread-safe.
class GpuNestTimes {
 public:
  explicit GpuNestTimes(const common::Graph& body);
  // Nanoseconds of one launch, with the launch; infinity where no code comes of the schedule.
  double predict_ns(const common::Schedule& schedule);

 private:
  common::Graph body_;  // without structured operations
  std::map<common::Schedule, double> known_;
};

}  // namespace coordinator
