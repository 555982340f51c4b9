#include "common/runtime/executor.h"

#include <algorithm>
#include <list>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/hash64.h"
#include "common/runtime/executor_calls.h"

namespace common {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

// Size sets whose calls are kept ready; decoding loops alternate between few.
constexpr size_t kBoundCallsMax = 8;
// Each side of every guarded buffer: wider than a vector register or a short row.
constexpr size_t kGuardBand = 4096;

bool is_aligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % kBufferAlignment == 0;
}

// All bits set is NaN in every float format; integers get a value that is hardly ever right.
std::byte poison_for(DType dtype) {
  return is_float(dtype) || dtype == DType::kComplex64 ? std::byte{0xff} : std::byte{0xa5};
}

std::string input_text(const Plan& plan, int position) {
  static constexpr const char* kKinds[] = {"user", "weight", "state"};
  return cat("input ", position, " (", kKinds[at(static_cast<int>(plan.inputs[at(position)].kind))],
             ")");
}

// What the executor needs beyond verify(): one buffer per output, and mutated inputs whose new
// content is like the old.
Status check_outputs(const Plan& plan) {
  std::vector<int> buffer_of(plan.outputs.size(), -1);
  std::vector<char> mutated(plan.inputs.size(), 0);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.kind != BufferKind::kOutput) continue;
    if (buffer_of[at(buffer.position)] >= 0) return corrupt("two plan buffers are one output");
    buffer_of[at(buffer.position)] = static_cast<int>(b);
    const GraphOutput& output = plan.outputs[at(buffer.position)];
    if (output.kind != OutputKind::kMutate) continue;
    const GraphInput& input = plan.inputs[at(output.input)];
    if (input.kind == InputKind::kWeight || input.dtype != buffer.dtype ||
        input.shape != buffer.shape || mutated[at(output.input)]) {
      return corrupt(cat("plan output ", buffer.position, " cannot be the new content of input ",
                         output.input));
    }
    mutated[at(output.input)] = 1;
  }
  return {};
}

Result<LoadedPlan> load_plan(const Plan& plan, const ObjectSource& objects, Device& device) {
  LFARM_RETURN_IF_ERROR(verify(plan));
  LFARM_RETURN_IF_ERROR(check_outputs(plan));
  if (plan.key.target != device.target()) {
    return invalid_input(cat("the plan is for ", plan.key.target.name, ", this device is ",
                             device.target().name, ": ask for a plan for this target"));
  }
  LoadedPlan loaded;
  loaded.plan = plan;
  loaded.lifetimes = buffer_lifetimes(plan);
  for (const Digest& digest : plan.objects) {
    LFARM_ASSIGN_OR_RETURN(ByteView bytes, objects(digest));
    if (digest_of(bytes) != digest) {
      return corrupt(cat("object ", digest.short_hex(), " is damaged: fetch it again"));
    }
    LFARM_ASSIGN_OR_RETURN(auto module, device.load(digest, bytes));
    loaded.modules.push_back(std::move(module));
  }
  for (const PlanKernel& kernel : plan.kernels) {
    Function function;
    if (kernel.library) {
      if (!device.has_gemm()) {
        return device.gemm({}, nullptr, nullptr, nullptr).error();  // says what to install
      }
    } else {
      LFARM_ASSIGN_OR_RETURN(function, loaded.modules[at(kernel.object)]->entry(kernel.entry.name));
    }
    loaded.functions.push_back(function);
  }
  loaded.shape.symbols = plan.symbols;
  loaded.shape.inputs = plan.inputs;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    loaded.shape.inputs[i].name = std::to_string(i);
  }
  return loaded;
}

}  // namespace

// What an input's memory is. Weights and states own theirs or share the caller's.
struct InputSlot {
  HostTensor shared;     // keeps zero-copy memory alive
  GuardedMemory memory;  // copies: weights, states, staged user inputs
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
  GuardedMemory staged;
};

// A value computed from weights alone, kept from run to run.
struct KeptSlot {
  size_t buffer = 0;
  GuardedMemory memory;
  uint64_t hash = 0;  // of guarded content
};

