#include "clients/pt2/aten/random_attempts.h"

#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

NodeId whole(Context& c, int64_t value) { return c.b.scalar_int(DType::kInt64, value); }

int last_axis(Context& c, NodeId x) { return c.b.rank(x) - 1; }

}  // namespace

RandomAttempts::RandomAttempts(Context& c, const Shape& shape, int64_t attempts, bool wide)
    : c_(c), shape_(shape), attempts_(attempts), wide_(wide) {
  constexpr int64_t kNumbersOfCounter = 4;
  const int64_t counters = attempts * (wide ? 2 : 1) + 1;
  start_ = c.random.draw(c.b, Expr(kNumbersOfCounter * counters));
}

Drawn RandomAttempts::drawn(const Shape& shape, NodeId counter) const {
  Expr count = common::element_count(shape_);
  Shape places = shape_;
  places.resize(shape.size(), Expr(1));
  NodeId element = c_.b.reshape(c_.b.iota(DType::kInt64, count), places);
  NodeId at = c_.b.binary(BinaryOp::kAdd, start_.counter, counter);
  return {start_.seed, at, element, whole(c_, 0)};
}

NodeId RandomAttempts::number(int which) const {
  Shape shape = shape_;
  shape.emplace_back(attempts_);
  NodeId attempt = c_.b.iota(DType::kInt64, Expr(attempts_));
  if (!wide_) {
    Drawn at = drawn(shape, attempt);
    NodeId bits = c_.b.expand(random_word(c_, at, which), shape);
    return add(c_, mul(c_, c_.b.cast(bits, DType::kFloat64), 0x1p-32), 0x1p-33);
  }
  NodeId even = c_.b.binary(BinaryOp::kMul, attempt, whole(c_, 2));
  Drawn at = drawn(shape, c_.b.binary(BinaryOp::kAdd, even, whole(c_, which / 2)));
  at.word = whole(c_, which % 2 * 2);
  return c_.b.expand(random_wide_uniform_at(c_, at), shape);
}

NodeId RandomAttempts::first(NodeId value, NodeId accepted) const {
  const int axis = last_axis(c_, value);
  NodeId attempt = c_.b.iota(DType::kInt64, Expr(attempts_));
  NodeId none = whole(c_, attempts_);
  NodeId place = c_.b.reduce(ReduceOp::kMin, c_.b.select(accepted, attempt, none), {axis}, true);
  // The first one where all were refused.
  NodeId found = c_.b.binary(BinaryOp::kMod, place, none);
  NodeId is_it = c_.b.binary(BinaryOp::kEqual, attempt, found);
  NodeId only = c_.b.select(is_it, value, number_like(c_, value, 0));
  return c_.b.reduce(ReduceOp::kSum, only, {axis});
}

NodeId RandomAttempts::one_more() const {
  return random_wide_uniform_at(c_, drawn(shape_, whole(c_, attempts_ * (wide_ ? 2 : 1))));
}

NodeId place_among(Context& c, NodeId element, NodeId cumulative) {
  const int axis = last_axis(c, cumulative);
  NodeId before = c.b.binary(BinaryOp::kLess, cumulative, c.b.unsqueeze(element, axis));
  return c.b.reduce(ReduceOp::kSum, c.b.cast(before, DType::kInt64), {axis});
}

}  // namespace clients
