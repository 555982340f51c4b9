#include "common/runtime/executor/executor.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/hash64.h"
#include "common/ir/expr/index.h"
#include "common/runtime/executor/executor_state.h"

namespace common {
namespace {

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
  loaded.donated.assign(plan.inputs.size(), 0);
  for (const Digest& digest : plan.objects) {
    LFARM_ASSIGN_OR_RETURN(ByteView bytes, objects(digest));
    if (digest_of(bytes) != digest) {
      return corrupt(cat("object ", digest.short_hex(), " is damaged: fetch it again"));
    }
    LFARM_ASSIGN_OR_RETURN(auto module, device.load(digest, bytes));
    loaded.modules.push_back(std::move(module));
    loaded.code_bytes += bytes.size();
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

Timed timed_as(const std::vector<int64_t>* calls_ns) {
  return calls_ns == nullptr ? Timed::kWhole : Timed::kLaunches;
}

}  // namespace

TensorRef ref_of(const HostTensor& tensor) {
  ByteView bytes = tensor.bytes();
  return {tensor.dtype(), tensor.sizes(), const_cast<std::byte*>(bytes.data()),
          bytes.size(),   false,          tensor.band()};
}

Status make_room(Device& device, DType dtype, const std::vector<int64_t>& sizes,
                 DeviceTensor& tensor) {
  bool is_callers = tensor.data != nullptr && tensor.memory.data() == nullptr;
  if (is_callers) {
    auto past = reinterpret_cast<uintptr_t>(tensor.data) % kBufferAlignment;
    if (tensor.dtype == dtype && tensor.sizes == sizes && past == 0) return {};
    return invalid_input(cat(tensor_type_text(dtype, sizes), " goes into no memory for ",
                             tensor_type_text(tensor.dtype, tensor.sizes), ", ", past,
                             " bytes past a multiple of ", kBufferAlignment));
  }
  LFARM_ASSIGN_OR_RETURN(int64_t elements, checked_element_count(dtype, sizes));
  auto bytes = static_cast<size_t>(elements * dtype_size(dtype));
  if (tensor.memory.data() == nullptr || tensor.memory.size() != bytes) {
    tensor.memory = {};
    LFARM_ASSIGN_OR_RETURN(tensor.memory, device.allocate(bytes));
    tensor.data = tensor.memory.data();
  }
  tensor.dtype = dtype;
  tensor.sizes = sizes;
  return {};
}

Executor::Executor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executor::~Executor() {
  if (state_->shared.pool != nullptr) state_->shared.pool->clear();
}
const Plan& Executor::plan() const { return state_->loaded.plan; }
const Device& Executor::device() const { return *state_->device; }
Device& Executor::device() { return *state_->device; }

Result<std::unique_ptr<Executor>> Executor::load(const Plan& plan, const ObjectSource& objects,
                                                 Device& device, const ExecutorOptions& options) {
  auto state = std::make_unique<State>();
  LFARM_ASSIGN_OR_RETURN(state->loaded, load_plan(plan, objects, device));
  state->device = &device;
  state->options = options;
  state->band = options.guard ? kGuardBand : 0;
  state->loaded.shares_memory = device.uses_host_memory() && !options.guard;
  if (device.uses_host_memory() && !options.guard) state->shared.pool = options.arenas;
  state->describe_slots();
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

Status Executor::bind_weight(int position, const HostTensor& weight) {
  LFARM_RETURN_IF_ERROR(bind_weight(position, ref_of(weight)));
  InputSlot& slot = state_->inputs[at(position)];
  slot.shared = state_->external.inputs[at(position)] == weight.data() ? weight : HostTensor();
  return {};
}

Status Executor::bind_weight(int position, const TensorRef& weight) {
  State& s = *state_;
  LFARM_RETURN_IF_ERROR(s.check_position(position, InputKind::kWeight));
  LFARM_RETURN_IF_ERROR(s.check_type(position, weight.dtype, weight.sizes));
  InputSlot& slot = s.inputs[at(position)];
  s.set_sizes(slot, weight.sizes);
  slot.shared = {};
  if (s.is_usable(weight)) {
    slot.memory = {};
    s.external.inputs[at(position)] = weight.data;
  } else {
    if (s.has_bands(weight)) {
      slot.memory = GuardedMemory::around(weight.data, weight.bytes, weight.band);
    } else {
      LFARM_ASSIGN_OR_RETURN(slot.memory, s.copy_of(weight));
    }
    s.external.inputs[at(position)] = slot.memory.data();
  }
  if (s.options.guard) {
    LFARM_ASSIGN_OR_RETURN(slot.hash, s.hash_of(weight));
  }
  slot.bound = true;
  const auto& at_load = s.loaded.lifetimes.at_load;
  s.prepared.are_there = !contains(at_load, 1);
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
  return set_state(position, ref_of(state));
}

Status Executor::set_state(int position, const TensorRef& state) {
  State& s = *state_;
  LFARM_RETURN_IF_ERROR(s.check_position(position, InputKind::kState));
  LFARM_RETURN_IF_ERROR(s.check_type(position, state.dtype, state.sizes));
  InputSlot& slot = s.inputs[at(position)];
  s.set_sizes(slot, state.sizes);
  if (slot.bound && slot.memory.size() == state.bytes) {
    LFARM_RETURN_IF_ERROR(s.copy_in(slot.memory.data(), state));
    LFARM_RETURN_IF_ERROR(s.device->synchronise());  // the caller may free the bytes
  } else {
    LFARM_RETURN_IF_ERROR(s.shared.drop(*s.device, slot.memory));
    LFARM_ASSIGN_OR_RETURN(slot.memory, s.copy_of(state));
  }
  slot.bound = true;
  s.external.inputs[at(position)] = slot.memory.data();
  return {};
}

Status Executor::take_states(Executor& from) {
  for (size_t i = 0; i < state_->inputs.size(); ++i) {
    if (state_->plan().inputs[i].kind != InputKind::kState) continue;
    LFARM_RETURN_IF_ERROR(take_state(static_cast<int>(i), from, static_cast<int>(i)));
  }
  return {};
}

Status Executor::take_state(int position, Executor& from, int their_position) {
  State& s = *state_;
  State& other = *from.state_;
  LFARM_RETURN_IF_ERROR(s.check_position(position, InputKind::kState));
  LFARM_RETURN_IF_ERROR(other.check_position(their_position, InputKind::kState));
  InputSlot& slot = s.inputs[at(position)];
  InputSlot& theirs = other.inputs[at(their_position)];
  if (!theirs.bound || s.device != other.device || s.band != other.band) {
    return invalid_input(cat(input_text(s.plan(), position), " cannot be taken over"));
  }
  DType dtype = other.plan().inputs[at(their_position)].dtype;
  LFARM_RETURN_IF_ERROR(s.check_type(position, dtype, theirs.sizes));
  // Graphs of the other's go on with the state where it is.
  s.shared.is_captured = s.shared.is_captured || other.shared.is_captured;
  s.set_sizes(slot, theirs.sizes);
  std::swap(slot.memory, theirs.memory);
  slot.bound = true;
  theirs.bound = false;
  s.external.inputs[at(position)] = slot.memory.data();
  other.external.inputs[at(their_position)] = theirs.memory.data();
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

Status Executor::donate(int position) {
  State& s = *state_;
  bool is_users = position >= 0 && at(position) < s.inputs.size() &&
                  s.plan().inputs[at(position)].kind == InputKind::kUser;
  if (!is_users) return invalid_input(cat("the plan has no user input ", position, " to donate"));
  bool is_needed =
      std::any_of(s.plan().outputs.begin(), s.plan().outputs.end(), [&](const GraphOutput& output) {
        return output.kind != OutputKind::kUser && output.input == position;
      });
  if (is_needed) return {};
  s.loaded.donated[at(position)] = 1;
  s.bound = {};
  return {};
}

ExecutorMemory Executor::memory() const {
  const State& s = *state_;
  ExecutorMemory memory;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const InputSlot& slot = s.inputs[i];
    const GraphInput& input = plan().inputs[i];
    if (input.kind == InputKind::kWeight && slot.bound) {
      auto elements = checked_element_count(input.dtype, slot.sizes);
      memory.weights +=
          elements.ok() ? static_cast<size_t>(*elements * dtype_size(input.dtype)) : 0;
    } else {
      size_t& into = input.kind == InputKind::kState ? memory.states : memory.staging;
      into += slot.memory.size() + slot.next.size();
    }
  }
  for (const KeptSlot& slot : s.prepared.slots) memory.prepacked += slot.memory.size();
  for (const OutputSlot& slot : s.outputs) memory.staging += slot.staged.size();
  memory.arena = s.shared.arena_bytes;
  memory.scratch = s.shared.scratch.size();
  memory.code = s.loaded.code_bytes;
  return memory;
}

Status Executor::prepare() { return state_->prepare(); }

std::vector<ByteView> Executor::prepared() const {
  const State& s = *state_;
  std::vector<ByteView> values;
  if (!s.prepared.are_there || s.options.guard || !s.device->uses_host_memory()) return values;
  for (const KeptSlot& slot : s.prepared.slots)
    values.emplace_back(slot.memory.data(), slot.memory.size());
  return values;
}

Status Executor::use_prepared(std::span<const ByteView> values, std::shared_ptr<const void> owner) {
  return state_->use_prepared(values, std::move(owner));
}

int64_t Executor::prepare_ns() const { return state_->prepared.took_ns; }

Result<RunOutputs> Executor::run(std::span<const HostTensor> inputs) {
  RunOutputs outputs;
  LFARM_RETURN_IF_ERROR(
      state_->run(state_->refs_of(inputs), {&outputs, nullptr}, Timed::kWhole, nullptr));
  return outputs;
}

Status Executor::run(std::span<const TensorRef> inputs, RunOutputs& outputs,
                     std::vector<int64_t>* calls_ns) {
  return state_->run(inputs, {&outputs, nullptr}, timed_as(calls_ns), calls_ns);
}

Status Executor::run_on(void* stream, std::span<const TensorRef> inputs,
                        std::vector<DeviceTensor>& outputs, std::vector<int64_t>* calls_ns) {
  Destination to{nullptr, &outputs};
  if (stream == nullptr) return state_->run(inputs, to, timed_as(calls_ns), calls_ns);
  // What lies in host memory may change as soon as the caller goes on.
  bool waits = std::any_of(inputs.begin(), inputs.end(),
                           [](const TensorRef& input) { return !input.on_device; });
  LFARM_RETURN_IF_ERROR(state_->device->begin_stream(stream));
  Status ran = state_->run(inputs, to, timed_as(calls_ns), calls_ns, waits);
  Status ended = state_->device->end_stream();
  return ran.ok() ? ended : ran;
}

std::optional<FailedCheck> Executor::take_failed_check() { return state_->checks.take_failed(); }

Result<int64_t> Executor::run_total_ns(std::span<const HostTensor> inputs, RunOutputs& outputs) {
  std::vector<int64_t> times;
  LFARM_RETURN_IF_ERROR(
      state_->run(state_->refs_of(inputs), {&outputs, nullptr}, Timed::kWhole, &times));
  return times.at(0);
}

Result<std::vector<int64_t>> Executor::run_calls_ns(std::span<const HostTensor> inputs,
                                                    RunOutputs& outputs) {
  std::vector<int64_t> times;
  LFARM_RETURN_IF_ERROR(
      state_->run(state_->refs_of(inputs), {&outputs, nullptr}, Timed::kRepeated, &times));
  return times;
}

bool Executor::is_settled() const {
  return state_->bound.last != nullptr && state_->bound.last->is_settled(*state_->device);
}

std::vector<CallFacts> Executor::call_facts() const {
  std::vector<CallFacts> all;
  if (state_->bound.last == nullptr) return all;
  for (const Call& call : plan().calls) {
    const PlanKernel& kernel = plan().kernels[at(call.kernel)];
    CallFacts facts{kernel.library ? "gemm" : kernel.entry.name, kernel.fingerprint, 0};
    for (const std::vector<int>* buffers : {&call.inputs, &call.outputs}) {
      for (int buffer : *buffers) {
        facts.bytes += static_cast<int64_t>(state_->bound.last->buffer_bytes(buffer));
      }
    }
    all.push_back(std::move(facts));
  }
  return all;
}

Status Executor::check_guards(Guards which) {
  State& s = *state_;
  MemoryHasher hasher(*s.device);
  auto check_content = [&](const std::string& name, const GuardedMemory& memory, uint64_t expected,
                           const char* what) -> Status {
    LFARM_ASSIGN_OR_RETURN(uint64_t hash, hasher.hash(memory.data(), memory.size()));
    if (hash == expected) return {};
    return Error{Code::kVerification, cat(name, " was written by ", what, ", which only reads it")};
  };
  if (!s.options.guard || s.bound.last == nullptr) return {};
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    InputSlot& slot = s.inputs[i];
    if (slot.memory.data() == nullptr) continue;
    std::string name = input_text(s.plan(), static_cast<int>(i));
    LFARM_RETURN_IF_ERROR(slot.memory.check(*s.device, name));
    LFARM_RETURN_IF_ERROR(slot.next.check(*s.device, name));
    const InputKind kind = s.plan().inputs[i].kind;
    const bool is_left = kind == InputKind::kWeight && which == Guards::kRun;
    if (kind == InputKind::kState || is_left) continue;
    LFARM_RETURN_IF_ERROR(check_content(name, slot.memory, slot.hash, "the plan"));
  }
  for (size_t o = 0; o < s.outputs.size(); ++o) {
    LFARM_RETURN_IF_ERROR(s.outputs[o].staged.check(*s.device, cat("output ", o)));
  }
  LFARM_RETURN_IF_ERROR(s.checks.check_bands());
  for (const KeptSlot& slot : s.prepared.slots) {
    std::string name = cat("what the plan keeps in buffer ", slot.buffer);
    LFARM_RETURN_IF_ERROR(slot.memory.check(*s.device, name));
    if (which == Guards::kRun) continue;
    LFARM_RETURN_IF_ERROR(check_content(name, slot.memory, slot.hash, "a run"));
  }
  return s.bound.last->check_bands(*s.device, s.shared);
}

}  // namespace common