struct Executor::State {
  LoadedPlan loaded;
  Device* device = nullptr;
  ExecutorOptions options;
  size_t band = 0;
  std::vector<InputSlot> inputs;
  std::vector<OutputSlot> outputs;
  std::vector<KeptSlot> kept;
  bool is_prepared = true;  // false: weights were bound that calls at load read
  int64_t prepare_ns = 0;
  size_t user_inputs = 0;
  // Most recently used first.
  std::list<std::unique_ptr<BoundCalls>> bound;
  std::list<std::vector<int64_t>> bound_sizes;  // the user inputs' sizes in a row, beside `bound`
  std::vector<int64_t> sizes_key;
  BoundCalls* last = nullptr;
  SharedMemory shared;
  ExternalMemory external;

  const Plan& plan() const { return loaded.plan; }
  // Outputs are written straight into host tensors.
  bool direct_outputs() const { return device->uses_host_memory() && !options.guard; }
  Pace pace(bool per_call) const {
    if (options.one_by_one) return Pace::kWaiting;
    return per_call ? Pace::kOneByOne : Pace::kTogether;
  }
  void describe_slots();
  Status check_position(int position, InputKind kind) const;
  Status check_type(int position, DType dtype, std::span<const int64_t> sizes) const;
  Result<GuardedMemory> copy_of(ByteView bytes);
  void set_sizes(InputSlot& slot, const std::vector<int64_t>& sizes);
  Result<BoundCalls*> calls_for(std::span<const HostTensor> given);
  Status stage_inputs(std::span<const HostTensor> given);
  Status stage_outputs(const BoundCalls& calls, RunOutputs& out);
  Status output_memory(const BoundCalls& calls, OutputSlot& slot, HostTensor* tensor,
                       std::byte*& data);
  Status prepare();
  Status run_at_load();
  Status poison(BoundCalls& calls);
  Status collect(RunOutputs& out);
  Status run(std::span<const HostTensor> given, RunOutputs& out, bool per_call,
             std::vector<int64_t>* times);
};

void Executor::State::describe_slots() {
  inputs.resize(plan().inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (plan().inputs[i].kind == InputKind::kUser) {
      inputs[i].user_index = static_cast<int>(user_inputs++);
    }
  }
  outputs.resize(plan().outputs.size());
  for (size_t b = 0; b < plan().buffers.size(); ++b) {
    const Buffer& buffer = plan().buffers[b];
    if (buffer.kind != BufferKind::kOutput) continue;
    OutputSlot& slot = outputs[at(buffer.position)];
    slot.buffer = static_cast<int>(b);
    slot.dtype = buffer.dtype;
    const GraphOutput& output = plan().outputs[at(buffer.position)];
    if (output.kind == OutputKind::kMutate &&
        plan().inputs[at(output.input)].kind == InputKind::kState) {
      slot.state_input = output.input;
      slot.in_place = loaded.lifetimes.storage[b] != slot.buffer;
    }
  }
  for (char at_load : loaded.lifetimes.at_load) is_prepared = is_prepared && !at_load;
  for (size_t b = 0; b < plan().buffers.size(); ++b) {
    if (loaded.lifetimes.kept[b]) kept.push_back({b, {}, 0});
  }
  external.kept.resize(plan().buffers.size(), nullptr);
  external.inputs.resize(inputs.size(), nullptr);
  external.outputs.resize(outputs.size(), nullptr);
}

Status Executor::State::check_position(int position, InputKind kind) const {
  if (position < 0 || at(position) >= inputs.size() || plan().inputs[at(position)].kind != kind) {
    return invalid_input(cat("the plan has no ", kind == InputKind::kWeight ? "weight" : "state",
                             " at input ", position));
  }
  return {};
}

Status Executor::State::check_type(int position, DType dtype,
                                   std::span<const int64_t> sizes) const {
  const GraphInput& input = plan().inputs[at(position)];
  bool ok = input.dtype == dtype && input.shape.size() == sizes.size();
  for (size_t k = 0; ok && k < sizes.size(); ++k) {
    ok = !input.shape[k].is_constant() || input.shape[k].constant() == sizes[k];
  }
  if (ok) return {};
  return invalid_input(cat(input_text(plan(), position), " is ", tensor_type_text(dtype, sizes),
                           " but the model takes ", dtype_name(input.dtype),
                           shape_text(input.shape)));
}

