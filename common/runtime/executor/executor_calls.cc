#include "common/runtime/executor/executor_calls.h"

#include <algorithm>
#include <cstdio>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/expr/index.h"
#include "common/plan/spare_memory.h"
#include "common/runtime/tensor/tensor.h"

namespace common {
namespace {

size_t aligned(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

Result<std::unique_ptr<BoundCalls>> BoundCalls::bind(const LoadedPlan& loaded,
                                                     std::vector<int64_t> symbols, size_t band,
                                                     Phase phase) {
  auto bound = std::unique_ptr<BoundCalls>(new BoundCalls(loaded, phase));
  bound->symbols_ = std::move(symbols);
  LFARM_RETURN_IF_ERROR(bound->evaluate_sizes());
  bound->lay_out_arena(band);
  LFARM_RETURN_IF_ERROR(bound->add_records());
  return bound;
}

Status BoundCalls::evaluate_sizes() {
  for (const Buffer& buffer : loaded_->plan.buffers) {
    bool is_known = std::all_of(buffer.shape.begin(), buffer.shape.end(),
                                [](const Expr& size) { return size.is_constant(); });
    if (phase_ == Phase::kLoad && !is_known) {  // no call at load touches it
      layout_.bytes.push_back(0);
      layout_.sizes.emplace_back();
      continue;
    }
    std::vector<int64_t> sizes = evaluate_shape(buffer.shape, symbols_);
    auto count = checked_element_count(buffer.dtype, sizes);
    if (!count.ok()) return count.error();
    layout_.bytes.push_back(static_cast<size_t>(*count * dtype_size(buffer.dtype)));
    layout_.sizes.push_back(std::move(sizes));
  }
  return {};
}

void BoundCalls::lay_out_arena(size_t band) {
  const Lifetimes& lifetimes = loaded_->lifetimes;
  layout_.band = band;
  layout_.offsets.assign(layout_.bytes.size(), 0);
  layout_.host.assign(layout_.bytes.size(), -1);
  std::vector<LiveBlock> blocks;
  std::vector<size_t> owners;
  int last_call = static_cast<int>(loaded_->plan.calls.size());
  for (size_t b = 0; b < layout_.bytes.size(); ++b) {
    if (!in_arena(b)) continue;
    owners.push_back(b);
    // Guarded temporaries keep their memory, so that a band is one from start to end.
    blocks.push_back(band == 0 ? LiveBlock{layout_.bytes[b], lifetimes.first[b], lifetimes.last[b]}
                               : LiveBlock{aligned(layout_.bytes[b]) + 2 * band, 0, last_call});
  }
  if (loaded_->shares_memory && phase_ == Phase::kRun) use_spare_memory(blocks, owners);
  ArenaLayout layout = plan_arena(blocks, kBufferAlignment);
  for (size_t k = 0; k < owners.size(); ++k) layout_.offsets[owners[k]] = layout.offsets[k] + band;
  layout_.arena_bytes = layout.bytes;
}

std::vector<LiveBlock> BoundCalls::spare_memory(std::vector<int>& buffers) const {
  const Plan& plan = loaded_->plan;
  const auto calls = static_cast<int>(plan.calls.size());
  std::vector<int> last_read(plan.inputs.size(), -1), first_write(plan.buffers.size(), calls);
  for (int c = calls - 1; c >= 0; --c) {
    for (int id : plan.calls[at(c)].outputs) {
      first_write[at(loaded_->lifetimes.storage[at(id)])] = c;
    }
    for (int id : plan.calls[at(c)].inputs) {
      const Buffer& buffer = plan.buffers[at(id)];
      if (buffer.kind != BufferKind::kInput) continue;
      last_read[at(buffer.position)] = std::max(last_read[at(buffer.position)], c);
    }
  }
  std::vector<LiveBlock> spare;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    LiveBlock block{layout_.bytes[b], 0, calls};
    if (buffer.kind == BufferKind::kInput && loaded_->donated[at(buffer.position)]) {
      block.first = last_read[at(buffer.position)] + 1;
    } else if (buffer.kind == BufferKind::kOutput &&
               loaded_->lifetimes.storage[b] == static_cast<int>(b)) {
      block.last = first_write[b] - 1;
    } else {
      continue;
    }
    spare.push_back(block);
    buffers.push_back(static_cast<int>(b));
  }
  return spare;
}

void BoundCalls::use_spare_memory(std::vector<LiveBlock>& blocks, std::vector<size_t>& owners) {
  std::vector<int> buffers;
  SparePlaces places = place_in_spare(blocks, spare_memory(buffers), kBufferAlignment);
  size_t left = 0;
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (places.spare[k] >= 0) {
      layout_.host[owners[k]] = buffers[at(places.spare[k])];
      layout_.offsets[owners[k]] = places.offsets[k];
      continue;
    }
    blocks[left] = blocks[k];
    owners[left++] = owners[k];
  }
  blocks.resize(left);
  owners.resize(left);
}

void BoundCalls::add_pointers(const Call& call) {
  auto add = [&](int id) {
    size_t storage = at(loaded_->lifetimes.storage[at(id)]);
    const int host = layout_.host[storage];
    const Buffer& buffer = loaded_->plan.buffers[host < 0 ? storage : at(host)];
    const size_t offset = host < 0 ? 0 : layout_.offsets[storage];
    size_t pointer = pointers_.all.size();
    pointers_.all.push_back(nullptr);
    if (buffer.kind == BufferKind::kInput) {
      pointers_.patches.push_back({pointer, &ExternalMemory::inputs, at(buffer.position), offset});
    } else if (buffer.kind == BufferKind::kOutput) {
      pointers_.patches.push_back({pointer, &ExternalMemory::outputs, at(buffer.position), offset});
    } else if (loaded_->lifetimes.kept[storage]) {
      pointers_.patches.push_back({pointer, &ExternalMemory::kept, storage});
    } else {
      pointers_.temporaries.push_back({pointer, layout_.offsets[storage]});
    }
  };
  for (int id : call.inputs) add(id);
  for (int id : call.outputs) add(id);
}

Status BoundCalls::add_library_call(Record& record, const PlanKernel& kernel, const Call& call,
                                    size_t first_pointer) {
  std::span<const int64_t> symbols = record.launch.symbols;
  record.library = true;
  record.gemm = evaluate(kernel.gemm, symbols);
  record.gemm.algorithm = kernel.algorithm;
  auto elements = [&](int id) {
    return static_cast<int64_t>(layout_.bytes[at(id)]) / dtype_size(kernel.gemm.dtype);
  };
  LFARM_RETURN_IF_ERROR(check_bounds(record.gemm, elements(call.inputs[at(kernel.gemm.a_input)]),
                                     elements(call.inputs[at(kernel.gemm.b_input)]),
                                     elements(call.outputs[0])));
  record.a = first_pointer + at(kernel.gemm.a_input);
  record.b = first_pointer + at(kernel.gemm.b_input);
  record.out = first_pointer + call.inputs.size();
  record.skip = record.gemm.batch == 0 || record.gemm.m == 0 || record.gemm.n == 0;
  return {};
}

void BoundCalls::add_base_copies(Record& record, const Call& call, size_t first_pointer) {
  record.first_copy = base_copies_.size();
  const PlanKernel& kernel = loaded_->plan.kernels[at(call.kernel)];
  if (!kernel.entry.starts_from_bases) return;
  const std::vector<int>& storage = loaded_->lifetimes.storage;
  for (size_t k = 0; k < kernel.in_place_inputs.size(); ++k) {
    int input = kernel.in_place_inputs[k];
    if (input < 0) continue;
    int from = call.inputs[at(input)], to = call.outputs[k];
    if (storage[at(from)] == storage[at(to)]) continue;
    base_copies_.push_back(
        {first_pointer + at(input), first_pointer + call.inputs.size() + k, layout_.bytes[at(to)]});
    ++record.copies;
  }
}

Status BoundCalls::add_code(Record& record, const PlanKernel& kernel, const Call& call,
                            size_t first_pointer) {
  Launch& launch = record.launch;
  launch.units = kernel.entry.units.evaluate(launch.symbols);
  launch.block = kernel.entry.block;
  launch.waits = kernel.entry.waits;
  record.skip = launch.units <= 0;
  int64_t scratch_bytes = kernel.entry.scratch_bytes.evaluate(launch.symbols);
  if (scratch_bytes > kMaxTensorBytes) {
    return invalid_input(cat("a kernel needs ", scratch_bytes, " bytes of scratch memory"));
  }
  launch.scratch_stride = aligned(static_cast<size_t>(scratch_bytes));
  if (!record.skip) LFARM_RETURN_IF_ERROR(add_maps(record, kernel, call));
  add_base_copies(record, call, first_pointer);
  return {};
}

Status BoundCalls::add_maps(Record& record, const PlanKernel& kernel, const Call& call) {
  if (kernel.entry.maps.empty()) return {};
  auto bytes = [&](int input) {
    return static_cast<int64_t>(layout_.bytes[at(call.inputs[at(input)])]);
  };
  LFARM_ASSIGN_OR_RETURN(std::vector<BoundTensorMap> maps,
                         bind_tensor_maps(kernel.entry.maps, record.launch.symbols, bytes));
  record.launch.maps = pointers_.maps.emplace_back(std::move(maps));
  return {};
}

Status BoundCalls::add_records() {
  const Plan& plan = loaded_->plan;
  std::vector<size_t> first_pointer, first_symbol;
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const Call& call = plan.calls[c];
    first_pointer.push_back(pointers_.all.size());
    first_symbol.push_back(call_symbols_.size());
    if (!is_mine(c)) continue;
    add_pointers(call);
    for (const Expr& symbol : call.symbols) call_symbols_.push_back(symbol.evaluate(symbols_));
  }
  // From here on pointers_.all and call_symbols_ keep their addresses.
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    if (!is_mine(c)) continue;
    const Call& call = plan.calls[c];
    const PlanKernel& kernel = plan.kernels[at(call.kernel)];
    Record record;
    record.call = static_cast<int>(c);
    record.launch.function = loaded_->functions[at(call.kernel)];
    record.launch.buffers = {pointers_.all.data() + first_pointer[c],
                             call.inputs.size() + call.outputs.size()};
    record.launch.symbols = {call_symbols_.data() + first_symbol[c], call.symbols.size()};
    if (kernel.library) {
      LFARM_RETURN_IF_ERROR(add_library_call(record, kernel, call, first_pointer[c]));
    } else {
      LFARM_RETURN_IF_ERROR(add_code(record, kernel, call, first_pointer[c]));
    }
    records_.push_back(record);
  }
  histories_.resize(records_.size());
  for (size_t k = 0; k < records_.size(); ++k) records_[k].launch.history = &histories_[k];
  return {};
}

