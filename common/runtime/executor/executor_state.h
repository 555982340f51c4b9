// An executor's insides: the memory behind every input and output of a plan, and one run's way
// through them. For the executor's own sources.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/executor/executor.h"
#include "common/runtime/executor/executor_calls.h"
#include "common/runtime/executor/executor_memory.h"
#include "common/runtime/executor/index_checks.h"

namespace common {

// "input 3 (weight)"
std::string input_text(const Plan& plan, int position);

// What an input's memory is. Weights and states own theirs or share the caller's.
struct InputSlot {
  HostTensor shared;     // keeps zero-copy memory alive, where it is the host's
  GuardedMemory memory;  // copies: weights, states, staged user inputs; or `shared` with bands
  GuardedMemory next;    // a state's new content while the old one is still needed
  std::vector<int64_t> sizes;
  uint64_t hash = 0;  // of guarded content that nobody may change
  bool bound = false;
  int user_index = -1;  // among the inputs given to run()
};
struct OutputSlot {
  int buffer = -1;
  DType dtype{};
  int state_input = -1;   // >= 0: becomes the content of this state
  bool in_place = false;  // lies in that state's memory already
  int user_index = -1;    // >= 0: of the user input that it is the new content of
  GuardedMemory staged;
};

// A value computed from weights alone, kept from run to run.
struct KeptSlot {
  size_t buffer = 0;
  GuardedMemory memory;
  uint64_t hash = 0;  // of guarded content
};

// All of them: computed here, or given.
struct PreparedValues {
  std::vector<KeptSlot> slots;
  bool are_there = true;  // false: weights were bound that calls at load read
  int64_t took_ns = 0;
  bool are_given = false;  // by use_prepared(), and not to be written
  std::shared_ptr<const void> owner;
};

// Where a run leaves its outputs: one of the two.
struct Destination {
  RunOutputs* host = nullptr;
  std::vector<DeviceTensor>* device = nullptr;
};

// What a run's times are of.
enum class Timed : uint8_t {
  kWhole,     // all calls together
  kLaunches,  // each call, as it is launched
  kRepeated,  // each call as in a recorded row, on a device that records
};

// The calls of the sizes that runs had lately.
struct BoundSizes {
  // Most recently used first.
  std::list<std::unique_ptr<BoundCalls>> calls;
  std::list<std::vector<int64_t>> sizes;  // the user inputs' sizes in a row, beside `calls`
  std::vector<int64_t> key;               // the same of the run in progress
  BoundCalls* last = nullptr;
};

struct Executor::State {
  LoadedPlan loaded;
  Device* device = nullptr;
  ExecutorOptions options;
  size_t band = 0;
  std::vector<InputSlot> inputs;
  std::vector<OutputSlot> outputs;
  PreparedValues prepared;
  size_t user_inputs = 0;
  BoundSizes bound;
  std::vector<TensorRef> refs;  // of the host tensors of the run in progress
  SharedMemory shared;
  ExternalMemory external;
  IndexChecks checks;

  const Plan& plan() const { return loaded.plan; }
  // Outputs are written straight into host tensors.
  bool direct_outputs() const { return device->uses_host_memory() && !options.guard; }
  std::vector<TensorRef>& refs_of(std::span<const HostTensor> tensors);
  Pace pace(Timed timed) const {
    if (options.one_by_one) return Pace::kWaiting;
    return timed == Timed::kWhole ? Pace::kTogether : Pace::kOneByOne;
  }
  // Whether a run finds weights in the device's memory and not in its caches.
  bool has_cold_weights(const BoundCalls& calls) const;
  void describe_slots();
  Status check_position(int position, InputKind kind) const;
  Status check_type(int position, DType dtype, std::span<const int64_t> sizes) const;
  Result<GuardedMemory> copy_of(const TensorRef& tensor);
  // Whether the device can work on the tensor where it lies.
  bool is_usable(const TensorRef& tensor) const;
  // Whether guards can be where the tensor lies.
  bool has_bands(const TensorRef& tensor) const;
  Status copy_in(std::byte* to, const TensorRef& tensor);
  Result<uint64_t> hash_of(const TensorRef& tensor) const;
  void set_sizes(InputSlot& slot, std::span<const int64_t> sizes);
  Result<BoundCalls*> calls_for(std::span<const TensorRef> given);
  Status stage_inputs(std::span<const TensorRef> given);
  Status stage_outputs(const BoundCalls& calls, const Destination& to);
  Status output_memory(const BoundCalls& calls, OutputSlot& slot, HostTensor* tensor,
                       std::byte*& data);
  // kInvalidInput for a run that cannot be part of a caller's graph.
  Status check_captured(bool is_timed, bool waits) const;
  Status prepare();
  Status use_prepared(std::span<const ByteView> values, std::shared_ptr<const void> owner);
  Result<std::unique_ptr<BoundCalls>> calls_at_load();
  Status run_at_load();
  Status poison(BoundCalls& calls);
  // `is_done`: the device has done all calls.
  Status collect(std::span<const TensorRef> given, const Destination& to, bool is_done);
  // Runs the calls; `times`, unless null, is what `timed` says, of the run's calls.
  Status run_calls(BoundCalls& calls, Timed timed, std::vector<int64_t>* times);
  // `waits`: until all is done.
  Status run(std::span<const TensorRef> given, const Destination& to, Timed timed,
             std::vector<int64_t>* times, bool waits = true);
};

}  // namespace common