Result<GuardedMemory> Executor::State::copy_of(ByteView bytes) {
  LFARM_ASSIGN_OR_RETURN(GuardedMemory memory,
                         GuardedMemory::allocate(*device, bytes.size(), band));
  LFARM_RETURN_IF_ERROR(device->copy_in(memory.data(), bytes));
  LFARM_RETURN_IF_ERROR(device->synchronise());  // the caller may free the bytes
  return memory;
}

// Sets the sizes of a weight or state; calls that were bound for others are forgotten.
void Executor::State::set_sizes(InputSlot& slot, const std::vector<int64_t>& sizes) {
  if (slot.bound && slot.sizes != sizes) {
    bound.clear();
    bound_sizes.clear();
    last = nullptr;
  }
  slot.sizes = sizes;
}

// The calls for the given inputs' sizes, from the kept ones or bound now.
Result<BoundCalls*> Executor::State::calls_for(std::span<const HostTensor> given) {
  if (given.size() != user_inputs) {
    return invalid_input(
        cat("the model takes ", user_inputs, " inputs, ", given.size(), " were given"));
  }
  sizes_key.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSlot& slot = inputs[i];
    if (slot.user_index < 0) {
      if (slot.bound) continue;
      return invalid_input(
          cat(input_text(plan(), static_cast<int>(i)), " has no content: bind it before the run"));
    }
    const HostTensor& tensor = given[at(slot.user_index)];
    const GraphInput& input = plan().inputs[i];
    if (tensor.dtype() != input.dtype || tensor.sizes().size() != input.shape.size()) {
      return check_type(static_cast<int>(i), tensor.dtype(), tensor.sizes()).error();
    }
    sizes_key.insert(sizes_key.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  auto known = bound.begin();
  for (auto key = bound_sizes.begin(); key != bound_sizes.end(); ++key, ++known) {
    if (*key != sizes_key) continue;
    bound_sizes.splice(bound_sizes.begin(), bound_sizes, key);
    bound.splice(bound.begin(), bound, known);
    return bound.front().get();
  }
  std::vector<std::vector<int64_t>> all_sizes;
  for (const InputSlot& slot : inputs) {
    all_sizes.push_back(slot.user_index < 0 ? slot.sizes : given[at(slot.user_index)].sizes());
  }
  LFARM_ASSIGN_OR_RETURN(auto symbols, bind_symbols(loaded.shape, all_sizes));
  LFARM_ASSIGN_OR_RETURN(auto calls,
                         BoundCalls::bind(loaded, std::move(symbols), band, Phase::kRun));
  bound.push_front(std::move(calls));
  bound_sizes.push_front(sizes_key);
  if (bound.size() > kBoundCallsMax) {
    bound.pop_back();
    bound_sizes.pop_back();
  }
  return bound.front().get();
}

Status Executor::State::stage_inputs(std::span<const HostTensor> given) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputSlot& slot = inputs[i];
    if (slot.user_index < 0) continue;
    const HostTensor& tensor = given[at(slot.user_index)];
    if (direct_outputs() && is_aligned(tensor.data())) {
      external.inputs[i] = const_cast<std::byte*>(tensor.data());  // kernels only read inputs
      continue;
    }
    if (slot.memory.data() == nullptr || slot.memory.size() < tensor.bytes().size() ||
        (options.guard && slot.memory.size() != tensor.bytes().size())) {
      slot.memory = {};
      LFARM_ASSIGN_OR_RETURN(slot.memory,
                             GuardedMemory::allocate(*device, tensor.bytes().size(), band));
    }
    LFARM_RETURN_IF_ERROR(device->copy_in(slot.memory.data(), tensor.bytes()));
    external.inputs[i] = slot.memory.data();
    if (options.guard) slot.hash = hash64(tensor.bytes());
  }
  return {};
}

// Where an output is written: the host tensor itself, staged memory, or a state's memory.
Status Executor::State::output_memory(const BoundCalls& calls, OutputSlot& slot, HostTensor* tensor,
                                      std::byte*& data) {
  size_t bytes = calls.buffer_bytes(slot.buffer);
  if (tensor != nullptr) {
    const std::vector<int64_t>& sizes = calls.buffer_sizes(slot.buffer);
    bool reusable = tensor->dtype() == slot.dtype && tensor->sizes() == sizes &&
                    tensor->owns_memory() && tensor->data() != nullptr;
    if (!reusable) {
      LFARM_ASSIGN_OR_RETURN(*tensor, HostTensor::uninitialized(slot.dtype, sizes));
    }
    if (direct_outputs()) {
      data = tensor->mutable_bytes().data();
      return {};
    }
  }
  GuardedMemory& memory = slot.state_input >= 0 ? inputs[at(slot.state_input)].next : slot.staged;
  if (memory.data() == nullptr || memory.size() != bytes) {
    memory = {};
    LFARM_ASSIGN_OR_RETURN(memory, GuardedMemory::allocate(*device, bytes, band));
  }
  data = memory.data();
  return {};
}

