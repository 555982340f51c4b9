// What an agent says of itself while it runs, for threads that watch it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <tuple>

#include "common/base/outcome.h"

namespace worker {

// Written by the agent's thread, read by any.
struct AgentState {
  std::atomic<int64_t> turned_ns{0};  // on the agent's clock, when its loop last turned
  std::atomic<bool> is_joined{false};
  std::atomic<bool> has_joined{false};  // once, and perhaps not now
  std::atomic<bool> is_draining{false};
  std::atomic<uint32_t> leases{0};
  std::atomic<int64_t> idle_since_ns{0};  // 0 while it holds leases
  std::array<std::atomic<uint64_t>, common::kOutcomes> answered{};
  // Of tasks that it answered, by kSteps.
  std::array<std::atomic<uint64_t>, 3> step_us{};
};

// What a worker's time is counted by, as TaskSpan::step says it.
inline constexpr std::array<const char*, 3> kSteps = {"compile", "verify", "measure"};
static_assert(std::tuple_size_v<decltype(AgentState::step_us)> == kSteps.size());

}  // namespace worker
