// An instance that answers at once and gets better: the reference interpreter's until the plan is
// there, and the plan's from then on.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <span>

#include "clients/pt2/translate.h"
#include "clients/runtime/instance.h"
#include "clients/runtime/session.h"
#include "common/base/result.h"

namespace clients {

// Not thread-safe. Changes over between two calls, with the state as the last call left it: to the
// plan, and back to the interpreter when the farm has revoked it.
class LiveInstance final : public Instance {
 public:
  // Asks the session for the model's plan and gives it `deadline` to come.
  static common::Result<std::unique_ptr<LiveInstance>> make(std::shared_ptr<Session> session,
                                                            std::shared_ptr<const Model> model,
                                                            std::chrono::milliseconds deadline);
  ~LiveInstance() override;

  common::Result<CallResult> call(std::span<const common::HostTensor> user_inputs) override;
  common::Result<common::HostTensor> state(int input) override { return now_->state(input); }
  common::Status set_state(int input, const common::HostTensor& content) override {
    return now_->set_state(input, content);
  }

  // The plan that calls run; null while the interpreter computes them.
  const SharedPlan& plan() const { return plan_; }
  // Waits until calls run a plan. kTimedOut when none came in time, else why none comes.
  common::Status wait(std::chrono::milliseconds time);

 private:
  using Loaded = common::Result<std::unique_ptr<Instance>>;
  LiveInstance(std::shared_ptr<Session> session, std::shared_ptr<const Model> model);
  Loaded load(const SharedPlan& plan) const;
  common::Status change_over(Loaded loaded);
  common::Status move_to(std::unique_ptr<Instance> next);
  common::Status look();
  void improve();

  std::shared_ptr<Session> session_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const PlanRequest> request_;
  std::unique_ptr<Instance> now_;
  SharedPlan plan_;
  SharedPlan coming_;  // what is being loaded, was loaded, or could not be
  std::future<Loaded> loading_;
};

}  // namespace clients
