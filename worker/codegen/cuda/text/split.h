// Results that several blocks compute together, so that few long sums keep a large GPU busy: each
// block leaves what it has in its scratch memory, and the last one to finish puts all of it
// together in the blocks' order.
#pragma once

#include <cstdint>
#include <string>

namespace worker {

// Lines that give this block its own steps `begin` to `end` of those from `lo` to `hi`, a multiple
// of `step`, and end it where none are left for it. `parts` blocks go on, at least one; this is
// number `split`, the C expression `block` modulo `splits`.
std::string cuda_split_range(int64_t splits, const std::string& lo, const std::string& hi,
                             int64_t step, const std::string& block = "blockIdx.x");
// The same where `splits` is a C expression, of steps from 0 to `length`.
std::string cuda_split_range(const std::string& splits, const std::string& length, int64_t step,
                             const std::string& block);

// Ends all blocks but the last of `parts` that come here.
std::string cuda_split_join(int64_t splits);
// The same of those that share number `result`, a C expression.
std::string cuda_split_join_at(const std::string& result);

}  // namespace worker