BoundCalls::ScratchNeed BoundCalls::scratch_for(int concurrency) {
  if (concurrency == concurrency_) return scratch_need_;
  concurrency_ = concurrency;
  scratch_need_ = {};
  for (const Record& record : records_) {
    const Launch& launch = record.launch;
    if (record.skip || launch.scratch_stride == 0) continue;
    auto areas = at(concurrency);
    if (launch.block.threads != 0) {
      areas = static_cast<size_t>(launch.block.blocks(launch.units));
      scratch_need_.counters = std::max(scratch_need_.counters, aligned(areas * kCounterBytes));
    }
    scratch_need_.areas = std::max(scratch_need_.areas, launch.scratch_stride * areas);
  }
  return scratch_need_;
}

// Counters lie in front of the areas, so that a kernel finds both from one pointer. They are
// cleared but once, because every launch leaves them so.
Status BoundCalls::prepare_scratch(Device& device, SharedMemory& shared) {
  ScratchNeed need = scratch_for(device.concurrency());
  need.counters = std::max(need.counters, shared.counter_bytes);
  if (shared.scratch.size() >= need.counters + need.areas &&
      shared.counter_bytes == need.counters) {
    return {};
  }
  need.areas = std::max(need.areas, shared.scratch.size() - shared.counter_bytes);
  LFARM_RETURN_IF_ERROR(shared.drop(device, shared.scratch));
  shared.counter_bytes = 0;
  LFARM_ASSIGN_OR_RETURN(shared.scratch,
                         GuardedMemory::allocate(device, need.counters + need.areas, layout_.band));
  if (need.counters == 0) return {};
  LFARM_RETURN_IF_ERROR(device.fill(shared.scratch.data(), std::byte{0}, need.counters));
  shared.counter_bytes = need.counters;
  return {};
}

