#include "clients/pt2/aten/random_stream.h"

#include <cmath>

#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// Threads of a block of PyTorch's kernels, and blocks that the GPU runs at once.
constexpr int64_t kBlock = 256, kBlocks = 132 * 8;
// Words of a counter.
constexpr int64_t kWords = 4;

NodeId whole(Context& c, int64_t value) { return c.b.scalar_int(DType::kInt64, value); }
NodeId shift_right(Context& c, NodeId x, int bits) {
  return c.b.binary(BinaryOp::kShr, x, whole(c, bits));
}
NodeId shift_left(Context& c, NodeId x, int bits) {
  return c.b.binary(BinaryOp::kShl, x, whole(c, bits));
}
NodeId remainder(Context& c, NodeId x, NodeId divisor) {
  return c.b.binary(BinaryOp::kMod, x, divisor);
}

Expr threads_for(const Expr& count) {
  return Expr(kBlock) * common::min(common::floor_div(count + (kBlock - 1), kBlock), kBlocks);
}

NodeId element_numbers(Context& c, const Shape& shape) {
  return c.b.reshape(c.b.iota(DType::kInt64, common::element_count(shape)), shape);
}

bool is_double(DType d) { return d == DType::kFloat64; }

// What Box and Muller make of two numbers in (0, 1]: the sine's or, where `odd`, the cosine's part.
NodeId box_muller(Context& c, NodeId radius, NodeId angle, std::optional<NodeId> odd) {
  NodeId log = c.b.unary(UnaryOp::kLog, radius);
  NodeId length = c.b.unary(UnaryOp::kSqrt, mul(c, log, -2.0));
  NodeId part = c.b.unary(UnaryOp::kSin, angle);
  if (odd) part = c.b.select(*odd, c.b.unary(UnaryOp::kCos, angle), part);
  return mul(c, length, part);
}

NodeId is_odd(Context& c, NodeId x) {
  return c.b.binary(BinaryOp::kEqual, c.b.binary(BinaryOp::kAnd, x, whole(c, 1)), whole(c, 1));
}

NodeId normal_float(Context& c, const Shape& shape) {
  Drawn at = draw_by_threads(c, shape, false);
  auto first = c.b.uniform_value(at.word);
  std::optional<NodeId> odd;
  if (!first) {
    odd = is_odd(c, at.word);
    at.word = c.b.binary(BinaryOp::kAnd, at.word, whole(c, 2));
  }
  constexpr double kTurn = 2 * M_PI * 0x1p-32;
  NodeId second = c.b.cast(random_word(c, at, 1), DType::kFloat32);
  NodeId angle = add(c, mul(c, second, kTurn), kTurn / 2);
  return box_muller(c, random_uniform_at(c, at), angle, odd);
}

// A pair of normal numbers needs a whole counter: an element is one of the two.
NodeId normal_double(Context& c, const Shape& shape) {
  Drawn at = draw_by_threads(c, shape, true);
  auto first = c.b.uniform_value(at.word);
  std::optional<NodeId> odd;
  if (!first) {
    odd = is_odd(c, shift_right(c, at.word, 1));
    at.word = whole(c, 0);
  }
  NodeId radius = random_wide_uniform_at(c, at);
  at.word = whole(c, 2);
  NodeId angle = mul(c, random_wide_uniform_at(c, at), 2 * M_PI);
  return box_muller(c, radius, angle, odd);
}

}  // namespace

Expr numbers_taken(const Expr& count, bool wide) {
  Expr counters = threads_for(count) * Expr(wide ? kWords / 2 : kWords);
  return (common::floor_div(count - 1, counters) + 1) * Expr(kWords);
}

