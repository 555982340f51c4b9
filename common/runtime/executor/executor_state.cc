#include "common/runtime/executor/executor_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/hash64.h"
#include "common/ir/expr/index.h"

namespace common {
namespace {

// Size sets whose calls are kept ready; decoding loops alternate between few.
constexpr size_t kBoundCallsMax = 8;

bool is_aligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % kBufferAlignment == 0;
}

// All bits set is NaN in every float format; integers get a value that is hardly ever right.
std::byte poison_for(DType dtype) {
  return is_float(dtype) || dtype == DType::kComplex64 ? std::byte{0xff} : std::byte{0xa5};
}

// First contents of states mostly are.
bool is_zero(ByteView bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), &bytes[1], bytes.size() - 1) == 0);
}

}  // namespace

std::string input_text(const Plan& plan, int position) {
  static constexpr const char* kKinds[] = {"user", "weight", "state"};
  return cat("input ", position, " (", kKinds[at(static_cast<int>(plan.inputs[at(position)].kind))],
             ")");
}

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
    } else if (output.kind == OutputKind::kMutate) {
      slot.user_index = inputs[at(output.input)].user_index;
    }
  }
  for (char at_load : loaded.lifetimes.at_load) prepared.are_there = prepared.are_there && !at_load;
  for (size_t b = 0; b < plan().buffers.size(); ++b) {
    if (loaded.lifetimes.kept[b]) prepared.slots.push_back({b, {}, 0});
  }
  external.kept.resize(plan().buffers.size(), nullptr);
  external.inputs.resize(inputs.size(), nullptr);
  external.outputs.resize(outputs.size(), nullptr);
  checks.describe(plan().outputs, *device, band);
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

bool Executor::State::is_usable(const TensorRef& tensor) const {
  bool is_there = tensor.on_device || device->uses_host_memory();
  return is_there && !options.guard && is_aligned(tensor.data);
}

bool Executor::State::has_bands(const TensorRef& tensor) const {
  const bool is_there = tensor.on_device != device->uses_host_memory();
  return options.guard && is_there && tensor.band >= band && is_aligned(tensor.data);
}

Status Executor::State::copy_in(std::byte* to, const TensorRef& tensor) {
  return tensor.on_device ? device->copy(to, tensor.data, tensor.bytes)
                          : device->copy_in(to, {tensor.data, tensor.bytes});
}

Result<GuardedMemory> Executor::State::copy_of(const TensorRef& tensor) {
  const bool is_clear = !tensor.on_device && is_zero({tensor.data, tensor.bytes});
  LFARM_ASSIGN_OR_RETURN(GuardedMemory memory,
                         is_clear ? GuardedMemory::zeros(*device, tensor.bytes, band)
                                  : GuardedMemory::allocate(*device, tensor.bytes, band));
  if (!is_clear) LFARM_RETURN_IF_ERROR(copy_in(memory.data(), tensor));
  LFARM_RETURN_IF_ERROR(device->synchronise());  // the caller may free the bytes
  return memory;
}

Result<uint64_t> Executor::State::hash_of(const TensorRef& tensor) const {
  if (tensor.hash) return *tensor.hash;
  if (tensor.on_device) return MemoryHasher(*device).hash(tensor.data, tensor.bytes);
  return hash64(ByteView{tensor.data, tensor.bytes});
}

std::vector<TensorRef>& Executor::State::refs_of(std::span<const HostTensor> tensors) {
  refs.clear();
  for (const HostTensor& tensor : tensors) refs.push_back(ref_of(tensor));
  return refs;
}

// Sets the sizes of a weight or state; calls that were bound for others are forgotten.
void Executor::State::set_sizes(InputSlot& slot, std::span<const int64_t> sizes) {
  if (!std::equal(sizes.begin(), sizes.end(), slot.sizes.begin(), slot.sizes.end())) {
    bound = {};
  }
  slot.sizes.assign(sizes.begin(), sizes.end());
}