Status Executor::State::stage_outputs(const BoundCalls& calls, RunOutputs& out) {
  size_t user = 0, mutated = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    OutputSlot& slot = outputs[o];
    HostTensor* tensor = nullptr;
    if (slot.in_place) {
      external.outputs[o] = inputs[at(slot.state_input)].memory.data();
      continue;
    }
    if (plan().outputs[o].kind == OutputKind::kUser) {
      if (out.user.size() <= user) out.user.emplace_back();
      tensor = &out.user[user++];
    } else if (slot.state_input < 0) {
      if (out.mutated.size() <= mutated) out.mutated.emplace_back();
      out.mutated[mutated].input = plan().outputs[o].input;
      tensor = &out.mutated[mutated++].value;
    }
    LFARM_RETURN_IF_ERROR(output_memory(calls, slot, tensor, external.outputs[o]));
  }
  out.user.resize(user);
  out.mutated.resize(mutated);
  return {};
}

Status Executor::State::prepare() {
  if (is_prepared) return {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (plan().inputs[i].kind != InputKind::kWeight || inputs[i].bound) continue;
    return invalid_input(
        cat(input_text(plan(), static_cast<int>(i)), " has no content: bind it before the run"));
  }
  SteadyClock clock;
  int64_t start = clock.now_ns();
  LFARM_RETURN_IF_ERROR(run_at_load());
  prepare_ns = clock.now_ns() - start;
  is_prepared = true;
  return {};
}

Status Executor::State::run_at_load() {
  // No call at load needs a symbol's value.
  std::vector<int64_t> symbols;
  for (const SymbolRange& range : plan().symbols) symbols.push_back(range.min);
  LFARM_ASSIGN_OR_RETURN(auto calls,
                         BoundCalls::bind(loaded, std::move(symbols), band, Phase::kLoad));
  for (KeptSlot& slot : kept) {
    size_t bytes = calls->buffer_bytes(static_cast<int>(slot.buffer));
    if (slot.memory.data() == nullptr) {
      LFARM_ASSIGN_OR_RETURN(slot.memory, GuardedMemory::allocate(*device, bytes, band));
      external.kept[slot.buffer] = slot.memory.data();
    }
    if (!options.guard) continue;
    LFARM_RETURN_IF_ERROR(
        device->fill(slot.memory.data(), poison_for(plan().buffers[slot.buffer].dtype), bytes));
  }
  SharedMemory memory;  // only for now: what is kept lies elsewhere
  if (options.guard) LFARM_RETURN_IF_ERROR(calls->poison(*device, memory, std::byte{0xff}));
  LFARM_RETURN_IF_ERROR(calls->make_ready(*device, external, memory, pace(false)));
  LFARM_RETURN_IF_ERROR(calls->run(*device, nullptr, options.on_call));
  LFARM_RETURN_IF_ERROR(device->synchronise());
  if (!options.guard) return {};
  LFARM_RETURN_IF_ERROR(calls->check_bands(*device, memory));
  for (KeptSlot& slot : kept) {
    LFARM_ASSIGN_OR_RETURN(slot.hash, hash_memory(*device, slot.memory.data(), slot.memory.size()));
  }
  return {};
}

Status Executor::State::poison(BoundCalls& calls) {
  LFARM_RETURN_IF_ERROR(calls.poison(*device, shared, std::byte{0xff}));
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].in_place) continue;
    LFARM_RETURN_IF_ERROR(device->fill(external.outputs[o], poison_for(outputs[o].dtype),
                                       calls.buffer_bytes(outputs[o].buffer)));
  }
  return {};
}

