// An instance that answers at once and gets better: the reference interpreter's until the plan is
// there, and the plan's from then on.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/model/binding.h"
#include "clients/runtime/model/instance.h"
#include "clients/runtime/model/plan_instance.h"
#include "clients/runtime/model/weights.h"
#include "clients/runtime/session.h"
#include "common/base/result.h"
#include "common/plan/kernel_origins.h"
#include "common/runtime/executor/executor.h"

namespace clients {

// Where the time of one call went.
struct CallProfile {
  int64_t start_ns = 0;  // of the steady clock
  int64_t wall_ns = 0;
  std::vector<common::CallFacts> kernels;  // of the plan, in order; empty: the interpreter ran
  std::vector<int64_t> kernels_ns;
  std::vector<common::KernelOrigin> origins;  // of each of the kernels
};

// Not thread-safe. Changes over between two calls, with the state as the last call left it: to the
// plan, to each better one that comes, back to the interpreter when the farm has revoked it, and
// between plans for parts of the sizes (SessionOptions::sizes) as often as the sizes ask for it.
class LiveInstance {
 public:
  // Asks the session for the model's plans, one for each of `sizes` or one for all, and gives them
  // `deadline` to come. A model without
  // nodes, of which only the hash is known, cannot be interpreted: an error says why there is no
  // plan.
  static common::Result<std::unique_ptr<LiveInstance>> make(std::shared_ptr<Session> session,
                                                            std::shared_ptr<const Model> model,
                                                            std::shared_ptr<Weights> weights,
                                                            std::chrono::milliseconds deadline,
                                                            const std::vector<SizeRanges>& sizes);
  ~LiveInstance();
  LiveInstance(const LiveInstance&) = delete;
  LiveInstance& operator=(const LiveInstance&) = delete;

  // One entry per user input of the model, wherever it lies; those that the model does not read are
  // not looked at, those that it mutates are written. Done on return. `outputs`: the graph's kUser
  // outputs in host memory, which is used again.
  common::Status run(std::span<const common::TensorRef> user_inputs, common::RunOutputs& outputs);
  // The same into the device's memory, on a stream of the caller's unless it is null
  // (common::Executor::run_on).
  common::Status run_on(void* stream, std::span<const common::TensorRef> user_inputs,
                        std::vector<common::DeviceTensor>& outputs);

  // The content of the state at this input of the graph, as the last call left it, and another
  // content for the next call to begin with. A copy in host memory.
  common::Result<common::HostTensor> state(int input);
  common::Status set_state(int input, const common::HostTensor& content);

  // Permits calls to write the memory of this user input of the model once they need it no more, so
  // that values of their own need less: what it holds after a call is undefined. No other input of
  // the call has that memory. kInvalidInput for what is no user input.
  common::Status donate(int user_input);

  // Told of every call from now on; each kernel is then timed for itself, which costs time. Empty:
  // nobody.
  using Profiler = std::function<void(const CallProfile&)>;
  void set_profiler(Profiler profiler) { profiler_ = std::move(profiler); }

  // The plan that calls of the last call's sizes run; null while the interpreter computes them.
  const SharedPlan& plan() const { return variants_[current_].plan; }
  // The newest plan for the last call's sizes, which calls change over to once it is loaded; null
  // while there is none.
  SharedPlan newest_plan() const { return variants_[current_].request->plan(); }
  // Waits until all calls run plans. kTimedOut when none came in time, else why none comes.
  common::Status wait(std::chrono::milliseconds time);

 private:
  using Loaded = common::Result<std::unique_ptr<PlanInstance>>;
  // The model for a part of its sizes, or all of it.
  struct Variant {
    SizeRanges ranges;
    std::shared_ptr<const Model> model;
    std::shared_ptr<const PlanRequest> request;
    SharedPlan plan;      // that the instance runs
    SharedPlan coming;    // that was loaded last, is being loaded, or could not be
    uint64_t looked = 0;  // PlanRequest::changes() when the request was last looked at
    std::future<Loaded> loading;
    std::unique_ptr<PlanInstance> instance;
    bool is_captured = false;  // a graph of the caller's runs the instance
  };

  LiveInstance(std::shared_ptr<Session> session, std::shared_ptr<const Model> model,
               std::shared_ptr<Weights> weights);
  common::Status add_variants(const std::vector<SizeRanges>& sizes);
  static Variant variant_of(SizeRanges ranges, std::shared_ptr<const Model> model,
                            std::shared_ptr<const PlanRequest> request);
  Loaded load(const std::shared_ptr<const Model>& model, const SharedPlan& plan) const;
  common::Status change_over(Variant& variant, Loaded loaded);
  common::Status look(Variant& variant);
  common::Status leave(Variant& variant);
  // The variant's instance ends, unless graphs of the caller's run it.
  void retire(Variant& variant);
  // kInvalidInput for a call that cannot go into a caller's graph.
  common::Status check_captured(Variant& variant);
  void improve(Variant& variant);
  void end_loading(Variant& variant);
  common::Status wait_for(Variant& variant, std::chrono::steady_clock::time_point end);
  // kOutOfRange names an index of an earlier call, which was not waited for; this one isn't made.
  common::Status report_earlier();
  common::Result<Variant*> choose(std::span<const common::TensorRef> user_inputs);
  // Null: the interpreter.
  common::Status move_states(PlanInstance* to);
  // What has the states after the calls that were made.
  common::Result<Instance*> holder_of_states();
  common::Status interpret(std::span<const common::TensorRef> user_inputs,
                           common::RunOutputs& outputs);
  common::Status interpret_on(void* stream, std::span<const common::TensorRef> user_inputs,
                              std::vector<common::DeviceTensor>& outputs);
  common::Status write_mutated(std::span<const common::TensorRef> user_inputs,
                               const common::RunOutputs& outputs);
  // Runs `body`, which fills in the kernels' times unless nobody wants them.
  template <class Body>
  common::Status profiled(const Variant& variant, Body&& body);

  std::shared_ptr<Session> session_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<Weights> weights_;
  Binding binding_;
  std::unique_ptr<Instance> reference_;  // null when the model cannot be interpreted
  std::vector<Variant> variants_;
  std::vector<int> donated_;  // user inputs
  size_t current_ = 0;
  bool has_states_ = false;
  bool has_run_ = false;  // else states are everywhere as they were bound
  std::vector<std::unique_ptr<PlanInstance>> retired_;  // that graphs of the caller's run
  PlanInstance* holder_ = nullptr;                      // of the states; null: the interpreter
  Profiler profiler_;
};

}  // namespace clients
