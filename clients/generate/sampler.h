// The choice of the next token from a model's logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"

namespace clients {

// Logits are divided by `temperature`; of the tokens, the `top_k` most probable remain, and of
// these the fewest whose probabilities sum to at least `top_p`. Of equal logits the first token
// comes first.
struct Sampling {
  double temperature = 0;  // 0: greedy, the token with the greatest logit
  int64_t top_k = 0;       // 0: all
  double top_p = 1;        // (0, 1]
  uint64_t seed = 0;
};

// kInvalidInput naming the value that is out of range.
common::Status check_sampling(const Sampling& sampling);

// The token of one sequence. Sampled tokens depend on logits, seed, sequence and position alone, by
// a number of Philox's stream: how the sequence is cut into calls changes nothing. `logits` are one
// per word and not empty; NaN is never chosen while there is another value.
int64_t choose_token(std::span<const float> logits, const Sampling& sampling, uint64_t sequence,
                     uint64_t position);

}  // namespace clients
