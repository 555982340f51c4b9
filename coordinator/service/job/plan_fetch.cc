#include "coordinator/service/job/plan_fetch.h"

#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/journal/finish.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Status;

void PlanFetch::begin() {
  const Environment& env = scope_.env;
  const std::string& holder = plan_.outcome.worker;
  missing_.clear();
  retry_ns_ = 0;
  deadline_ns_ = env.clock.now_ns() + env.options.times.object_wait_ms * kNsPerMs;
  for (const Digest& object : plan_.outcome.plan.objects) {
    auto there = env.store.has_blob(object);
    if (!there.ok()) return job_.failed(there.error());
    if (!*there) missing_.insert(object);
  }
  std::vector<Digest> wanted(missing_.begin(), missing_.end());
  for (const Digest& object : wanted) {
    if (!env.workers.send(holder, common::BlobRequest{object})) {
      return lost(cat("worker ", holder, " is gone"));
    }
  }
  if (missing_.empty()) complete();
}

void PlanFetch::object_arrived(const Digest& digest, const Status& status) {
  if (!missing_.contains(digest)) return;
  if (!status.ok()) {
    if (!scope_.may_pass(status.error())) return job_.failed(status.error());
    retry_ns_ = scope_.disk_retry_ns();
    return;
  }
  missing_.erase(digest);
  if (missing_.empty()) complete();
}

void PlanFetch::object_missing(const std::string& worker, const Digest& digest) {
  if (worker != plan_.outcome.worker || !missing_.contains(digest)) return;
  lost(cat("worker ", worker, " no longer has object ", digest.short_hex()));
}

void PlanFetch::tick(int64_t now_ns) {
  if (retry_ns_ != 0) {
    if (now_ns >= retry_ns_ && scope_.env.store.trouble().empty()) begin();
    return;
  }
  if (missing_.empty() || now_ns < deadline_ns_) return;
  lost(cat("worker ", plan_.outcome.worker, " does not answer"));
}

// The program is verified, so any worker can make its objects once more.
void PlanFetch::lost(const std::string& why) {
  missing_.clear();  // the scheduler watches over the task
  auto program = is_rerun_ ? nullptr : programs_.verified(plan_.outcome.candidate);
  if (!program) {
    return job_.failed(common::unavailable(
        cat("the plan's objects are lost: ", why, "; submit again, measurements are kept")));
  }
  common::log_warning(cat(why, "; the finalist runs again"),
                      {{"job", scope_.request.id}, {"worker", plan_.outcome.worker}});
  is_rerun_ = true;
  programs_.run_again(std::move(program));
}

void PlanFetch::task_done(const TaskDone& done) {
  if (!is_rerun_ || done.candidate->id != plan_.outcome.candidate) return;
  const CandidateResult& result = done.result;
  if (result.outcome != common::TaskOutcome::kOk) {
    return job_.failed(
        common::unavailable(cat("the plan's objects are lost, and making them again ended ",
                                common::outcome_name(result.outcome), ": ", result.message)));
  }
  Status status = adopt(plan_.outcome.plan, result.report);
  if (!status.ok()) return job_.failed(status.error());
  plan_.rerun = result.report;
  plan_.outcome.worker = result.worker;
  plan_.make = scope_.make_of(done);
  begin();
}

void PlanFetch::complete() { job_.fetched(std::move(plan_)); }

}  // namespace coordinator::service
