// Rejection sampling with a bounded number of attempts, for distributions whose samplers take as
// many random numbers as it takes to accept one.
//
// All attempts of an element are computed, along a last axis, and the first accepted one counts. A
// plan's work then does not depend on its numbers, and an element's number is a function of its
// position alone. Attempts are computed in float64: a plan and its reference, which round
// differently, accept the same ones but for one in some 1e13.
#pragma once

#include "clients/pt2/aten/random_stream.h"

namespace clients {

class RandomAttempts {
 public:
  // For a tensor of `shape`; advances the stream by as many counters as an element takes, one for
  // each attempt, or two where numbers are `wide`. Counters of an element are those of the
  // subsequence with its row-major position.
  RandomAttempts(Context& c, const Shape& shape, int64_t attempts, bool wide);

  // Number 0 to 3 of each attempt, float64 in (0, 1], of 32 bits or, where wide, of 53, with the
  // shape and a last axis of attempts. Each is independent of the others.
  NodeId number(int which) const;
  // The value of the first attempt that is accepted, or of the first one where none is: float64,
  // without the last axis.
  NodeId first(NodeId value, NodeId accepted) const;
  // Number 53 bits wide for each element, independent of all attempts'.
  NodeId one_more() const;

 private:
  Drawn drawn(const Shape& shape, NodeId counter) const;

  Context& c_;
  Shape shape_;
  int64_t attempts_;
  bool wide_;
  RandomStart start_;
};

// How many of the entries of the last axis lie below the element: the element's place in the
// distribution whose cumulative sums the entries are. int64.
NodeId place_among(Context& c, NodeId element, NodeId cumulative);

}  // namespace clients
