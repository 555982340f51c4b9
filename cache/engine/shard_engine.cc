#include "cache/engine/shard_engine.h"

#include "common/base/cat.h"
#include "common/shard/number_text.h"

namespace cache {

const char* verdict_name(FenceVerdict verdict) {
  switch (verdict) {
    case FenceVerdict::kTaken:
      return "taken";
    case FenceVerdict::kStale:
      return "stale";
    case FenceVerdict::kBehind:
      return "behind";
  }
  return "?";
}

const char* record_name(ShardRecord record) {
  switch (record) {
    case ShardRecord::kPlan:
      return "plan";
    case ShardRecord::kJob:
      return "job";
    case ShardRecord::kRecipe:
      return "recipe";
  }
  return "?";
}

FenceVerdict judge_write(const FenceState& there, const common::Fence& fence, uint64_t sequence) {
  if (is_before(there.fence, fence)) return FenceVerdict::kBehind;
  if (there.fence != fence || there.sequence > sequence) return FenceVerdict::kStale;
  return sequence - there.sequence > 1 ? FenceVerdict::kBehind : FenceVerdict::kTaken;
}

FenceVerdict judge_raise(const FenceState& there, const common::Fence& fence) {
  bool is_taken = there.fence == fence || is_before(there.fence, fence);
  return is_taken ? FenceVerdict::kTaken : FenceVerdict::kStale;
}

std::string text_of(const FenceState& state) {
  return common::cat(common::text_of(state.fence), ' ', state.sequence);
}

std::optional<FenceState> parse_fence_state(uint32_t shard, std::string_view text) {
  size_t space = text.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto fence = common::parse_fence(shard, text.substr(0, space));
  if (!fence) return std::nullopt;
  auto sequence = common::parse_number<uint64_t>(text.substr(space + 1));
  if (!sequence) return std::nullopt;
  return FenceState{*fence, *sequence};
}

}  // namespace cache
