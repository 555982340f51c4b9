#include "coordinator/service/job/publication.h"

#include <memory>
#include <utility>

#include "common/base/cat.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Status;

Publication::Publication(Environment& environment, farm::JobId job, std::string tenant,
                         common::Plan plan, KeptPlan how, BuiltProgram built, Done done)
    : env_(environment),
      tenant_(std::move(tenant)),
      plan_(std::move(plan)),
      how_(std::move(how)),
      holder_(built.worker),
      done_(std::move(done)),
      second_(environment, job, std::move(built), plan_,
              [this](const common::Result<std::string>& second) { confirmed(second); }) {}

void Publication::begin() {
  deadline_ns_ = env_.clock.now_ns() + env_.options.times.object_wait_ms * kNsPerMs;
  Status asked = ask_for_objects();
  if (!asked.ok()) return end(asked);
  if (missing_.empty()) second_.begin();
}

Status Publication::ask_for_objects() {
  for (const Digest& object : plan_.objects) {
    LFARM_ASSIGN_OR_RETURN(bool there, env_.store.has_blob(object));
    if (there || !missing_.insert(object).second) continue;
    if (!env_.workers.send(holder_, common::BlobRequest{object})) {
      return common::unavailable(cat("worker ", holder_, " is gone"));
    }
  }
  return {};
}

void Publication::object_arrived(const Digest& digest, const Status& status) {
  if (missing_.erase(digest) == 0) return;
  if (!status.ok()) return end(status);
  if (missing_.empty()) second_.begin();
}

void Publication::object_missing(const std::string& worker, const Digest& digest) {
  if (worker != holder_ || !missing_.contains(digest)) return;
  end(common::unavailable(cat("worker ", worker, " no longer has its objects")));
}

void Publication::task_done(const TaskDone& done) { second_.task_done(done); }

void Publication::tick(int64_t now_ns) {
  if (missing_.empty()) return second_.tick(now_ns);
  if (now_ns < deadline_ns_) return;
  end(common::Error{common::Code::kTimedOut, "its objects did not arrive"});
}

void Publication::confirmed(const common::Result<std::string>& second_worker) {
  if (!second_worker.ok()) return end(second_worker.error());
  plan_.provenance.second_worker = *second_worker;
  keep();
}

void Publication::keep() {
  is_keeping_ = true;
  env_.threads.steps.start([self = std::weak_ptr<Publication*>(self_), tenant = tenant_,
                            plan = plan_, how = how_, &plans = env_.plans]() -> Background::Done {
    auto kept = plans.keep(tenant, plan, how);
    Status status = kept.ok() ? Status() : Status(kept.error());
    return [self, status] {
      if (auto publication = self.lock()) (*publication)->end(status);
    };
  });
}

void Publication::end(const Status& status) {
  missing_.clear();
  is_keeping_ = false;
  Done done = std::exchange(done_, {});
  if (done) done(status);
}

}  // namespace coordinator::service
