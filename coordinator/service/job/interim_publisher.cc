#include "coordinator/service/job/interim_publisher.h"

#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/journal/finish.h"

namespace coordinator::service {

void InterimPublisher::publish(SearchOutcome outcome) {
  if (under_way_) {
    next_ = std::move(outcome);
    return;
  }
  const Environment& env = scope_.env;
  const JobRequest& request = scope_.request;
  common::Plan plan = std::move(outcome.plan);
  plan.key.epoch = request.key.epoch;
  common::Status status = common::verify(plan);
  if (status.ok() && !(plan.key == request.key)) {
    status = common::internal_error("it has another key than the request");
  }
  if (!status.ok()) return ended(status);
  JobEnd facts;
  facts.farm = env.options.name;
  facts.tenant = request.tenant;
  facts.submitter = request.submitter;
  facts.created_ns = common::wall_clock_ns();
  facts.toolchain = plan.provenance.toolchain;
  facts.machine = scope_.machine;
  sign_off(plan, request, facts);
  plan.provenance.search.is_interim = true;
  KeptPlan how{scope_.elapsed_ms(env.clock.now_ns()), programs_.recipe(outcome.candidate), false};
  BuiltProgram built{programs_.verified(outcome.candidate), std::move(outcome.worker),
                     programs_.make_of(outcome.candidate)};
  under_way_ = std::make_unique<Publication>(scope_.env, request.id, request.tenant,
                                             std::move(plan), std::move(how), std::move(built),
                                             [this](const common::Status& kept) { ended(kept); });
  under_way_->begin();
}

void InterimPublisher::close() {
  next_.reset();
  if (under_way_ && !under_way_->is_keeping()) under_way_.reset();
}

void InterimPublisher::when_idle(std::function<void()> then) {
  if (!under_way_) return then();
  when_idle_ = std::move(then);
}

void InterimPublisher::ended(const common::Status& status) {
  // It is called by the publication, whose members it may still hold.
  std::unique_ptr<Publication> over = std::move(under_way_);
  if (!status.ok()) {
    common::log_warning(
        common::cat("a plan is not handed out before the search ends: ", status.error().message),
        {{"job", scope_.request.id}});
  }
  if (auto next = std::exchange(next_, std::nullopt)) return publish(std::move(*next));
  if (auto then = std::exchange(when_idle_, {})) then();
}

}  // namespace coordinator::service