// The calls for the given inputs' sizes, from the kept ones or bound now.
Result<BoundCalls*> Executor::State::calls_for(std::span<const TensorRef> given) {
  if (given.size() != user_inputs) {
    return invalid_input(
        cat("the model takes ", user_inputs, " inputs, ", given.size(), " were given"));
  }
  bound.key.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSlot& slot = inputs[i];
    if (slot.user_index < 0) {
      if (slot.bound) continue;
      return invalid_input(
          cat(input_text(plan(), static_cast<int>(i)), " has no content: bind it before the run"));
    }
    const TensorRef& tensor = given[at(slot.user_index)];
    const GraphInput& input = plan().inputs[i];
    if (tensor.dtype != input.dtype || tensor.sizes.size() != input.shape.size()) {
      return check_type(static_cast<int>(i), tensor.dtype, tensor.sizes).error();
    }
    bound.key.insert(bound.key.end(), tensor.sizes.begin(), tensor.sizes.end());
  }
  auto known = bound.calls.begin();
  for (auto key = bound.sizes.begin(); key != bound.sizes.end(); ++key, ++known) {
    if (*key != bound.key) continue;
    bound.sizes.splice(bound.sizes.begin(), bound.sizes, key);
    bound.calls.splice(bound.calls.begin(), bound.calls, known);
    return bound.calls.front().get();
  }
  std::vector<std::vector<int64_t>> all_sizes;
  for (const InputSlot& slot : inputs) {
    if (slot.user_index < 0) {
      all_sizes.push_back(slot.sizes);
    } else {
      std::span<const int64_t> sizes = given[at(slot.user_index)].sizes;
      all_sizes.emplace_back(sizes.begin(), sizes.end());
    }
  }
  LFARM_ASSIGN_OR_RETURN(auto symbols, bind_symbols(loaded.shape, all_sizes));
  LFARM_ASSIGN_OR_RETURN(auto calls,
                         BoundCalls::bind(loaded, std::move(symbols), band, Phase::kRun));
  bound.calls.push_front(std::move(calls));
  bound.sizes.push_front(bound.key);
  if (bound.calls.size() > kBoundCallsMax) {
    bound.calls.pop_back();
    bound.sizes.pop_back();
  }
  return bound.calls.front().get();
}

Status Executor::State::stage_inputs(std::span<const TensorRef> given) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputSlot& slot = inputs[i];
    if (slot.user_index < 0) continue;
    const TensorRef& tensor = given[at(slot.user_index)];
    if (is_usable(tensor)) {
      external.inputs[i] = tensor.data;  // kernels only read inputs
      continue;
    }
    if (slot.memory.data() == nullptr || slot.memory.size() < tensor.bytes ||
        (options.guard && slot.memory.size() != tensor.bytes)) {
      LFARM_RETURN_IF_ERROR(shared.drop(*device, slot.memory));
      LFARM_ASSIGN_OR_RETURN(slot.memory, GuardedMemory::allocate(*device, tensor.bytes, band));
    }
    LFARM_RETURN_IF_ERROR(copy_in(slot.memory.data(), tensor));
    external.inputs[i] = slot.memory.data();
    if (!options.guard) continue;
    LFARM_ASSIGN_OR_RETURN(slot.hash, hash_of(tensor));
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
    LFARM_RETURN_IF_ERROR(shared.drop(*device, memory));
    LFARM_ASSIGN_OR_RETURN(memory, GuardedMemory::allocate(*device, bytes, band));
  }
  data = memory.data();
  return {};
}

Status Executor::State::stage_outputs(const BoundCalls& calls, const Destination& to) {
  LFARM_RETURN_IF_ERROR(checks.make_room(external.outputs));
  size_t user = 0, mutated = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    OutputSlot& slot = outputs[o];
    HostTensor* tensor = nullptr;
    if (plan().outputs[o].kind == OutputKind::kCheck) continue;
    if (slot.in_place) {
      external.outputs[o] = inputs[at(slot.state_input)].memory.data();
      continue;
    }
    if (plan().outputs[o].kind == OutputKind::kUser) {
      if (to.device != nullptr) {
        if (to.device->size() <= user) to.device->emplace_back();
        DeviceTensor& result = (*to.device)[user++];
        Status room = make_room(*device, slot.dtype, calls.buffer_sizes(slot.buffer), result);
        if (!room.ok()) {
          return Error{room.error().code, cat("output ", user - 1, ": ", room.error().message)};
        }
        external.outputs[o] = result.data;
        continue;
      }
      if (to.host->user.size() <= user) to.host->user.emplace_back();
      tensor = &to.host->user[user++];
    } else if (slot.state_input < 0 && to.host != nullptr) {
      std::vector<MutatedInput>& all = to.host->mutated;
      if (all.size() <= mutated) all.emplace_back();
      all[mutated].input = plan().outputs[o].input;
      tensor = &all[mutated++].value;
    }
    LFARM_RETURN_IF_ERROR(output_memory(calls, slot, tensor, external.outputs[o]));
  }
  if (to.device != nullptr) {
    to.device->resize(user);
  } else {
    to.host->user.resize(user);
    to.host->mutated.resize(mutated);
  }
  return {};
}