Drawn draw_by_threads(Context& c, const Shape& shape, bool wide) {
  Expr count = common::element_count(shape);
  RandomStart state = c.random.draw(c.b, c.b.simplify(numbers_taken(count, wide)));
  Drawn at{state.seed, state.counter, element_numbers(c, shape), whole(c, 0)};
  // Each element has a thread of its own.
  if (c.b.bounds().upper(count) <= kBlock * kBlocks) return at;
  NodeId threads = c.b.size_scalar(DType::kInt64, threads_for(count));
  NodeId number = c.b.binary(BinaryOp::kFloorDiv, at.subsequence, threads);
  at.subsequence = remainder(c, at.subsequence, threads);
  at.counter = c.b.binary(BinaryOp::kAdd, at.counter, shift_right(c, number, wide ? 1 : 2));
  at.word =
      c.b.binary(BinaryOp::kAnd, wide ? shift_left(c, number, 1) : number, whole(c, kWords - 1));
  return at;
}

Drawn draw_by_fours(Context& c, const Shape& shape, const Expr& numbers) {
  RandomStart state = c.random.draw(c.b, numbers);
  NodeId element = element_numbers(c, shape);
  return {state.seed, state.counter, shift_right(c, element, 2),
          c.b.binary(BinaryOp::kAnd, element, whole(c, kWords - 1))};
}

NodeId random_word(Context& c, const Drawn& at, int next) {
  NodeId word = next == 0 ? at.word : c.b.binary(BinaryOp::kAdd, at.word, whole(c, next));
  return c.b.philox(DType::kInt64, at.seed, at.counter, at.subsequence, word);
}

WideWord random_wide_word(Context& c, const Drawn& at) {
  NodeId upper = random_word(c, at), lower = random_word(c, at, 1);
  NodeId high = c.b.binary(BinaryOp::kOr, shift_left(c, upper, 31), shift_right(c, lower, 1));
  return {high, c.b.binary(BinaryOp::kAnd, lower, whole(c, 1))};
}

NodeId random_uniform_at(Context& c, const Drawn& at) {
  return c.b.philox(DType::kFloat32, at.seed, at.counter, at.subsequence, at.word);
}

NodeId random_wide_uniform_at(Context& c, const Drawn& at) {
  NodeId upper = shift_left(c, random_word(c, at, 1), 21);
  NodeId bits = c.b.binary(BinaryOp::kXor, random_word(c, at), upper);
  NodeId x = c.b.cast(bits, DType::kFloat64);
  return add(c, mul(c, x, 0x1p-53), 0x1p-54);
}

NodeId random_uniform(Context& c, const Shape& shape, DType d) {
  Drawn at = draw_by_threads(c, shape, is_double(d));
  return is_double(d) ? random_wide_uniform_at(c, at) : random_uniform_at(c, at);
}

NodeId random_normal(Context& c, const Shape& shape, DType d) {
  return is_double(d) ? normal_double(c, shape) : normal_float(c, shape);
}

NodeId random_kept(Context& c, const Shape& shape, double p) {
  Expr count = common::element_count(shape);
  bool fours = c.b.simplify(common::mod(count, kWords)).is_constant(0);
  Drawn at = fours ? draw_by_fours(c, shape, c.b.simplify(numbers_taken(count, false)))
                   : draw_by_threads(c, shape, false);
  NodeId x = random_uniform_at(c, at);
  return c.b.binary(BinaryOp::kLess, x, number_like(c, x, 1 - p));
}

NodeId scaled_where_kept(Context& c, NodeId x, NodeId kept, double p) {
  NodeId factor = c.b.cast(kept, c.b.dtype(x));
  return mul(c, mul(c, x, factor), p < 1 ? 1 / (1 - p) : 0);
}

NodeId random_exponential(Context& c, const Shape& shape, DType d) {
  NodeId x = random_uniform(c, shape, d);
  // Never 0, as PyTorch's: the logarithm of the greatest numbers is that of the next below 1.
  double half_step = is_double(d) ? 0x1p-53 : 0x1p-24;
  NodeId log = c.b.select(less(c, x, 1 - half_step), c.b.unary(UnaryOp::kLog, x),
                          number_like(c, x, -half_step));
  return c.b.unary(UnaryOp::kNeg, log);
}

}  // namespace clients
