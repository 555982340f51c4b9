// An instance that runs a plan, and nothing per call that could have been done before.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/model/binding.h"
#include "clients/runtime/model/instance.h"
#include "clients/runtime/model/prepared_store.h"
#include "clients/runtime/model/weights.h"
#include "common/base/result.h"
#include "common/runtime/executor/executor.h"

namespace clients {

class PlanInstance final : public Instance {
 public:
  // As make_plan_instance(), with weights that other instances share. `prepared`, unless null:
  // where what the plan computes of weights alone may be found, and is kept.
  static common::Result<std::unique_ptr<PlanInstance>> make(
      std::shared_ptr<const Model> model, std::shared_ptr<Weights> weights,
      const common::Plan& plan, const common::ObjectSource& objects, common::Device& device,
      const PreparedStore* prepared, const common::ExecutorOptions& options = {});

  // Waits until prepared weights that are yet to be kept for later processes are, some seconds at
  // most: for who is about to end, not for a better plan.
  void finish_keeping();

  common::Result<CallResult> call(std::span<const common::HostTensor> user_inputs) override;
  common::Result<common::HostTensor> state(int input) override { return executor_->state(input); }
  common::Status set_state(int input, const common::HostTensor& content) override {
    return executor_->set_state(input, content);
  }

  // The same as call() for one entry per user input, wherever it lies, into `outputs`, which hold
  // the graph's kUser outputs and what user inputs were mutated to. `calls_ns`, unless null, gets
  // the time of each of the plan's calls.
  common::Status run(std::span<const common::TensorRef> user_inputs, common::RunOutputs& outputs,
                     std::vector<int64_t>* calls_ns);
  // The same into the device's memory, on a stream of the caller's unless it is null
  // (common::Executor::run_on).
  common::Status run_on(void* stream, std::span<const common::TensorRef> user_inputs,
                        std::vector<common::DeviceTensor>& outputs, std::vector<int64_t>* calls_ns);
  // kOutOfRange names an index of an earlier run on a stream, of which it was not known then.
  common::Status report_earlier();
  // Whether the inputs have the types and sizes of the last call that was found to be right.
  bool is_like_last(std::span<const common::TensorRef> user_inputs) const;
  // Of the last call's kernels, in order.
  std::vector<common::CallFacts> call_facts() const { return executor_->call_facts(); }
  // Whether or not the plan reads it, see common::Executor::donate.
  common::Status donate(int user_input);
  // Takes over the states of an instance of the same model, which are undefined there from then on.
  common::Status take_states(PlanInstance& from) { return executor_->take_states(*from.executor_); }
  // The state at one input from that of another model's at `their_input`, see Executor::take_state.
  common::Status take_state(int input, PlanInstance& from, int their_input) {
    return executor_->take_state(input, *from.executor_, their_input);
  }

 private:
  PlanInstance(std::shared_ptr<const Model> model, std::shared_ptr<Weights> weights,
               std::unique_ptr<common::Executor> executor);
  common::Status bind_stored(const PreparedStore* prepared);
  // Of the run that was just made, or one before it.
  common::Status report_index(std::span<const common::TensorRef> user_inputs);
  common::Status report_earlier(const common::FailedCheck& failed) const;
  // The plan's inputs of a call that is found to be right.
  common::Result<std::span<const common::TensorRef>> inputs_of(
      std::span<const common::TensorRef> user_inputs);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<Weights> weights_;  // whose memory the executor uses
  Binding binding_;
  std::unique_ptr<common::Executor> executor_;
  std::unique_ptr<PreparedWriter> writer_;  // of the executor's values; null: none are to be kept
  std::vector<common::TensorRef> inputs_;
  // Of the last call that was right, in a row: each input's rank, type and sizes.
  std::vector<int64_t> checked_;
};

}  // namespace clients