// Copies staged outputs to the host and makes new contents of states current.
Status Executor::State::collect(RunOutputs& out) {
  size_t user = 0, mutated = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    OutputSlot& slot = outputs[o];
    if (slot.state_input >= 0) continue;
    HostTensor& tensor = plan().outputs[o].kind == OutputKind::kUser ? out.user[user++]
                                                                     : out.mutated[mutated++].value;
    if (direct_outputs()) continue;
    LFARM_RETURN_IF_ERROR(device->copy_out(tensor.mutable_bytes(), external.outputs[o]));
  }
  for (OutputSlot& slot : outputs) {
    if (slot.state_input < 0 || slot.in_place) continue;
    InputSlot& input = inputs[at(slot.state_input)];
    std::swap(input.memory, input.next);
    external.inputs[at(slot.state_input)] = input.memory.data();
  }
  return {};
}

Status Executor::State::run(std::span<const HostTensor> given, RunOutputs& out, bool per_call,
                            std::vector<int64_t>* times) {
  LFARM_ASSIGN_OR_RETURN(BoundCalls * calls, calls_for(given));
  last = calls;
  LFARM_RETURN_IF_ERROR(prepare());
  LFARM_RETURN_IF_ERROR(stage_inputs(given));
  LFARM_RETURN_IF_ERROR(stage_outputs(*calls, out));
  if (options.guard) LFARM_RETURN_IF_ERROR(poison(*calls));
  std::unique_ptr<Timer> timer;
  if (times != nullptr) timer = device->make_timer(per_call ? plan().calls.size() + 1 : 2);
  LFARM_RETURN_IF_ERROR(calls->make_ready(*device, external, shared, pace(per_call)));
  if (timer != nullptr && options.cold_caches) LFARM_RETURN_IF_ERROR(device->flush_caches());
  if (timer != nullptr && !per_call) timer->mark();
  LFARM_RETURN_IF_ERROR(calls->run(*device, per_call ? timer.get() : nullptr, options.on_call));
  if (timer != nullptr && !per_call) timer->mark();
  LFARM_RETURN_IF_ERROR(device->synchronise());
  if (timer != nullptr) {
    LFARM_ASSIGN_OR_RETURN(*times, timer->take_intervals_ns());
  }
  if (times != nullptr && per_call) {
    for (size_t c = 0; c < plan().calls.size(); ++c) {
      if (loaded.lifetimes.at_load[c])
        times->insert(times->begin() + static_cast<std::ptrdiff_t>(c), 0);
    }
  }
  return collect(out);
}

Executor::Executor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executor::~Executor() = default;
const Plan& Executor::plan() const { return state_->loaded.plan; }
const Device& Executor::device() const { return *state_->device; }

