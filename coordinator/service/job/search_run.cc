#include "coordinator/service/job/search_run.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/plans/priors.h"
#include "coordinator/service/plans/stored_tuning_records.h"

namespace coordinator::service {

using common::cat;
using common::Status;

namespace {

// Proposed beyond what workers can take now, so that a freed worker never waits for the loop.
constexpr size_t kReserve = 2;
constexpr size_t kReserveShare = 8;   // and one more for so many slots
constexpr size_t kProposalsMax = 64;  // in one step
// Results that wait for the disk before nothing more is proposed.
constexpr size_t kUnsettledMax = 4096;

}  // namespace

size_t SearchRun::wanted() const {
  const Environment& env = scope_.env;
  size_t slots = env.workers.slots(scope_.request.key.target.name, scope_.machine);
  size_t room = slots + kReserve + slots / kReserveShare;
  size_t open = env.dispatcher.open_tasks(scope_.request.id);
  if (is_waiting_ || open >= room || unsettled_ > std::max(room, kUnsettledMax)) return 0;
  return std::min(room - open, kProposalsMax);
}

void SearchRun::drive() {
  if (is_stepping_) return;
  scope_.record.enter(scope_.status.stage, scope_.env.clock.now_ns());
  next_.candidates = static_cast<int>(wanted());
  bool has_news = !next_.results.empty() || next_.finish_now;
  if (next_.candidates == 0 && !has_news) return;
  is_stepping_ = true;
  Threads& threads = scope_.env.threads;
  Background& steppers = steps_->is_apart() ? threads.waits : threads.steps;
  steppers.start([self = std::weak_ptr<SearchRun*>(self_), steps = steps_,
                  &clock = scope_.env.clock,
                  request = std::make_shared<StepRequest>(std::exchange(next_, {}))] {
    size_t learned = request->results.size();
    int64_t from_ns = clock.now_ns();
    common::Result<StepResult> result = steps->advance(std::move(*request));
    auto step = std::make_shared<Step>(Step{learned, from_ns, clock.now_ns(), std::move(result)});
    return [self, step] {
      if (auto run = self.lock()) (*run)->step_done(std::move(*step));
    };
  });
}

void SearchRun::step_done(Step taken) {
  is_stepping_ = false;
  common::Result<StepResult>& step = taken.result;
  if (!step.ok()) return job_.failed(step.error());
  note(*step);
  // Results that came during the step wake the search up again, see settled().
  bool came_short = step->candidates.size() < static_cast<size_t>(step->asked);
  is_waiting_ = came_short && next_.results.empty() && !next_.finish_now;
  // A candidate that nobody takes may end the job, and with it this.
  const std::weak_ptr<SearchRun*> alive = self_;
  for (std::shared_ptr<const Candidate>& candidate : step->candidates) {
    Status sent = programs_.send(std::move(candidate));
    if (alive.expired()) return;
    if (!sent.ok()) return job_.failed(sent.error());
  }
  const SearchStatus& status = scope_.status;
  scope_.record.round({taken.from_ns, taken.to_ns, taken.learned, step->candidates.size(),
                       as_count(status.completed), as_count(status.best_ns), programs_.under_way(),
                       as_count(status.expected_ns)});
  check_time(scope_.env.clock.now_ns());
  if (alive.expired()) return;
  if (step->outcome) {
    keep_lessons(*step);
    return end(std::move(*step->outcome));
  }
  if (!step->interim.empty()) interim_.publish(std::move(step->interim.back()));
  if (is_waiting_ && programs_.under_way() == 0 && unsettled_ == 0) {
    job_.failed(common::internal_error("the search neither proposes candidates nor ends"));
  }
}

// For clients and the page, and in the journal.
void SearchRun::note(StepResult& step) {
  scope_.status = step.status;
  scope_.record.proposed(step.proposals, step.status, scope_.env.clock.now_ns());
  scope_.notes.answers(std::move(step.answers));
  scope_.notes.tuning_records(std::move(step.fresh_tuning_records));
  if (step.finished_after) scope_.notes.told_to_finish(*step.finished_after);
}

// For later searches.
void SearchRun::keep_lessons(StepResult& step) const {
  cache::Store& store = scope_.env.store;
  const JobRequest& request = scope_.request;
  Status kept = merge_priors(store, scope_.device(), step.learned);
  if (!kept.ok()) {
    common::log_warning(cat("cannot keep what was learned: ", kept.error().message),
                        {{"job", request.id}});
  }
  kept =
      keep_tuning_records(store, step.tuning_records, scope_.env.stamps.now_ns(), request.tenant);
  if (!kept.ok()) {
    common::log_warning(cat("cannot keep what was found: ", kept.error().message),
                        {{"job", request.id}});
  }
}

// The search learns of a result once it is on the disk: what has been said to be measured is never
// measured again.
void SearchRun::settled(const TaskDone& done, const Status& written) {
  --unsettled_;
  if (!written.ok()) return job_.failed(written.error());
  next_.results.emplace_back(done.candidate->id, done.result);
  is_waiting_ = false;
}

void SearchRun::tick(int64_t now_ns) {
  const std::weak_ptr<SearchRun*> alive = self_;
  check_time(now_ns);
  if (!alive.expired()) check_quota();
}

// The search is told to end early enough for what workers have begun and for its finalists. What is
// open when the time is over is given up once the search has a plan; before that, all but the whole
// programs that may become one.
void SearchRun::check_time(int64_t now_ns) {
  const uint64_t budget_ms = scope_.request.budget_ms;
  if (budget_ms == 0) return;
  double left_ms = static_cast<double>(budget_ms) - static_cast<double>(scope_.elapsed_ms(now_ns));
  const SearchStatus& status = scope_.status;
  auto workers = static_cast<double>(std::max<size_t>(1, scope_.env.workers.count()));
  auto pending = static_cast<double>(std::max<int64_t>(1, status.candidates - status.completed));
  double begun = std::min(pending, Dispatcher::kBegunByWorker * workers);
  double needed_ms = status.pending_ms * (begun / pending) / workers + status.closing_ms;
  const std::weak_ptr<SearchRun*> alive = self_;
  if (!told_to_finish_ && left_ms <= needed_ms) finish_now();
  if (left_ms <= 0 && !alive.expired()) give_up_what_is_open();
}

void SearchRun::give_up_what_is_open() {
  bool has_plan = scope_.status.best_ns > 0;
  scope_.env.dispatcher.give_up_tasks(
      scope_.request.id, Dispatcher::GiveUp::kOpen,
      [&](const TaskSpec& task) {
        return task.only_build_at == 0 && (has_plan || !task.candidate->may_become_plan());
      },
      "the search's time is over");
}

// Ends with the best so far: regions' candidates that no worker has begun would only keep finalists
// waiting.
void SearchRun::finish_now() {
  told_to_finish_ = true;
  next_.finish_now = true;
  is_waiting_ = false;
  scope_.env.dispatcher.give_up_tasks(
      scope_.request.id, Dispatcher::GiveUp::kWaiting,
      [](const TaskSpec& task) {
        return task.only_build_at == 0 && !task.candidate->may_become_plan();
      },
      "the search ends");
}

void SearchRun::check_quota() {
  if (told_to_finish_) return;
  const JobRequest& request = scope_.request;
  std::string reason = scope_.env.tenants.exhausted(request.tenant, common::wall_clock_ns());
  if (reason.empty()) return;
  cut_off_ = cat("the search ended early: ", reason);
  common::log_info(cut_off_, {{"job", request.id}, {"tenant", request.tenant}});
  finish_now();
}

void SearchRun::end(common::Result<SearchOutcome> outcome) {
  if (!outcome.ok()) return job_.failed(outcome.error());
  FoundPlan found{std::move(*outcome), !cut_off_.empty()};
  if (found.is_cut_off) found.outcome.note = cut_off_;
  common::Plan& plan = found.outcome.plan;
  // Which epoch its plans are of, the farm says.
  plan.key.epoch = scope_.request.key.epoch;
  Status status = common::verify(plan);
  if (!status.ok()) {
    return job_.failed(common::internal_error(cat("the search's plan: ", status.error().message)));
  }
  if (!(plan.key == scope_.request.key)) {
    return job_.failed(
        common::internal_error("the search's plan has another key than the request"));
  }
  job_.searched(std::move(found));
}

}  // namespace coordinator::service
