#include "coordinator/service/job/second_build.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/workers/device_name.h"
#include "coordinator/service/workers/worker_quarantine.h"

namespace coordinator::service {

using common::cat;
using common::Digest;

namespace {

// A worker that is connected may be busy with tasks of minutes; the next one is asked after that.
constexpr int64_t kAnswerNs = 300'000 * kNsPerMs;

}  // namespace

SecondBuild::SecondBuild(Environment& environment, farm::JobId job, BuiltProgram built,
                         const common::Plan& plan, Done done)
    : env_(environment),
      job_(job),
      built_(std::move(built)),
      first_(build_of(plan.kernels, plan.objects)),
      done_(std::move(done)),
      tried_{built_.worker} {}

// Which number an object has, and what a kernel takes, differs between workers that are right.
SecondBuild::Build SecondBuild::build_of(const std::vector<common::PlanKernel>& kernels,
                                         const std::vector<Digest>& objects) {
  Build build;
  for (const common::PlanKernel& kernel : kernels) {
    Code code{kernel, {}};
    if (kernel.object >= 0) code.object = objects.at(static_cast<size_t>(kernel.object));
    code.launch.object = -1;
    code.launch.predicted_ns = code.launch.measured_ns = 0;
    build.emplace(kernel.fingerprint, std::move(code));
  }
  return build;
}

void SecondBuild::begin() {
  if (!built_.candidate || !built_.make) return end(std::string());
  ask();
}

void SecondBuild::ask() {
  const WorkerSession* next = env_.workers.twin(*built_.make, tried_);
  if (next == nullptr) {
    if (answers_.empty()) return end(std::string());
    return end(
        common::Error{common::Code::kVerification,
                      cat(difference(),
                          ", so the plan is not signed; a third worker of their make would say "
                          "which one is wrong")});
  }
  asked_ = next->name;
  tried_.insert(asked_);
  deadline_ns_ = env_.clock.now_ns() + kAnswerNs;
  env_.dispatcher.add_task(
      {job_, device_name(next->target, next->machine), built_.candidate, next->id});
}

void SecondBuild::task_done(const TaskDone& done) {
  if (asked_.empty() || !done.is_only_build || done.candidate != built_.candidate) return;
  std::string worker = std::exchange(asked_, {});
  if (done.result.outcome != common::TaskOutcome::kOk) {
    common::log_warning(cat("a plan's kernels are not compiled a second time by ", worker, ": ",
                            common::outcome_name(done.result.outcome), ", ", done.result.message),
                        {{"job", job_}, {"worker", worker}});
    return ask();
  }
  const common::TaskReport& report = done.result.report;
  answers_.push_back({std::move(worker), build_of(report.kernels, report.objects)});
  judge();
}

void SecondBuild::tick(int64_t now_ns) {
  if (asked_.empty()) return;
  bool is_there = env_.workers.make_of(asked_).has_value();
  if (is_there && now_ns < deadline_ns_) return;
  env_.dispatcher.give_up_tasks(
      job_, Dispatcher::GiveUp::kOpen,
      [this](const TaskSpec& task) {
        return task.only_build_at != 0 && task.candidate == built_.candidate;
      },
      is_there ? "it did not answer in time" : "it is gone");
}

void SecondBuild::judge() {
  const Answer& last = answers_.back();
  bool agrees = std::all_of(first_.begin(), first_.end(), [&](const auto& kernel) {
    auto found = last.build.find(kernel.first);
    return found != last.build.end() && found->second == kernel.second;
  });
  if (answers_.size() == 1) {
    if (agrees) return end(last.worker);
    env_.monitored.meters.objects_compared(ObjectsCompared::kDiffer);
    common::log_error(difference(), {{"job", job_}});
    return ask();
  }
  const Answer& second = answers_.front();
  if (agrees) {
    blame(second.worker, built_.worker, last.worker);
    return end(last.worker);
  }
  if (last.build == second.build) blame(built_.worker, second.worker, last.worker);
  end(common::Error{
      common::Code::kVerification,
      last.build == second.build
          ? cat(difference(), ", and ", last.worker, " agrees with ", second.worker,
                ": the plan is not signed and ", built_.worker,
                " gets no more work; submit it again")
          : cat(difference(), ", and those of ", last.worker,
                " differ from both: the plan is not signed; see that the workers' images are the "
                "same")});
}

void SecondBuild::blame(const std::string& worker, const std::string& other,
                        const std::string& another) {
  quarantine_worker(env_.store, env_.workers, worker,
                    cat("it compiled kernels to other objects than ", other, " and ", another));
}

// In words, by the first kernel.
std::string SecondBuild::difference() const {
  const Answer& second = answers_.front();
  size_t different = 0;
  std::string example;
  for (const auto& [fingerprint, code] : first_) {
    auto found = second.build.find(fingerprint);
    if (found != second.build.end() && found->second == code) continue;
    if (different++ > 0) continue;
    const Digest other = found == second.build.end() ? Digest() : found->second.object;
    example =
        cat(fingerprint.short_hex(), " to ", code.object.short_hex(), " and ", other.short_hex());
  }
  return cat("workers ", built_.worker, " and ", second.worker, " compiled ", different, " of ",
             first_.size(), " kernels differently, ", example);
}

void SecondBuild::end(common::Result<std::string> second_worker) {
  if (second_worker.ok()) {
    env_.monitored.meters.objects_compared(second_worker->empty() ? ObjectsCompared::kAlone
                                                                  : ObjectsCompared::kAlike);
  }
  Done done = std::exchange(done_, {});
  if (done) done(std::move(second_worker));
}

}  // namespace coordinator::service
