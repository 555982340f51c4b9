// A day of submits against the rule that autoscalers are told (coordinator/farm/demand.h), with an
// autoscaler, pods that take time to start and workers that take one task after the other.
//
// The autoscaler is KEDA over the cluster's own: it asks every `poll_s`; from nothing to one as
// soon as anything is wanted, to nothing once nothing was wanted for `cooldown_s`, and between one
// and `workers_max` by the larger of what is wanted now and of what was wanted within
// `stabilize_s`, upwards at most doubling, or by four, in 15 s (the defaults of Kubernetes'
// HorizontalPodAutoscaler, autoscaling/v2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace scaling {

struct DayJob {
  double submitted_s = 0;  // since midnight
  int64_t tasks = 0;       // candidates
  double task_s = 0;       // of a worker, for one of them
  friend bool operator==(const DayJob&, const DayJob&) = default;
};

// People at work, a trickle at night, and a nightly build. The rate of submits by day follows
// 1 - cos over the hours from 8 to 20, with `night_share` of its mean at all other times; tasks are
// log-normal around `tasks_median` and cut to [6, 4096], seconds a task log-normal around
// `task_s_median`. At 2 o'clock `nightly` jobs come within ten minutes.
struct DayOptions {
  uint64_t seed = 1;
  int64_t jobs = 300;
  int64_t nightly = 30;
  double night_share = 0.05;
  double tasks_median = 120, tasks_sigma = 1.0;
  double task_s_median = 4, task_s_sigma = 0.6;
};
// In the order of submits.
std::vector<DayJob> generate_day(const DayOptions& options);
// One a line: "SECONDS TASKS TASK_SECONDS"; what follows '#' is a comment. kInvalidInput names the
// line that is none.
common::Result<std::vector<DayJob>> parse_day(const std::string& text);

struct ScalingRule {
  std::string name;
  int64_t fixed = 0;  // workers that are always there; 0: the autoscaler decides
  double poll_s = 15, cooldown_s = 600, stabilize_s = 300;
  int64_t workers_min = 0, workers_max = 16;
  // Of the farm: tasks that a worker takes at once, candidates of a job in flight, jobs at a time.
  int64_t slots = 4, in_flight = 12, searches_max = 4;
  // What is counted as demand: tasks that jobs could have under way (as the farm says it), or all
  // that they have left.
  bool counts_all_tasks = false;
  double start_s =
      150;  // from a pod's creation to a worker that has joined, a node's start included
  double prepare_s = 5;  // of the coordinator, before a job has candidates
};

struct DayResult {
  // Of jobs, from the submit to the first task on a worker, and to the last one's end.
  std::vector<double> wait_s, done_s;
  double worker_hours = 0;  // of pods, from their creation to their end
  double ideal_hours = 0;   // of tasks
  int64_t pods = 0, workers_peak = 0;
  int64_t tasks = 0;         // that ended
  int64_t returned = 0;      // leases that a worker gave back when it was stopped
  int64_t workers_left = 0;  // at the end
  double end_s = 0;          // when nothing was left to do and the farm was as it will stay
};

// Steps of a second. Ends once every job has and the autoscaler has come to rest.
DayResult replay_day(const std::vector<DayJob>& day, const ScalingRule& rule);

}  // namespace scaling
