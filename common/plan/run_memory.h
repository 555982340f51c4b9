// The memory that a run of a plan or of a program uses beside inputs, weights and outputs, and
// which of its calls repeat earlier ones to use less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/arena.h"

namespace common {

// Where buffers of an arena begin: multiples of this.
inline constexpr size_t kArenaAlignment = 64;

// A plan without code, of what decides where a program's buffers lie.
Plan plan_of_buffers(const Program& program);

// What lives at which call of every run, all in whole multiples of kArenaAlignment. Calls and
// buffers that run when weights are bound are left out.
struct RunLiveness {
  Lifetimes lifetimes;
  std::vector<size_t> bytes;  // of each buffer
  std::vector<size_t> live;   // at each call, inputs and outputs of the call included
  bool is_in_arena(size_t buffer) const {
    return lifetimes.first[buffer] >= 0 && !lifetimes.made_at_load[buffer];
  }
  size_t most() const;
  size_t peak_call() const;  // the first call at which most is live; 0 without calls
  size_t arena_bytes() const;
};
// `symbols`: sizes; the plan has been verified.
RunLiveness run_liveness(const Plan& plan, const std::vector<int64_t>& symbols);

// Scratch areas of a run: those of `threads` threads on a processor, of all blocks on a GPU.
size_t scratch_bytes(const Plan& plan, const std::vector<int64_t>& symbols, int threads);

// For each call the earlier one that it repeats, -1 for none: the same kernel on the same values.
std::vector<int> repeated_calls(const std::vector<Call>& calls, size_t buffers);

// For people, of a run with one thread: "12.5 MiB between kernels, 256 KiB of scratch a thread;
// 3 of 40 calls repeat earlier ones". Of symbolic sizes representative ones.
std::string memory_text(const Plan& plan);

}  // namespace common