Status SharedMemory::drop(const Device& device, GuardedMemory& memory) {
  if (device.is_capturing()) {
    return invalid_input("a run of these sizes has to come before one that is captured");
  }
  if (is_captured && memory.data() != nullptr) captured.push_back(std::move(memory));
  memory = {};
  return {};
}

void SharedMemory::give_back() {
  if (pool != nullptr && arena.data() != nullptr) pool->give_back(std::move(arena));
}

Status BoundCalls::prepare_memory(Device& device, SharedMemory& shared) {
  if (shared.arena.size() < layout_.arena_bytes) {
    LFARM_RETURN_IF_ERROR(shared.drop(device, shared.arena));
    LFARM_ASSIGN_OR_RETURN(
        shared.arena, shared.pool != nullptr
                          ? shared.pool->take(device, layout_.arena_bytes)
                          : GuardedMemory::allocate(device, layout_.arena_bytes, layout_.band));
  }
  shared.arena_bytes = shared.arena.size();
  LFARM_RETURN_IF_ERROR(prepare_scratch(device, shared));
  shared.is_captured = shared.is_captured || device.is_capturing();
  std::byte* arena = shared.arena.data();
  std::byte* scratch = shared.scratch.data() + shared.counter_bytes;
  if (arena != pointers_.arena) {
    for (const TemporaryPointer& t : pointers_.temporaries)
      pointers_.all[t.pointer] = arena + t.offset;
    pointers_.arena = arena;
  }
  if (scratch != pointers_.scratch) {
    for (Record& record : records_) record.launch.scratch = scratch;
    pointers_.scratch = scratch;
  }
  return {};
}

