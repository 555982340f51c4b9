// Which of a language model's inputs are tokens, positions and a mask, and which output is logits.
#pragma once

#include <cstdint>
#include <string>

#include "clients/pt2/translate.h"
#include "common/base/result.h"

namespace clients {

// Positions among the model's user inputs and outputs; -1: the model has none.
struct Roles {
  int tokens = -1;     // integers [batch, width]
  int positions = -1;  // integers: [], [1], [width], [1, width] or [batch, width]
  int mask = -1;       // integers or booleans [batch, length]: 1 where a token is
  int logits = -1;     // floats [batch, width, words], [batch, 1, words] or [batch, words]
  // Tokens that one call takes, and sequences beside one another.
  int64_t width_least = 1, width_most = 1;
  int64_t batch_least = 1, batch_most = 1;
  // Keys and values of earlier tokens are kept from call to call; else each call takes all tokens.
  bool has_cache = false;
};

// By types, ranks and names: tokens are the integers of two axes whose name doesn't speak of
// positions or a mask. kUnsupported says what is missing or has two candidates.
common::Result<Roles> roles_of(const Model& model);

}  // namespace clients