Result<std::unique_ptr<Executor>> Executor::load(const Plan& plan, const ObjectSource& objects,
                                                 Device& device, const ExecutorOptions& options) {
  auto state = std::make_unique<State>();
  LFARM_ASSIGN_OR_RETURN(state->loaded, load_plan(plan, objects, device));
  state->device = &device;
  state->options = options;
  state->band = options.guard ? kGuardBand : 0;
  state->describe_slots();
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

Status Executor::bind_weight(int position, const HostTensor& weight) {
  State& s = *state_;
  LFARM_RETURN_IF_ERROR(s.check_position(position, InputKind::kWeight));
  LFARM_RETURN_IF_ERROR(s.check_type(position, weight.dtype(), weight.sizes()));
  InputSlot& slot = s.inputs[at(position)];
  s.set_sizes(slot, weight.sizes());
  if (s.direct_outputs() && is_aligned(weight.data())) {
    slot.shared = weight;
    slot.memory = {};
    s.external.inputs[at(position)] = const_cast<std::byte*>(weight.data());
  } else {
    LFARM_ASSIGN_OR_RETURN(slot.memory, s.copy_of(weight.bytes()));
    slot.shared = {};
    s.external.inputs[at(position)] = slot.memory.data();
  }
  if (s.options.guard) slot.hash = hash64(weight.bytes());
  slot.bound = true;
  const auto& at_load = s.loaded.lifetimes.at_load;
  s.is_prepared = std::find(at_load.begin(), at_load.end(), 1) == at_load.end();
  return {};
}

Status Executor::bind_weight(int position, ByteView bytes) {
  LFARM_RETURN_IF_ERROR(state_->check_position(position, InputKind::kWeight));
  const GraphInput& input = plan().inputs[at(position)];
  for (const Expr& size : input.shape) {
    if (!size.is_constant()) {
      return invalid_input(
          cat(input_text(plan(), position), " has sizes that vary: bind a tensor"));
    }
  }
  LFARM_ASSIGN_OR_RETURN(HostTensor weight,
                         HostTensor::wrap(input.dtype, evaluate_shape(input.shape, {}), bytes));
  return bind_weight(position, weight);
}

Status Executor::set_state(int position, const HostTensor& state) {
  State& s = *state_;
  LFARM_RETURN_IF_ERROR(s.check_position(position, InputKind::kState));
  LFARM_RETURN_IF_ERROR(s.check_type(position, state.dtype(), state.sizes()));
  InputSlot& slot = s.inputs[at(position)];
  s.set_sizes(slot, state.sizes());
  if (slot.bound && slot.memory.size() == state.bytes().size()) {
    LFARM_RETURN_IF_ERROR(s.device->copy_in(slot.memory.data(), state.bytes()));
    LFARM_RETURN_IF_ERROR(s.device->synchronise());  // the caller may free the bytes
  } else {
    LFARM_ASSIGN_OR_RETURN(slot.memory, s.copy_of(state.bytes()));
  }
  slot.bound = true;
  s.external.inputs[at(position)] = slot.memory.data();
  return {};
}

Result<HostTensor> Executor::state(int position) {
  State& s = *state_;
  LFARM_RETURN_IF_ERROR(s.check_position(position, InputKind::kState));
  InputSlot& slot = s.inputs[at(position)];
  if (!slot.bound) return invalid_input(cat(input_text(plan(), position), " has no content yet"));
  LFARM_ASSIGN_OR_RETURN(HostTensor copy,
                         HostTensor::uninitialized(plan().inputs[at(position)].dtype, slot.sizes));
  LFARM_RETURN_IF_ERROR(s.device->copy_out(copy.mutable_bytes(), slot.memory.data()));
  return copy;
}

Status Executor::prepare() { return state_->prepare(); }
int64_t Executor::prepare_ns() const { return state_->prepare_ns; }

Result<RunOutputs> Executor::run(std::span<const HostTensor> inputs) {
  RunOutputs outputs;
  LFARM_RETURN_IF_ERROR(state_->run(inputs, outputs, false, nullptr));
  return outputs;
}

Result<int64_t> Executor::run_total_ns(std::span<const HostTensor> inputs, RunOutputs& outputs) {
  std::vector<int64_t> times;
  LFARM_RETURN_IF_ERROR(state_->run(inputs, outputs, false, &times));
  return times.at(0);
}

Result<std::vector<int64_t>> Executor::run_calls_ns(std::span<const HostTensor> inputs,
                                                    RunOutputs& outputs) {
  std::vector<int64_t> times;
  LFARM_RETURN_IF_ERROR(state_->run(inputs, outputs, true, &times));
  return times;
}

Status Executor::check_guards() {
  State& s = *state_;
  if (!s.options.guard || s.last == nullptr) return {};
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    InputSlot& slot = s.inputs[i];
    if (slot.memory.data() == nullptr) continue;
    std::string name = input_text(s.plan(), static_cast<int>(i));
    LFARM_RETURN_IF_ERROR(slot.memory.check(*s.device, name));
    LFARM_RETURN_IF_ERROR(slot.next.check(*s.device, name));
    if (s.plan().inputs[i].kind == InputKind::kState) continue;
    LFARM_ASSIGN_OR_RETURN(uint64_t hash,
                           hash_memory(*s.device, slot.memory.data(), slot.memory.size()));
    if (hash != slot.hash) {
      return Error{Code::kVerification, cat(name, " was written by the plan, which only reads it")};
    }
  }
  for (size_t o = 0; o < s.outputs.size(); ++o) {
    LFARM_RETURN_IF_ERROR(s.outputs[o].staged.check(*s.device, cat("output ", o)));
  }
  for (const KeptSlot& slot : s.kept) {
    std::string name = cat("what the plan keeps in buffer ", slot.buffer);
    LFARM_RETURN_IF_ERROR(slot.memory.check(*s.device, name));
    LFARM_ASSIGN_OR_RETURN(uint64_t hash,
                           hash_memory(*s.device, slot.memory.data(), slot.memory.size()));
    if (hash != slot.hash) {
      return Error{Code::kVerification, cat(name, " was written by a run, which only reads it")};
    }
  }
  return s.last->check_bands(*s.device, s.shared);
}

}  // namespace common