Status Executor::State::check_captured(bool is_timed, bool waits) const {
  if (waits) {
    return invalid_input("a captured run takes no inputs from host memory: copy them before");
  }
  if (is_timed || options.guard || options.one_by_one) {
    return invalid_input("a captured run is neither timed nor checked");
  }
  if (prepared.are_there) return {};
  return invalid_input("a run has to come before one that is captured: weights are not prepared");
}

Status Executor::State::prepare() {
  if (prepared.are_there) return {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (plan().inputs[i].kind != InputKind::kWeight || inputs[i].bound) continue;
    return invalid_input(
        cat(input_text(plan(), static_cast<int>(i)), " has no content: bind it before the run"));
  }
  SteadyClock clock;
  int64_t start = clock.now_ns();
  LFARM_RETURN_IF_ERROR(run_at_load());
  prepared.took_ns = clock.now_ns() - start;
  prepared.are_there = true;
  return {};
}

Status Executor::State::use_prepared(std::span<const ByteView> values,
                                     std::shared_ptr<const void> owner) {
  LFARM_ASSIGN_OR_RETURN(auto calls, calls_at_load());
  bool fits =
      values.size() == prepared.slots.size() && device->uses_host_memory() && !options.guard;
  for (size_t k = 0; fits && k < values.size(); ++k) {
    fits = values[k].size() == calls->buffer_bytes(static_cast<int>(prepared.slots[k].buffer)) &&
           is_aligned(values[k].data());
  }
  if (!fits) return invalid_input("these are not the values that the plan computes of its weights");
  for (size_t k = 0; k < values.size(); ++k) {
    auto* data = const_cast<std::byte*>(values[k].data());  // runs read it
    prepared.slots[k].memory = GuardedMemory::around(data, values[k].size(), 0);
    external.kept[prepared.slots[k].buffer] = data;
  }
  prepared.are_given = true;
  prepared.owner = std::move(owner);
  prepared.took_ns = 0;
  prepared.are_there = true;
  return {};
}

Result<std::unique_ptr<BoundCalls>> Executor::State::calls_at_load() {
  // No call at load needs a symbol's value.
  std::vector<int64_t> symbols;
  for (const SymbolRange& range : plan().symbols) symbols.push_back(range.min);
  return BoundCalls::bind(loaded, std::move(symbols), band, Phase::kLoad);
}

