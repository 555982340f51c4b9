#include "common/runtime/executor/repeated_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/runtime/executor/executor_calls.h"

namespace common {
namespace {

// A recording is launched in some microseconds, which its repetitions share.
constexpr int64_t kRowNs = 200'000;
constexpr size_t kRepetitionsMax = 16;
// Copies of weights and states for all repetitions of one kernel: what a GPU copies in 0.3 ms.
constexpr size_t kPoolBytesMax = size_t{512} << 20;
constexpr size_t kPoolAlignment = 256;

size_t aligned(size_t bytes) {
  return (bytes + kPoolAlignment - 1) / kPoolAlignment * kPoolAlignment;
}

// Between two marks, once all is done.
Result<int64_t> time_of(Timer& timer, const std::function<Status()>& work) {
  timer.mark();
  Status done = work();
  timer.mark();
  auto intervals = timer.take_intervals_ns();
  if (!done.ok()) return done.error();
  if (!intervals.ok()) return intervals.error();
  return intervals->at(0);
}

}  // namespace

RepeatedCalls::RepeatedCalls(BoundCalls& calls, bool is_cold) : calls_(calls), is_cold_(is_cold) {
  std::map<std::pair<int, std::vector<int64_t>>, size_t> known;  // by kernel and sizes
  const Plan& plan = calls.loaded_->plan;
  for (size_t r = 0; r < calls.records_.size(); ++r) {
    const BoundCalls::Record& record = calls.records_[r];
    std::vector<int64_t> sizes(record.launch.symbols.begin(), record.launch.symbols.end());
    auto [place, is_new] =
        known.try_emplace({plan.calls[at(record.call)].kernel, std::move(sizes)}, groups_.size());
    if (is_new) groups_.emplace_back();
    groups_[place->second].records.push_back(r);
    group_of_.push_back(place->second);
  }
  for (Group& group : groups_) find_operands(group, is_cold);
}

void RepeatedCalls::find_operands(Group& group, bool is_cold) {
  const Plan& plan = calls_.loaded_->plan;
  const Lifetimes& lifetimes = calls_.loaded_->lifetimes;
  const BoundCalls::Record& record = calls_.records_[group.records[0]];
  const Call& call = plan.calls[at(record.call)];
  const auto first =
      static_cast<size_t>(record.launch.buffers.data() - calls_.pointers_.all.data());
  std::vector<int> read, written;  // the memory's buffers
  for (int id : call.inputs) read.push_back(lifetimes.storage[at(id)]);
  for (int id : call.outputs) written.push_back(lifetimes.storage[at(id)]);
  for (size_t k = 0; k < read.size() && is_cold; ++k) {
    const Buffer& buffer = plan.buffers[at(read[k])];
    bool stays = lifetimes.kept[at(read[k])] != 0 ||
                 (buffer.kind == BufferKind::kInput &&
                  plan.inputs[at(buffer.position)].kind != InputKind::kUser);
    const size_t bytes = calls_.layout_.bytes[at(read[k])];
    if (!stays || bytes == 0 || contains(written, read[k])) continue;
    group.cold.push_back({first + k, bytes, group.part_bytes});
    group.part_bytes += aligned(bytes);
  }
  for (size_t k = 0; k < written.size(); ++k) {
    if (!contains(read, written[k])) continue;
    group.moved.push_back(first + read.size() + k);
    group.moved_bytes += aligned(calls_.layout_.bytes[at(written[k])]);
  }
}

// Changes with the time of a launch only where that halves, since each change is recorded anew.
void RepeatedCalls::choose_repetitions(Group& group) {
  auto wanted = static_cast<size_t>(
      std::clamp<int64_t>(kRowNs / std::max<int64_t>(1, group.launched_ns), 1, kRepetitionsMax));
  if (group.part_bytes != 0) {
    const size_t room = kPoolBytesMax - std::min(kPoolBytesMax, group.moved_bytes);
    wanted = std::min(wanted, room / group.part_bytes);
  }
  if (wanted < group.repetitions || wanted >= 2 * group.repetitions) group.repetitions = wanted;
}

// The repetitions' parts, then what they write instead of operands.
Status RepeatedCalls::fill_pool(Device& device, const Group& group) {
  const size_t bytes = group.repetitions * group.part_bytes + group.moved_bytes;
  if (pool_.size() < bytes) {
    pool_ = {};
    LFARM_ASSIGN_OR_RETURN(pool_, device.allocate(bytes));
  }
  for (size_t k = 0; k < group.repetitions; ++k) {
    for (const ColdInput& input : group.cold) {
      LFARM_RETURN_IF_ERROR(device.copy(
          pool_.data() + k * group.part_bytes + input.offset,
          static_cast<const std::byte*>(calls_.pointers_.all[input.pointer]), input.bytes));
    }
  }
  return is_cold_ ? device.flush_caches() : Status();
}

Status RepeatedCalls::launch_repetitions(Device& device, const Group& group) {
  const BoundCalls::Record& record = calls_.records_[group.records[0]];
  const std::span<void* const> buffers = record.launch.buffers;
  const std::vector<void*> own(buffers.begin(), buffers.end());
  std::byte* moved = pool_.data() + group.repetitions * group.part_bytes;
  const auto first = static_cast<size_t>(buffers.data() - calls_.pointers_.all.data());
  for (size_t pointer : group.moved) {
    const Call& call = calls_.loaded_->plan.calls[at(record.call)];
    const int output = call.outputs[pointer - first - call.inputs.size()];
    calls_.pointers_.all[pointer] = moved;
    moved += aligned(calls_.layout_.bytes[at(output)]);
  }
  Status launched;
  for (size_t k = 0; k < group.repetitions && launched.ok(); ++k) {
    for (const ColdInput& input : group.cold) {
      calls_.pointers_.all[input.pointer] = pool_.data() + k * group.part_bytes + input.offset;
    }
    launched = calls_.launch(device, record);
  }
  std::copy(own.begin(), own.end(), calls_.pointers_.all.begin() + static_cast<ptrdiff_t>(first));
  return launched;
}

Result<int64_t> RepeatedCalls::time_group(Device& device, Timer& timer, Group& group) {
  const BoundCalls::Record& record = calls_.records_[group.records[0]];
  if (is_cold_) LFARM_RETURN_IF_ERROR(device.flush_caches());
  LFARM_ASSIGN_OR_RETURN(int64_t launched_ns,
                         time_of(timer, [&] { return calls_.launch(device, record); }));
  group.launched_ns = std::min(group.launched_ns, launched_ns);
  choose_repetitions(group);
  if (!group.is_recordable || group.repetitions < 2) return launched_ns;
  Status ready = fill_pool(device, group);
  if (ready.ok()) {
    ready = device.record([&] { return launch_repetitions(device, group); }, group.recording);
  }
  if (!ready.ok()) {
    group.is_recordable = false;
    bool is_sick = ready.error().code == Code::kDeviceSick;
    return is_sick ? Result<int64_t>(ready.error()) : launched_ns;
  }
  LFARM_ASSIGN_OR_RETURN(int64_t row_ns,
                         time_of(timer, [&] { return device.replay(*group.recording); }));
  return row_ns / static_cast<int64_t>(group.repetitions);
}

Result<std::vector<int64_t>> RepeatedCalls::run(Device& device) {
  std::unique_ptr<Timer> timer = device.make_timer(2);
  std::vector<int64_t> group_ns(groups_.size(), 0), times;
  for (size_t r = 0; r < calls_.records_.size(); ++r) {
    Group& group = groups_[group_of_[r]];
    const BoundCalls::Record& record = calls_.records_[r];
    if (group.records[0] != r || record.skip) {
      LFARM_RETURN_IF_ERROR(calls_.launch(device, record));
    } else {
      LFARM_ASSIGN_OR_RETURN(group_ns[group_of_[r]], time_group(device, *timer, group));
    }
    times.push_back(group_ns[group_of_[r]]);
  }
  return times;
}

}  // namespace common