Status BoundCalls::make_ready(Device& device, const ExternalMemory& external, SharedMemory& shared,
                              Pace pace) {
  LFARM_RETURN_IF_ERROR(prepare_memory(device, shared));
  for (const Patch& patch : pointers_.patches) {
    pointers_.all[patch.pointer] = (external.*patch.memory)[patch.position] + patch.offset;
  }
  pace_ = pace;
  replays_.next = nullptr;
  if (pace != Pace::kTogether || !replays_.is_recordable || !device.can_record()) return {};
  return record(device);
}

size_t BoundCalls::distance_to(const Row& row) const {
  if (!row.is_used) return SIZE_MAX;
  size_t distance = row.scratch == pointers_.scratch ? 0 : 1;
  for (size_t k = 0; k < pointers_.all.size(); ++k) distance += row.pointers[k] != pointers_.all[k];
  return distance;
}

// Brings the row that is nearest to the present memory to the front.
void BoundCalls::choose_row() {
  const size_t to_newer = distance_to(replays_.rows[0]), to_older = distance_to(replays_.rows[1]);
  if (to_newer == 0) return;
  bool is_older_unused = !replays_.rows[1].is_used && to_older != 0;
  bool is_older_nearer =
      to_older < to_newer || (to_older == to_newer && (replays_.rows[0].recording == nullptr ||
                                                       replays_.rows[1].recording != nullptr));
  if (is_older_unused || is_older_nearer) std::swap(replays_.rows[0], replays_.rows[1]);
}

// The first runs on new memory are launched call by call: kernels are loaded then, and most
// candidates of a search run but a few times. From then on runs are replayed: where memory comes
// again as it was recorded, else by a recording that is brought up to date. That moves what moves,
// which mostly is where outputs lie, and costs less than launching all.
Status BoundCalls::record(Device& device) {
  choose_row();
  Row& row = replays_.rows[0];
  bool is_same = distance_to(row) == 0;
  bool is_new = !row.is_used;
  row.is_current = row.is_current && is_same;
  if (!is_same) {
    row.pointers = pointers_.all;
    row.scratch = pointers_.scratch;
    row.is_used = true;
  }
  if (is_new) return {};
  if (!row.is_current) {
    auto launches = [&] { return launch_all(device, nullptr); };
    Status recorded = device.record(launches, row.recording);
    if (!recorded.ok()) {
      replays_.is_recordable = false;
      return recorded.error().code == Code::kUnsupported ? Status() : recorded;
    }
    row.is_current = true;
  }
  replays_.next = row.recording.get();
  return {};
}

Status BoundCalls::run(Device& device, Timer* timer, const CallObserver& observer) {
  if (replays_.next != nullptr) return device.replay(*replays_.next);
  if (pace_ == Pace::kWaiting) return launch_waiting(device, timer, observer);
  return timer != nullptr || !shares(device) ? launch_all(device, timer) : run_or_try(device);
}

Result<std::vector<int64_t>> BoundCalls::run_repeated(Device& device, bool is_cold) {
  if (replays_.repeated == nullptr)
    replays_.repeated = std::make_unique<RepeatedCalls>(*this, is_cold);
  return replays_.repeated->run(device);
}

Status BoundCalls::run_or_try(Device& device) {
  if (sharing_.may_share() == is_alone_) {
    is_alone_ = !is_alone_;
    for (Record& record : records_) record.launch.is_alone = record.gemm.is_alone = is_alone_;
  }
  if (!sharing_.is_trial()) {
    sharing_.tell(0);
    return launch_all(device, nullptr);
  }
  SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  LFARM_RETURN_IF_ERROR(launch_all(device, nullptr));
  sharing_.tell(clock.now_ns() - start_ns);
  return {};
}

