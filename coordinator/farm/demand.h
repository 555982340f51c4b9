// How many workers a farm could use now: what autoscalers are told. A pure rule, so that a day of
// submits can be replayed against it (tests/sim).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coordinator::farm {

// A job's wish for a target: how many tasks it could have under way at once.
struct Appetite {
  std::string target;
  int64_t tasks = 0;
};

// The workers of a target and the tasks that they take together.
struct Supply {
  std::string target;
  int64_t workers = 0;
  int64_t slots = 0;
};

struct Demand {
  std::string target;
  int64_t queue_depth = 0;  // tasks that jobs could have under way
  int64_t workers = 0;
  int64_t wanted_workers = 0;
  int64_t tasks_waiting = 0;  // in queues: not leased to a worker, not parked for one
};

// Of a target that has no worker yet: what workers offer unless told otherwise.
inline constexpr int64_t kUsualSlots = 4;

// One for each target that is wanted or there, in the order of their names. A target with any
// appetite wants a worker; none wants more than its jobs keep busy.
std::vector<Demand> demands(const std::vector<Appetite>& appetites,
                            const std::vector<Supply>& supplies);

// All targets whose names begin with `prefix` taken together, under that name.
Demand sum_of(const std::vector<Demand>& demands, std::string_view prefix);

}  // namespace coordinator::farm
