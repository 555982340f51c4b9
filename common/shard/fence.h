// Fencing token of a shard: says which of its holders a write is of, so that a store can refuse
// what an earlier holder still sends. Source: M. Burrows, "The Chubby lock service", OSDI
// 2006, 2.4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/incarnation.h"

namespace common {

struct Fence {
  uint32_t shard = 0;
  uint64_t transitions = 0;  // of the shard's holders; each holder has a higher number
  Incarnation incarnation;   // of the holder's process

  friend bool operator==(const Fence&, const Fence&) = default;
};

// JSON readers and Lua keep whole numbers up to here.
inline constexpr uint64_t kTransitionsMax = uint64_t{1} << 53;

// Whether the holder of `one` held the shard before that of `other`. Neither came before the other
// when two have the same number of transitions, as after a Lease was deleted.
bool is_before(const Fence& one, const Fence& other);

// "12 0f3a..." without the shard, and back; empty when it is no such text.
std::string text_of(const Fence& fence);
std::optional<Fence> parse_fence(uint32_t shard, std::string_view text);

}  // namespace common