Status BoundCalls::launch(Device& device, const Record& record) const {
  for (size_t k = record.first_copy; k < record.first_copy + record.copies; ++k) {
    const BaseCopy& copy = base_copies_[k];
    LFARM_RETURN_IF_ERROR(device.copy(static_cast<std::byte*>(pointers_.all[copy.to]),
                                      static_cast<const std::byte*>(pointers_.all[copy.from]),
                                      copy.bytes));
  }
  if (record.skip) return {};
  if (!record.library) return device.launch(record.launch);
  return device.gemm(record.gemm, pointers_.all[record.a], pointers_.all[record.b],
                     pointers_.all[record.out]);
}

Status BoundCalls::launch_all(Device& device, Timer* timer) const {
  if (timer != nullptr) timer->mark();
  for (const Record& record : records_) {
    Status status = launch(device, record);
    if (!status.ok()) {
      return Error{status.error().code, cat("call ", record.call, ": ", status.error().message)};
    }
    if (timer != nullptr) timer->mark();
  }
  return {};
}

Status BoundCalls::launch_waiting(Device& device, Timer* timer,
                                  const CallObserver& observer) const {
  if (timer != nullptr) timer->mark();
  for (const Record& record : records_) {
    if (observer) {
      std::string text = describe(record);
      for (void* buffer : record.launch.buffers) {
        char address[32];
        std::snprintf(address, sizeof address, " %p", buffer);
        text += address;
      }
      for (int64_t symbol : record.launch.symbols) text += cat(" ", symbol);
      observer(text);
    }
    Status status = launch(device, record);
    if (status.ok()) status = device.synchronise();
    if (!status.ok()) {
      return Error{status.error().code, cat(describe(record), ": ", status.error().message)};
    }
    if (timer != nullptr) timer->mark();
  }
  return {};
}

std::string BoundCalls::describe(const Record& record) const {
  const PlanKernel& kernel = loaded_->plan.kernels[at(loaded_->plan.calls[at(record.call)].kernel)];
  std::string text = cat("call ", record.call, " (");
  if (record.library) return text + "library product)";
  const Launch& launch = record.launch;
  text += cat(kernel.entry.name, ", ", launch.units, " units");
  if (launch.block.threads != 0) {
    text += cat(", ", launch.block.blocks(launch.units), " blocks of ", launch.block.threads,
                " threads");
  }
  return text + ")";
}

Status BoundCalls::poison(Device& device, SharedMemory& shared, std::byte value) {
  LFARM_RETURN_IF_ERROR(prepare_memory(device, shared));
  if (layout_.band == 0) return device.fill(shared.arena.data(), value, layout_.arena_bytes);
  LFARM_RETURN_IF_ERROR(device.fill(shared.arena.data(), kBandPattern, layout_.arena_bytes));
  for (size_t b = 0; b < layout_.bytes.size(); ++b) {
    if (!in_arena(b)) continue;
    LFARM_RETURN_IF_ERROR(
        device.fill(shared.arena.data() + layout_.offsets[b], value, layout_.bytes[b]));
  }
  return {};
}

Status BoundCalls::check_bands(Device& device, const SharedMemory& shared) const {
  if (layout_.band == 0) return {};
  LFARM_RETURN_IF_ERROR(shared.arena.check(device, "the temporaries"));
  LFARM_RETURN_IF_ERROR(shared.scratch.check(device, "the scratch memory"));
  Bytes counters(shared.counter_bytes);
  LFARM_RETURN_IF_ERROR(device.copy_out(counters, shared.scratch.data()));
  if (std::any_of(counters.begin(), counters.end(),
                  [](std::byte b) { return b != std::byte{0}; })) {
    return Error{Code::kVerification, "a kernel left counters other than 0"};
  }
  std::vector<std::pair<size_t, size_t>> data;  // where each temporary begins and ends
  for (size_t b = 0; b < layout_.bytes.size(); ++b) {
    if (in_arena(b)) data.emplace_back(layout_.offsets[b], layout_.offsets[b] + layout_.bytes[b]);
  }
  std::sort(data.begin(), data.end());
  data.emplace_back(layout_.arena_bytes, layout_.arena_bytes);
  Bytes between;
  size_t begin = 0;
  for (const auto& [end, next] : data) {
    between.resize(end - begin);
    LFARM_RETURN_IF_ERROR(device.copy_out(between, shared.arena.data() + begin));
    bool is_whole = std::all_of(between.begin(), between.end(),
                                [](std::byte byte) { return byte == kBandPattern; });
    if (!is_whole) {
      return Error{Code::kVerification, "bytes between the temporaries were written"};
    }
    begin = next;
  }
  return {};
}

}  // namespace common
