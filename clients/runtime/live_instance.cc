#include "clients/runtime/live_instance.h"

#include "common/base/cat.h"
#include "common/base/log.h"

namespace clients {

using common::cat;
using common::HostTensor;
using common::Result;
using common::Status;
using std::chrono::milliseconds;

LiveInstance::LiveInstance(std::shared_ptr<Session> session, std::shared_ptr<const Model> model)
    : session_(std::move(session)),
      model_(std::move(model)),
      request_(session_->request(*model_)),
      now_(make_reference_instance(model_)) {}

LiveInstance::~LiveInstance() = default;

Result<std::unique_ptr<LiveInstance>> LiveInstance::make(std::shared_ptr<Session> session,
                                                         std::shared_ptr<const Model> model,
                                                         milliseconds deadline) {
  std::unique_ptr<LiveInstance> instance(new LiveInstance(std::move(session), std::move(model)));
  if (SharedPlan plan = instance->request_->wait(deadline)) {
    instance->coming_ = plan;
    LFARM_RETURN_IF_ERROR(instance->change_over(instance->load(plan)));
  }
  return instance;
}

// Weights are bound and prepared here, which may take as long as many calls.
LiveInstance::Loaded LiveInstance::load(const SharedPlan& plan) const {
  return make_plan_instance(model_, plan->plan, plan->object_source(), session_->device());
}

Status LiveInstance::change_over(Loaded loaded) {
  LFARM_ASSIGN_OR_RETURN(std::unique_ptr<Instance> next, std::move(loaded));
  LFARM_RETURN_IF_ERROR(move_to(std::move(next)));
  plan_ = coming_;
  return {};
}

// With the state as it is.
Status LiveInstance::move_to(std::unique_ptr<Instance> next) {
  const common::Graph& graph = model_->graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].kind != common::InputKind::kState) continue;
    LFARM_ASSIGN_OR_RETURN(HostTensor content, now_->state(static_cast<int>(i)));
    LFARM_RETURN_IF_ERROR(next->set_state(static_cast<int>(i), content));
  }
  now_ = std::move(next);
  return {};
}

// What the session has withdrawn is left, whether it runs or is being loaded.
Status LiveInstance::look() {
  if (plan_ && request_->plan() != plan_) {
    LFARM_RETURN_IF_ERROR(move_to(make_reference_instance(model_)));
    plan_.reset();
    coming_.reset();
  }
  if (!plan_) improve();
  return {};
}

// Begins to load the plan once it is there, and changes over once it is loaded.
void LiveInstance::improve() {
  if (!coming_) {
    coming_ = request_->plan();
    if (!coming_) return;
    loading_ = std::async(std::launch::async, [this, plan = coming_] { return load(plan); });
  }
  if (!loading_.valid() || loading_.wait_for(milliseconds(0)) != std::future_status::ready) return;
  Loaded loaded = loading_.get();
  if (request_->plan() != coming_) {
    coming_.reset();
    return;
  }
  Status changed = change_over(std::move(loaded));
  if (!changed.ok()) {
    common::log_warning(
        cat("plan ", coming_->id.short_hex(), " cannot be used here: ", changed.error().message));
  }
}

Status LiveInstance::wait(milliseconds time) {
  if (plan_) return {};
  auto end = std::chrono::steady_clock::now() + time;
  if (!coming_ && !request_->wait(time)) {
    Status status = request_->status();
    if (!status.ok()) return status;
    return common::Error{common::Code::kTimedOut, cat("no plan came within ", time.count(),
                                                      " ms; the farm still looks for "
                                                      "one")};
  }
  improve();
  if (loading_.valid()) {
    (void)loading_.wait_until(end);
    improve();
  }
  if (plan_) return {};
  return common::Error{common::Code::kTimedOut, "the plan is still being loaded"};
}

Result<CallResult> LiveInstance::call(std::span<const HostTensor> user_inputs) {
  LFARM_RETURN_IF_ERROR(look());
  return now_->call(user_inputs);
}

}  // namespace clients
