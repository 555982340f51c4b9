// Runs a plan on a device, for workers and clients alike: loads machine code, binds weights, keeps
// state, and does nothing per call that could have been done before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/runtime/device/device.h"
#include "common/runtime/executor/index_checks.h"
#include "common/runtime/tensor/tensor.h"

namespace common {

// Bytes on each side of every guarded buffer: wider than a vector register or a short row.
inline constexpr size_t kGuardBand = 4096;

class ArenaPool;

// What check_guards() looks at: kRun leaves out the contents of weights and of what was prepared.
enum class Guards : uint8_t { kRun, kAll };

struct ExecutorOptions {
  // For candidates that nobody trusts yet. Every buffer lies in memory of its own between guard
  // bands, outputs and temporaries are filled with a pattern before each run (NaN for floats), and
  // check_guards() tells what was written where it must not be. Inputs are copied, and weights but
  // those that lie in the device's memory between bands of at least kGuardBand already.
  bool guard = false;
  // Waits for each call, so that an error that a device reports late names the call that made it.
  bool one_by_one = false;
  // With one_by_one: told of each call before it runs: its number, kernel, blocks and memory.
  std::function<void(const std::string& call)> on_call;
  // What runs take their temporaries' memory from, so that executors of one device share it; null:
  // the executor keeps its own. Unused with `guard` and on devices with memory of their own.
  std::shared_ptr<ArenaPool> arenas;
  // Timed runs begin with cold caches (Device::flush_caches).
  bool cold_caches = false;
};

// The bytes of an object; they stay valid until Executor::load returns.
using ObjectSource = std::function<Result<ByteView>(const Digest&)>;

// A row-major tensor where it lies: in host memory or in the device's.
struct TensorRef {
  DType dtype{};
  std::span<const int64_t> sizes;
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool on_device = false;
  size_t band = 0;                              // around it, see HostTensor::banded()
  std::optional<uint64_t> hash = std::nullopt;  // hash64() of the content, where somebody knows it
};
TensorRef ref_of(const HostTensor& tensor);

// A row-major tensor in the device's memory: its own, or the caller's where `memory` is empty.
struct DeviceTensor {
  DType dtype{};
  std::vector<int64_t> sizes;
  std::byte* data = nullptr;
  DeviceMemory memory;
};

struct MutatedInput {
  int input = 0;  // position among the plan's inputs
  HostTensor value;
};
struct RunOutputs {
  std::vector<HostTensor> user;       // the plan's kUser outputs, in order
  std::vector<MutatedInput> mutated;  // new contents of user inputs that the model mutates
  std::vector<int64_t> checks;        // the values of the plan's kCheck outputs, in order
};

// Memory for such a tensor: the caller's where it fits, else the tensor's own, made where it must
// be. kInvalidInput when the caller's is for another type or not aligned to kBufferAlignment.
Status make_room(Device& device, DType dtype, const std::vector<int64_t>& sizes,
                 DeviceTensor& tensor);

// What one of a plan's calls is, for people who look at times.
struct CallFacts {
  std::string name;    // of the kernel in its object, or "gemm" for the library's product
  Digest fingerprint;  // of the kernel
  int64_t bytes = 0;   // of all that it reads and writes, each buffer once
};

// Bytes that an executor keeps, by what they are for.
struct ExecutorMemory {
  size_t weights = 0;  // also those that lie in memory of the caller's
  size_t prepacked =
      0;  // copies of weights in other orders, and what else is computed of them once
  size_t states = 0;
  size_t arena = 0;    // values that calls give each other
  size_t scratch = 0;  // areas of kernels' own
  size_t staging = 0;  // inputs and outputs on their way between the host and the device
  size_t code = 0;     // of the plan's objects
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
  Device& device();

  // Gives the weight at input `position` its content, before the first run. Memory that the device
  // can use as it lies (host memory at a multiple of kBufferAlignment) is used in place: owned
  // tensors are shared, wrapped ones must outlive the executor and stay unchanged. Anything else
  // is copied once.
  Status bind_weight(int position, const HostTensor& weight);
  // The same, always the caller's: what the device can use must outlive the executor.
  Status bind_weight(int position, const TensorRef& weight);
  // The same for row-major bytes; only for weights whose shape has no symbol.
  Status bind_weight(int position, ByteView bytes);
  // Sets (copies) the content of the state at input `position`; needed before the first run.
  Status set_state(int position, const HostTensor& state);
  Status set_state(int position, const TensorRef& state);
  // Takes over all states of an executor of the same model on the same device, whose own are
  // undefined from then on. Nothing is copied.
  Status take_states(Executor& from);
  // Takes over one state, also of another model's executor: that of its input `their_position`.
  // kInvalidInput, changing nothing, where types, sizes or devices differ.
  Status take_state(int position, Executor& from, int their_position);
  // A copy of the state as the last run left it.
  Result<HostTensor> state(int position);

