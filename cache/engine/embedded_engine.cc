#include "cache/engine/embedded_engine.h"

#include <utility>

#include "common/base/cat.h"

namespace cache {

using common::cat;
using common::Digest;
using common::Fence;
using common::Result;

namespace {

std::string fence_name(uint32_t shard) { return cat("shard/", shard, "/fence"); }

std::string folder_of(uint32_t shard, ShardRecord record) {
  return cat("shard/", shard, '/', record_name(record), '/');
}

}  // namespace

// Of a shard that was never held: a fence that is before every other.
Result<FenceState> EmbeddedEngine::look(uint32_t shard) {
  LFARM_ASSIGN_OR_RETURN(auto text, store_.get_named(fence_name(shard)));
  if (!text) return FenceState{Fence{shard, 0, {}}, 0};
  auto state = parse_fence_state(shard, *text);
  if (!state) return common::corrupt(cat("the fence of shard ", shard, " is damaged: ", *text));
  return *state;
}

Result<FenceAnswer> EmbeddedEngine::raise(const Fence& fence) {
  std::lock_guard lock(mutex_);
  LFARM_ASSIGN_OR_RETURN(FenceState state, look(fence.shard));
  FenceVerdict verdict = judge_raise(state, fence);
  if (verdict != FenceVerdict::kTaken || state.fence == fence) {
    return FenceAnswer{verdict, state.fence, state.sequence};
  }
  state.fence = fence;
  Changes changes;
  changes.named.push_back({fence_name(fence.shard), text_of(state)});
  LFARM_RETURN_IF_ERROR(store_.commit({&changes, 1}));
  return FenceAnswer{FenceVerdict::kTaken, fence, state.sequence};
}

Result<FenceAnswer> EmbeddedEngine::write(const Fence& fence, uint64_t sequence,
                                          std::span<const ShardChange> changes) {
  LFARM_CHECK(changes.size() <= kChangesMax, "a write of too many changes");
  std::lock_guard lock(mutex_);
  LFARM_ASSIGN_OR_RETURN(FenceState state, look(fence.shard));
  FenceVerdict verdict = judge_write(state, fence, sequence);
  if (verdict != FenceVerdict::kTaken || state.sequence == sequence) {
    return FenceAnswer{verdict, state.fence, state.sequence};
  }
  state.sequence = sequence;
  Changes group;
  for (const ShardChange& change : changes) {
    std::string name = folder_of(fence.shard, change.record) + change.name.hex();
    // An empty value stands for a record that was removed.
    group.named.push_back({std::move(name), std::string(change.bytes.value_or(""))});
  }
  group.named.push_back({fence_name(fence.shard), text_of(state)});
  LFARM_RETURN_IF_ERROR(store_.commit({&group, 1}));
  return FenceAnswer{FenceVerdict::kTaken, state.fence, state.sequence};
}

Result<std::optional<std::string>> EmbeddedEngine::read(uint32_t shard, ShardRecord record,
                                                        const Digest& name) {
  LFARM_ASSIGN_OR_RETURN(auto bytes, store_.get_named(folder_of(shard, record) + name.hex()));
  if (bytes && bytes->empty()) bytes.reset();
  return bytes;
}

Result<std::vector<std::optional<std::string>>> EmbeddedEngine::read_all(
    uint32_t shard, ShardRecord record, std::span<const Digest> names) {
  std::vector<std::optional<std::string>> all;
  for (const Digest& name : names) {
    LFARM_ASSIGN_OR_RETURN(auto bytes, read(shard, record, name));
    all.push_back(std::move(bytes));
  }
  return all;
}

// Reads all of them: nobody counts those that lie here.
Result<uint64_t> EmbeddedEngine::count(uint32_t shard, ShardRecord record) {
  uint64_t count = 0;
  LFARM_RETURN_IF_ERROR(store_.for_each_named(
      folder_of(shard, record),
      [&](std::string_view, std::string_view bytes) { count += bytes.empty() ? 0 : 1; }));
  return count;
}

// A page's `next` is its last name, in whose order records lie.
Result<NamePage> EmbeddedEngine::names(uint32_t shard, ShardRecord record,
                                       const std::string& from) {
  NamePage page;
  size_t seen = 0;
  std::string last;
  const std::string folder = folder_of(shard, record);
  LFARM_RETURN_IF_ERROR(
      store_.scan_named(folder, from, [&](std::string_view name, std::string_view bytes) {
        if (seen == kNamesAtOnce) {
          page.next = last;
          return false;
        }
        ++seen;
        last = name.substr(folder.size());
        auto digest = Digest::parse(last);
        if (digest && !bytes.empty()) page.names.push_back(*digest);
        return true;
      }));
  return page;
}

}  // namespace cache
