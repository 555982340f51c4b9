// A farm scheduler under a clock that only the test moves, and filters for its actions.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "coordinator/farm/scheduler.h"

namespace coordinator::farm {

inline constexpr int64_t kMs = 1'000'000;

inline common::Digest candidate(const std::string& name) { return common::digest_of(name); }

// A scheduler with a clock that only the test moves.
struct Farm {
  explicit Farm(Config config = {}) : config(config), scheduler(config) {}

  std::vector<Action> on(const Event& event) {
    auto actions = scheduler.on_event(event, now_ms * kMs);
    scheduler.check_invariants();
    return actions;
  }
  std::vector<Action> hello(WorkerId worker, uint32_t slots = 1, const std::string& target = "cpu",
                            uint64_t incarnation = 1) {
    return on(WorkerHello{worker, incarnation, target, slots});
  }
  void job(JobId id, const std::string& tenant = "team", uint32_t priority = 10) {
    on(JobAdded{id, tenant, priority});
  }
  std::vector<Action> task(TaskId id, JobId job = 1, const std::string& name = "",
                           const std::string& target = "cpu", uint32_t cost = 1) {
    TaskAdded added;
    added.task = id;
    added.job = job;
    added.target = target;
    added.run_limit_ms = 1000;
    added.cost = cost;
    if (!name.empty()) added.fingerprint = candidate(name);
    added.payload = id + 1000;
    return on(added);
  }
  std::vector<Action> result(WorkerId worker, TaskId task, Epoch epoch,
                             TaskOutcome outcome = TaskOutcome::kOk, Handle handle = 7) {
    return on(TaskResult{worker, task, epoch, outcome, handle});
  }
  std::vector<Action> beat(WorkerId worker, std::vector<HeldLease> leases = {},
                           uint32_t slots = 1) {
    return on(WorkerHeartbeat{worker, 1, slots, std::move(leases)});
  }
  std::vector<Action> tick_after(int64_t ms) {
    now_ms += ms;
    return on(Tick{});
  }
  // Lets `ms` pass in ticks of a second, with heartbeats of these workers each second.
  std::vector<Action> pass(int64_t ms, const std::map<WorkerId, std::vector<HeldLease>>& beats) {
    std::vector<Action> all;
    for (int64_t end = now_ms + ms; now_ms < end;) {
      for (const auto& [worker, leases] : beats) append(all, beat(worker, leases));
      append(all, tick_after(std::min<int64_t>(1000, end - now_ms)));
    }
    return all;
  }
  static void append(std::vector<Action>& to, std::vector<Action> from) {
    for (Action& action : from) to.push_back(std::move(action));
  }

  Config config;
  Scheduler scheduler;
  int64_t now_ms = 1000;
};

template <class Kind>
std::vector<Kind> only(const std::vector<Action>& actions) {
  std::vector<Kind> found;
  for (const Action& action : actions) {
    if (const Kind* kind = std::get_if<Kind>(&action)) found.push_back(*kind);
  }
  return found;
}

template <class Kind>
size_t count(const std::vector<Action>& actions) {
  return only<Kind>(actions).size();
}

}  // namespace coordinator::farm