  // Permits later runs to keep values of their own in the memory of the user input at `position`
  // once no call reads it any more: what it holds after a run is undefined. The caller gives no
  // memory there that another input has, too. No use is made of inputs that the model mutates or
  // checks, nor on devices with memory of their own. kInvalidInput for what is no user input.
  Status donate(int position);

  // Computes what depends on weights alone, once all weights are bound; does nothing while they
  // stay bound. Else the next run begins with it, outside of what it times.
  Status prepare();
  // What prepare() computed, in the order of the plan's buffers, on a device that uses host memory;
  // valid until a weight is bound. Empty before, with a guard, and where there is nothing.
  std::vector<ByteView> prepared() const;
  // Instead of prepare(): `values` are what prepared() of another executor gave, for this plan and
  // these weights. They are read where they lie, and `owner` keeps them alive. kInvalidInput,
  // changing nothing, where their number, sizes or alignment cannot be right.
  Status use_prepared(std::span<const ByteView> values, std::shared_ptr<const void> owner);
  // How long the last preparation took, in nanoseconds; 0 when there was nothing to compute.
  int64_t prepare_ns() const;

  // Runs once. `inputs` are the plan's kUser inputs in order. kInvalidInput naming the input (by
  // its position among all inputs) when its type does not fit. After a failed run, states that the
  // plan updates in place are undefined; others keep their old content.
  Result<RunOutputs> run(std::span<const HostTensor> inputs);
  // The same into `outputs`, as run_total_ns does. `calls_ns`, unless null: of each call,
  // as it is launched.
  Status run(std::span<const TensorRef> inputs, RunOutputs& outputs,
             std::vector<int64_t>* calls_ns = nullptr);
  // Runs once with outputs in the device's memory: in tensors that hold memory of the caller's,
  // else in their own, which is reused where it fits. User inputs that the model mutates are
  // written where they lie. With a `stream` (Device::begin_stream) the run is only put on it,
  // unless an input lies in host memory; without one it is done on return. Where the caller
  // captures the stream, the run is in the caller's graph: a run of the same sizes has to come
  // before, the graph must not run beside other runs, and it works on memory of the executor's.
  // kInvalidInput naming the output that goes into no memory of the caller's, or why a run cannot
  // be captured.
  Status run_on(void* stream, std::span<const TensorRef> inputs, std::vector<DeviceTensor>& outputs,
                std::vector<int64_t>* calls_ns = nullptr);
  // The first index that was out of range in a run since the last call, as far as runs are done:
  // the values of a run that was only put on a stream arrive later. Such a run's outputs and states
  // are what clamped indices give.
  std::optional<FailedCheck> take_failed_check();

  // The same as run() into `outputs`, whose tensors are reused when they own fitting memory; the
  // caller must not hold other copies of them. `outputs` must not be inputs of the same run. Gives
  // device time in nanoseconds: of all calls together, or of each call. On a device that records,
  // short calls are repeated and timed as parts of a recorded row; on others measuring each call
  // costs time itself, so their sum is more than run_total_ns gives. Calls that ran when weights
  // were bound take 0.
  Result<int64_t> run_total_ns(std::span<const HostTensor> inputs, RunOutputs& outputs);
  Result<std::vector<int64_t>> run_calls_ns(std::span<const HostTensor> inputs,
                                            RunOutputs& outputs);

  // As the last run left it: the arena is that of the largest sizes so far, or of the pool's. What
  // checks of indices and recordings take is not among it.
  ExecutorMemory memory() const;

  // Whether runs of the last run's sizes have found out how they are quickest on the device: the
  // first some dozen short ones try it (run_sharing.h).
  bool is_settled() const;

  // Of the plan's calls for the sizes of the last run, in order; empty before the first.
  std::vector<CallFacts> call_facts() const;

  // With ExecutorOptions::guard, after a run: kVerification naming the buffer when anything was
  // written outside the buffers or into an input. Success without the option. Weights take long
  // to compare: of several runs in a row only the last one needs kAll, the others kRun.
  Status check_guards(Guards which = Guards::kAll);

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace common