Status Executor::State::run_at_load() {
  LFARM_ASSIGN_OR_RETURN(auto calls, calls_at_load());
  if (std::exchange(prepared.are_given, false)) {
    for (KeptSlot& slot : prepared.slots) slot.memory = {};
    prepared.owner = nullptr;
  }
  for (KeptSlot& slot : prepared.slots) {
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
  LFARM_RETURN_IF_ERROR(calls->make_ready(*device, external, memory, pace(Timed::kWhole)));
  LFARM_RETURN_IF_ERROR(calls->run(*device, nullptr, options.on_call));
  LFARM_RETURN_IF_ERROR(device->synchronise());
  if (!options.guard) return {};
  LFARM_RETURN_IF_ERROR(calls->check_bands(*device, memory));
  MemoryHasher hasher(*device);
  for (KeptSlot& slot : prepared.slots) {
    LFARM_ASSIGN_OR_RETURN(slot.hash, hasher.hash(slot.memory.data(), slot.memory.size()));
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

// Copies staged outputs to where they belong and makes new contents of states current.
Status Executor::State::collect(std::span<const TensorRef> given, const Destination& to,
                                bool is_done) {
  size_t user = 0, mutated = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    OutputSlot& slot = outputs[o];
    if (slot.state_input >= 0 || plan().outputs[o].kind == OutputKind::kCheck) continue;
    bool is_user = plan().outputs[o].kind == OutputKind::kUser;
    if (to.device != nullptr) {
      if (is_user) continue;
      const TensorRef& input = given[at(slot.user_index)];
      LFARM_RETURN_IF_ERROR(input.on_device
                                ? device->copy(input.data, external.outputs[o], input.bytes)
                                : device->copy_out({input.data, input.bytes}, external.outputs[o]));
      continue;
    }
    HostTensor& tensor = is_user ? to.host->user[user++] : to.host->mutated[mutated++].value;
    if (direct_outputs()) continue;
    LFARM_RETURN_IF_ERROR(device->copy_out(tensor.mutable_bytes(), external.outputs[o]));
  }
  if (is_done) {
    std::span<const int64_t> values = checks.take_values();
    if (to.host != nullptr) to.host->checks.assign(values.begin(), values.end());
  }
  for (OutputSlot& slot : outputs) {
    if (slot.state_input < 0 || slot.in_place) continue;
    InputSlot& input = inputs[at(slot.state_input)];
    if (shared.is_captured) {  // a graph of the caller's finds the state where it was
      LFARM_RETURN_IF_ERROR(
          device->copy(input.memory.data(), input.next.data(), input.memory.size()));
      continue;
    }
    std::swap(input.memory, input.next);
    external.inputs[at(slot.state_input)] = input.memory.data();
  }
  return {};
}

bool Executor::State::has_cold_weights(const BoundCalls& calls) const {
  size_t bytes = 0;
  for (size_t b = 0; b < plan().buffers.size(); ++b) {
    const Buffer& buffer = plan().buffers[b];
    if (buffer.kind != BufferKind::kInput) continue;
    bool is_users = plan().inputs[at(buffer.position)].kind == InputKind::kUser;
    if (!is_users) bytes += calls.buffer_bytes(static_cast<int>(b));
  }
  const size_t cache_bytes = device->cache_bytes();
  return options.cold_caches || (cache_bytes != 0 && bytes > cache_bytes);
}

Status Executor::State::run_calls(BoundCalls& calls, Timed timed, std::vector<int64_t>* times) {
  if (times == nullptr) return calls.run(*device, nullptr, options.on_call);
  bool records = device->can_record() && !options.one_by_one;
  if (timed == Timed::kRepeated && records) {
    LFARM_ASSIGN_OR_RETURN(*times, calls.run_repeated(*device, has_cold_weights(calls)));
    return {};
  }
  bool is_whole = timed == Timed::kWhole;
  std::unique_ptr<Timer> timer = device->make_timer(is_whole ? 2 : plan().calls.size() + 1);
  if (options.cold_caches) LFARM_RETURN_IF_ERROR(device->flush_caches());
  if (is_whole) timer->mark();
  LFARM_RETURN_IF_ERROR(calls.run(*device, is_whole ? nullptr : timer.get(), options.on_call));
  if (is_whole) timer->mark();
  LFARM_ASSIGN_OR_RETURN(*times, timer->take_intervals_ns());
  return {};
}

Status Executor::State::run(std::span<const TensorRef> given, const Destination& to, Timed timed,
                            std::vector<int64_t>* times, bool waits) {
  if (device->is_capturing()) {
    LFARM_RETURN_IF_ERROR(check_captured(times != nullptr, waits));
  }
  LFARM_ASSIGN_OR_RETURN(BoundCalls * calls, calls_for(given));
  bound.last = calls;
  LFARM_RETURN_IF_ERROR(prepare());
  LFARM_RETURN_IF_ERROR(stage_inputs(given));
  LFARM_RETURN_IF_ERROR(stage_outputs(*calls, to));
  if (options.guard) LFARM_RETURN_IF_ERROR(poison(*calls));
  LFARM_RETURN_IF_ERROR(calls->make_ready(*device, external, shared, pace(timed)));
  LFARM_RETURN_IF_ERROR(run_calls(*calls, timed, times));
  LFARM_RETURN_IF_ERROR(checks.fetch(calls->symbols()));
  if (waits) LFARM_RETURN_IF_ERROR(device->synchronise());
  if (times != nullptr && timed != Timed::kWhole) {
    for (size_t c = 0; c < plan().calls.size(); ++c) {
      if (loaded.lifetimes.at_load[c])
        times->insert(times->begin() + static_cast<std::ptrdiff_t>(c), 0);
    }
  }
  shared.give_back();
  LFARM_RETURN_IF_ERROR(collect(given, to, waits));
  // Contents of inputs that are mutated were copied after the calls.
  return waits && to.device != nullptr ? device->synchronise() : Status();
}

}  // namespace common
