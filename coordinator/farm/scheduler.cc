#include "coordinator/farm/scheduler.h"

#include "coordinator/farm/machine.h"

namespace coordinator::farm {

Scheduler::Scheduler(const Config& config) : machine_(std::make_unique<Machine>(config)) {}
Scheduler::~Scheduler() = default;

std::vector<Action> Scheduler::on_event(const Event& event, int64_t now_ns) {
  return machine_->on_event(event, now_ns);
}
std::optional<int64_t> Scheduler::next_timer_ns() const { return machine_->next_timer_ns(); }
Stats Scheduler::stats() const { return machine_->stats(); }
std::vector<WorkerView> Scheduler::workers() const { return machine_->workers(); }
std::vector<JobView> Scheduler::jobs() const { return machine_->jobs(); }
std::map<std::string, size_t> Scheduler::tasks_waiting() const { return machine_->tasks_waiting(); }
bool Scheduler::knows_worker(WorkerId worker) const { return machine_->knows_worker(worker); }
void Scheduler::check_invariants() const { machine_->check_invariants(); }

}  // namespace coordinator::farm
