// The random numbers that operators of one model draw, one after another, from its state.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "clients/pt2/aten/checked_builder.h"

namespace clients {

// Seed and counter from which an operator draws: int64 scalars.
struct RandomStart {
  NodeId seed = 0, counter = 0;
};

class RandomDraws {
 public:
  // `declare` gives the state, int64 [2], when an operator first draws.
  void on_first(std::function<NodeId()> declare) { declare_ = std::move(declare); }
  // For an operator that takes `numbers` of 32 bits, a multiple of 4; the next one continues after
  // them.
  RandomStart draw(Builder& b, const Expr& numbers);
  // The content that a call leaves in the state; empty for a model that draws nothing.
  std::optional<NodeId> state_after(Builder& b) const;

 private:
  std::function<NodeId()> declare_;
  std::optional<NodeId> state_;
  Expr taken_ = 0;
};

}  // namespace clients
