#include "cache/engine/shard_engine.h"

#include <charconv>

#include "common/base/cat.h"

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
  FenceState state{*fence, 0};
  std::string_view digits = text.substr(space + 1);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), state.sequence);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return state;
}

}  // namespace cache
