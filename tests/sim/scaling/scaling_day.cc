#include "tests/sim/scaling/scaling_day.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numbers>
#include <sstream>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "coordinator/farm/demand.h"

namespace scaling {
namespace {

using coordinator::farm::Appetite;
using coordinator::farm::Supply;

constexpr double kHour = 3600;
constexpr double kDay = 24 * kHour;
constexpr double kAutoscalerPeriod = 15;
constexpr const char* kTarget = "cuda-sm_90a";

// Box and Muller's transform.
double normal(common::Random& random) {
  double u = 1 - random.unit(), v = random.unit();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

double rate_at(double s, double night_share) {
  double hour = s / kHour;
  double day = hour < 8 || hour >= 20 ? 0 : 1 - std::cos((hour - 8) / 12 * 2 * std::numbers::pi);
  return std::max(day, night_share);
}

// ---- The farm ----------------------------------------------------------------------------------

struct Job {
  DayJob what;
  int64_t unsent = 0;    // tasks that wait for a place in flight
  int64_t waiting = 0;   // in the queue
  int64_t running = 0;   // with workers
  double begins_s = -1;  // when it may send; -1: it waits for its turn
  double first_s = -1;   // when its first task began
  bool is_done() const { return unsent + waiting + running == 0; }
  int64_t open() const { return waiting + running; }
};

struct Worker {
  double born_s = 0, ready_s = 0;
  bool is_stopping = false;
  Job* job = nullptr;  // whose task it has
  double left_s = 0;
};

class Replay {
 public:
  Replay(const std::vector<DayJob>& day, const ScalingRule& rule) : rule_(rule) {
    for (const DayJob& job : day) jobs_.push_back({job, job.tasks, 0, 0, -1, -1});
    for (int64_t k = 0; k < rule.fixed; ++k) workers_.push_back({0, 0, false, nullptr, 0});
    wanted_pods_ = rule.fixed;
    result_.pods = result_.workers_peak = rule.fixed;
  }
  DayResult run();

 private:
  void begin_jobs();
  void refill(Job& job) const;
  int64_t wanted() const;
  void scale();
  void follow(int64_t wanted);
  void resize();
  void work();
  bool take_task(Worker& worker);
  void end_task(Worker& worker);
  bool has_rest() const;

  const ScalingRule& rule_;
  double now_s_ = 0;
  std::deque<Job> jobs_;      // in the order of submits
  size_t next_ = 0;           // to be submitted
  std::vector<Job*> active_;  // submitted, not done
  std::vector<Worker> workers_;
  size_t turn_ = 0;  // whose task is next
  // The autoscaler's.
  int64_t wanted_pods_ = 0;
  double last_active_s_ = -1e9, next_poll_s_ = 0, next_sync_s_ = 0;
  int64_t polled_ = 0;
  std::deque<std::pair<double, int64_t>> history_;
  DayResult result_;
};

void Replay::refill(Job& job) const {
  int64_t room = std::max<int64_t>(0, rule_.in_flight - job.open());
  int64_t sent = std::min(room, job.unsent);
  job.unsent -= sent;
  job.waiting += sent;
}

void Replay::begin_jobs() {
  while (next_ < jobs_.size() && jobs_[next_].what.submitted_s <= now_s_) {
    active_.push_back(&jobs_[next_++]);
  }
  int64_t searching = 0;
  for (Job* job : active_) {
    if (job->begins_s < 0 && searching < rule_.searches_max) {
      job->begins_s = now_s_ + rule_.prepare_s;
    }
    searching += job->begins_s >= 0;
    if (job->begins_s >= 0 && job->begins_s <= now_s_) refill(*job);
  }
}

// As JobTable::appetites() counts them, and through the farm's own rule.
int64_t Replay::wanted() const {
  std::vector<Appetite> appetites;
  for (const Job* job : active_) {
    bool has_begun = job->begins_s >= 0 && job->begins_s <= now_s_;
    int64_t tasks = has_begun ? std::max<int64_t>(1, job->open()) : rule_.in_flight;
    if (rule_.counts_all_tasks) tasks = job->unsent + job->open();
    appetites.push_back({kTarget, tasks});
  }
  std::vector<Supply> supplies;
  for (const Worker& worker : workers_) {
    if (worker.ready_s <= now_s_ && !worker.is_stopping) {
      supplies.push_back({kTarget, 1, rule_.slots});
    }
  }
  return coordinator::farm::sum_of(coordinator::farm::demands(appetites, supplies), "cuda")
      .wanted_workers;
}

void Replay::follow(int64_t wanted) {
  int64_t least = std::max<int64_t>(1, rule_.workers_min);
  int64_t advised = std::clamp(wanted, least, rule_.workers_max);
  history_.emplace_back(now_s_, advised);
  while (history_.front().first < now_s_ - rule_.stabilize_s) history_.pop_front();
  if (advised > wanted_pods_) {
    wanted_pods_ = std::min(advised, std::max(2 * wanted_pods_, wanted_pods_ + 4));
    return;
  }
  int64_t held = advised;
  for (const auto& [at_s, workers] : history_) held = std::max(held, workers);
  wanted_pods_ = std::min(wanted_pods_, held);
}

void Replay::scale() {
  if (rule_.fixed != 0) return;
  if (now_s_ >= next_poll_s_) {
    next_poll_s_ = now_s_ + rule_.poll_s;
    polled_ = wanted();
    if (polled_ > 0) last_active_s_ = now_s_;
    if (polled_ > 0 && wanted_pods_ == 0) wanted_pods_ = 1;
    if (polled_ == 0 && now_s_ - last_active_s_ >= rule_.cooldown_s) {
      wanted_pods_ = rule_.workers_min;
      history_.clear();
    }
  }
  if (now_s_ >= next_sync_s_) {
    next_sync_s_ = now_s_ + kAutoscalerPeriod;
    if (wanted_pods_ > 0) follow(polled_);
  }
  resize();
}

// Pods that are not ready go first, then those that do nothing (components/deletion-cost).
void Replay::resize() {
  auto stays = [](const Worker& worker) { return !worker.is_stopping; };
  auto there = static_cast<int64_t>(std::count_if(workers_.begin(), workers_.end(), stays));
  for (; there < wanted_pods_; ++there) {
    workers_.push_back({now_s_, now_s_ + rule_.start_s, false, nullptr, 0});
    ++result_.pods;
    result_.workers_peak = std::max(result_.workers_peak, there + 1);
  }
  auto cost = [this](const Worker& worker) {
    return worker.ready_s > now_s_ ? 0 : worker.job == nullptr ? 1 : 2;
  };
  for (; there > wanted_pods_; --there) {
    Worker* cheapest = nullptr;
    for (Worker& worker : workers_) {
      if (!stays(worker)) continue;
      if (cheapest == nullptr || cost(worker) < cost(*cheapest)) cheapest = &worker;
    }
    cheapest->is_stopping = true;  // it ends the task on its device first
    result_.returned += cheapest->job != nullptr ? rule_.slots - 1 : 0;
  }
}

// Jobs take turns.
bool Replay::take_task(Worker& worker) {
  for (size_t k = 0; k < active_.size(); ++k) {
    Job* job = active_[(turn_ + k) % active_.size()];
    if (job->waiting == 0) continue;
    turn_ += k + 1;
    --job->waiting;
    ++job->running;
    if (job->first_s < 0) job->first_s = now_s_;
    worker.job = job;
    worker.left_s = job->what.task_s;
    return true;
  }
  return false;
}

void Replay::end_task(Worker& worker) {
  Job& job = *worker.job;
  worker.job = nullptr;
  --job.running;
  ++result_.tasks;
  result_.ideal_hours += job.what.task_s / kHour;
  refill(job);
}

void Replay::work() {
  for (Worker& worker : workers_) {
    double room_s = worker.ready_s <= now_s_ ? 1 : 0;
    while (room_s > 0) {
      if (worker.job == nullptr && (worker.is_stopping || !take_task(worker))) break;
      double spent_s = std::min(room_s, worker.left_s);
      worker.left_s -= spent_s;
      room_s -= spent_s;
      if (worker.left_s <= 1e-9) end_task(worker);
    }
  }
  std::erase_if(workers_, [this](const Worker& worker) {
    bool is_gone = worker.is_stopping && worker.job == nullptr;
    if (is_gone) result_.worker_hours += (now_s_ + 1 - worker.born_s) / kHour;
    return is_gone;
  });
  std::erase_if(active_, [this](const Job* job) {
    if (!job->is_done()) return false;
    result_.wait_s.push_back(job->first_s - job->what.submitted_s);
    result_.done_s.push_back(now_s_ + 1 - job->what.submitted_s);
    return true;
  });
}

bool Replay::has_rest() const {
  bool is_done = next_ == jobs_.size() && active_.empty() && now_s_ >= kDay;
  auto least = std::max(rule_.fixed, rule_.workers_min);
  return is_done && static_cast<int64_t>(workers_.size()) <= least && wanted_pods_ <= least;
}

DayResult Replay::run() {
  for (; !has_rest(); ++now_s_) {
    begin_jobs();
    scale();
    work();
  }
  result_.workers_left = static_cast<int64_t>(workers_.size());
  result_.end_s = now_s_;
  for (const Worker& worker : workers_) {
    result_.worker_hours += (std::max(kDay, now_s_) - worker.born_s) / kHour;
  }
  return result_;
}

}  // namespace

std::vector<DayJob> generate_day(const DayOptions& options) {
  common::Random random(options.seed);
  auto job_at = [&](double s) {
    double tasks = options.tasks_median * std::exp(options.tasks_sigma * normal(random));
    double task_s = options.task_s_median * std::exp(options.task_s_sigma * normal(random));
    return DayJob{s, static_cast<int64_t>(std::clamp(tasks, 6.0, 4096.0)), task_s};
  };
  std::vector<DayJob> day;
  // Rejection: the rate is at most 2.
  while (static_cast<int64_t>(day.size()) < options.jobs) {
    double s = random.unit() * kDay;
    if (random.chance(rate_at(s, options.night_share) / 2)) day.push_back(job_at(s));
  }
  for (int64_t k = 0; k < options.nightly; ++k)
    day.push_back(job_at(2 * kHour + 600 * random.unit()));
  std::stable_sort(day.begin(), day.end(),
                   [](const DayJob& a, const DayJob& b) { return a.submitted_s < b.submitted_s; });
  return day;
}

common::Result<std::vector<DayJob>> parse_day(const std::string& text) {
  std::vector<DayJob> day;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::istringstream words(line);
    DayJob job;
    bool is_read = static_cast<bool>(words >> job.submitted_s >> job.tasks >> job.task_s);
    bool is_fine = is_read && job.submitted_s >= 0 && job.submitted_s < kDay && job.tasks > 0 &&
                   job.task_s > 0 && (words >> std::ws).eof();
    if (!is_fine) {
      return common::invalid_input(
          common::cat("line ", number, " is no submit: SECONDS TASKS TASK_SECONDS"));
    }
    day.push_back(job);
  }
  std::stable_sort(day.begin(), day.end(),
                   [](const DayJob& a, const DayJob& b) { return a.submitted_s < b.submitted_s; });
  return day;
}

DayResult replay_day(const std::vector<DayJob>& day, const ScalingRule& rule) {
  return Replay(day, rule).run();
}

}  // namespace scaling
