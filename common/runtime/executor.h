// Runs a plan on a device, for workers and clients alike: loads machine code, binds weights, keeps
// state, and does nothing per call that could have been done before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/runtime/device.h"
#include "common/runtime/tensor.h"

namespace common {

struct ExecutorOptions {
  // For candidates that nobody trusts yet. Every buffer lies in memory of its own between guard
  // bands, outputs and temporaries are filled with a pattern before each run (NaN for floats), and
  // check_guards() tells what was written where it must not be. Inputs and weights are copied.
  bool guard = false;
  // Waits for each call, so that an error that a device reports late names the call that made it.
  bool one_by_one = false;
  // With one_by_one: told of each call before it runs: its number, kernel, blocks and memory.
  std::function<void(const std::string& call)> on_call;
  // Timed runs begin with cold caches (Device::flush_caches).
  bool cold_caches = false;
};

// The bytes of an object; they stay valid until Executor::load returns.
using ObjectSource = std::function<Result<ByteView>(const Digest&)>;

struct MutatedInput {
  int input = 0;  // position among the plan's inputs
  HostTensor value;
};
struct RunOutputs {
  std::vector<HostTensor> user;       // the plan's kUser outputs, in order
  std::vector<MutatedInput> mutated;  // new contents of user inputs that the model mutates
};

// One instance of a model: a plan, its weights and its state. Not thread-safe; several instances
// may share a device.
class Executor {
 public:
  // Verifies the plan and loads its objects. kCorrupt when the plan or an object is malformed,
  // kInvalidInput when the plan was made for another target, kUnavailable when the device lacks the
  // library that the plan calls. The device outlives the executor.
  static Result<std::unique_ptr<Executor>> load(const Plan& plan, const ObjectSource& objects,
                                                Device& device,
                                                const ExecutorOptions& options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Plan& plan() const;
  const Device& device() const;

  // Gives the weight at input `position` its content, before the first run. Memory that the device
  // can use as it lies (host memory at a multiple of kBufferAlignment) is used in place: owned
  // tensors are shared, wrapped ones must outlive the executor and stay unchanged. Anything else
  // is copied once.
  Status bind_weight(int position, const HostTensor& weight);
  // The same for row-major bytes; only for weights whose shape has no symbol.
  Status bind_weight(int position, ByteView bytes);
  // Sets (copies) the content of the state at input `position`; needed before the first run.
  Status set_state(int position, const HostTensor& state);
  // A copy of the state as the last run left it.
  Result<HostTensor> state(int position);

  // Computes what depends on weights alone, once all weights are bound; does nothing while they
  // stay bound. Else the next run begins with it, outside of what it times.
  Status prepare();
  // How long the last preparation took, in nanoseconds; 0 when there was nothing to compute.
  int64_t prepare_ns() const;

  // Runs once. `inputs` are the plan's kUser inputs in order. kInvalidInput naming the input (by
  // its position among all inputs) when its type does not fit. After a failed run, states that the
  // plan updates in place are undefined; others keep their old content.
  Result<RunOutputs> run(std::span<const HostTensor> inputs);
  // The same into `outputs`, whose tensors are reused when they own fitting memory; the caller must
  // not hold other copies of them. `outputs` must not be inputs of the same run. Gives device time
  // in nanoseconds: of all calls together, or of each call. Measuring
  // each call costs time itself, so their sum is more than run_total_ns gives. Calls that ran when
  // weights were bound take 0.
  Result<int64_t> run_total_ns(std::span<const HostTensor> inputs, RunOutputs& outputs);
  Result<std::vector<int64_t>> run_calls_ns(std::span<const HostTensor> inputs,
                                            RunOutputs& outputs);

  // With ExecutorOptions::guard, after a run: kVerification naming the buffer when anything was
  // written outside the buffers or into an input. Success without the option.
  Status check_guards();

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace common
