// Random numbers: draws from the model's Philox stream, and dropout.
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/random_stream.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

NodeId whole(Context& c, int64_t value) { return c.b.scalar_int(DType::kInt64, value); }

// Nothing is drawn for a tensor without elements.
bool is_empty(Context& c) {
  Sizes shape = c.out_shape();
  if (!common::element_count(shape).is_constant(0)) return false;
  c.set(c.b.full(c.out_dtype(), shape, 0));
  return true;
}

// ---- Real numbers ----------------------------------------------------------------------------

// In [from, to): what rounds to `to` is `from`.
void uniform_between(Context& c, double from, double to) {
  if (is_empty(c)) return;
  DType d = c.out_dtype();
  NodeId x = random_uniform(c, c.out_shape(), d);
  NodeId value = from == 0 && to == 1 ? x : add(c, mul(c, x, to - from), from);
  // Of numbers in (0, 1] those from here on round to 1 in the result's type.
  double one = d == DType::kBfloat16 ? 1 - 0x1p-9 : d == DType::kFloat16 ? 1 - 0x1p-12 : 1;
  NodeId inside = c.b.binary(BinaryOp::kLess, x, number_like(c, x, one));
  c.result(c.b.select(inside, value, number_like(c, x, from)));
}

void rand(Context& c) { uniform_between(c, 0, 1); }
void uniform(Context& c) { uniform_between(c, c.number("from", 0), c.number("to", 1)); }

NodeId standard_normal(Context& c) { return random_normal(c, c.out_shape(), c.out_dtype()); }

void randn(Context& c) {
  if (!is_empty(c)) c.result(standard_normal(c));
}

// A parameter of a distribution, a number or a tensor, in x's type.
NodeId parameter(Context& c, std::string_view name, NodeId x, double fallback) {
  if (!c.has(name)) return number_like(c, x, fallback);
  return as(c, operand(c, name), c.b.dtype(x));
}

NodeId scaled_normal(Context& c, double mean, double deviation) {
  NodeId x = standard_normal(c);
  NodeId scaled = mul(c, x, parameter(c, "std", x, deviation));
  return add(c, scaled, parameter(c, "mean", x, mean));
}

void normal(Context& c) {
  if (!is_empty(c)) c.result(scaled_normal(c, 0, 1));
}
void log_normal(Context& c) {
  if (!is_empty(c)) c.result(c.b.unary(UnaryOp::kExp, scaled_normal(c, 1, 2)));
}

void exponential(Context& c) {
  if (is_empty(c)) return;
  NodeId x = random_exponential(c, c.out_shape(), c.out_dtype());
  c.result(mul(c, x, 1 / c.number("lambd", 1)));
}

void cauchy(Context& c) {
  if (is_empty(c)) return;
  NodeId x = random_uniform(c, c.out_shape(), c.out_dtype());
  NodeId angle = mul(c, add(c, x, -0.5), M_PI);
  NodeId spread = mul(c, c.b.unary(UnaryOp::kTan, angle), c.number("sigma", 1));
  c.result(add(c, spread, c.number("median", 0)));
}

// In float64, so that no rounding moves a number across a step.
void geometric(Context& c) {
  if (is_empty(c)) return;
  NodeId x = random_uniform(c, c.out_shape(), float_dtype(c.out_dtype()));
  NodeId log = c.b.unary(UnaryOp::kLog, c.b.cast(x, DType::kFloat64));
  c.result(c.b.unary(UnaryOp::kCeil, mul(c, log, 1 / std::log1p(-c.number("p", 0.5)))));
}

// ---- Whole numbers ---------------------------------------------------------------------------

// 64 bits modulo `range`, of which 63 are at hand, each step below 2^63.
NodeId wide_remainder(Context& c, const WideWord& word, NodeId range) {
  NodeId half = c.b.binary(BinaryOp::kMod, word.high, range);
  NodeId rest = c.b.binary(BinaryOp::kSub, range, half);
  NodeId wraps = c.b.binary(BinaryOp::kLessEqual, rest, half);
  NodeId twice = c.b.select(wraps, c.b.binary(BinaryOp::kSub, half, rest),
                            c.b.binary(BinaryOp::kAdd, half, half));
  NodeId last = c.b.binary(BinaryOp::kSub, range, whole(c, 1));
  NodeId ends = c.b.binary(BinaryOp::kEqual, twice, last);
  NodeId carries = c.b.binary(BinaryOp::kMul, word.lowest, c.b.cast(ends, DType::kInt64));
  NodeId sum = c.b.binary(BinaryOp::kAdd, twice, word.lowest);
  return c.b.binary(BinaryOp::kSub, sum, c.b.binary(BinaryOp::kMul, carries, range));
}

// In [0, range).
NodeId below(Context& c, NodeId range, bool wide) {
  Drawn at = draw_by_threads(c, c.out_shape(), wide);
  if (wide) return wide_remainder(c, random_wide_word(c, at), range);
  return c.b.binary(BinaryOp::kMod, random_word(c, at), range);
}

// Ranges from here on take 64 bits a number.
constexpr int64_t kNarrow = int64_t{1} << 28;

void between(Context& c, const Expr& low, const Expr& high) {
  if (is_empty(c)) return;
  NodeId range = c.b.size_scalar(DType::kInt64, high - low);
  NodeId x = below(c, range, c.b.bounds().upper(high - low) >= kNarrow);
  c.result(c.b.binary(BinaryOp::kAdd, x, c.b.size_scalar(DType::kInt64, low)));
}

void randint(Context& c) {
  if (!c.is_tensor("high")) return between(c, c.size("low", 0), c.size("high"));
  if (is_empty(c)) return;
  // A bound that only the data knows is taken for less than 2^28, as PyTorch tells them apart.
  c.result(below(c, c.b.cast(c.tensor("high"), DType::kInt64), false));
}

// The greatest whole number up to which a type holds every one.
int64_t greatest_whole(DType d) {
  switch (d) {
    case DType::kFloat64:
      return int64_t{1} << 53;
    case DType::kFloat32:
      return 1 << 24;
    case DType::kFloat16:
      return 1 << 11;
    case DType::kBfloat16:
      return 1 << 8;
    case DType::kBool:
      return 1;
    case DType::kUint8:
      return UINT8_MAX;
    case DType::kInt64:
      return INT64_MAX;
    default:
      return (int64_t{1} << (8 * common::dtype_size(d) - 1)) - 1;
  }
}

// What `random_` gives where nothing bounds it from above: the whole numbers from `from` on that
// the type holds exactly.
void without_end(Context& c, int64_t from) {
  if (is_empty(c)) return;
  DType d = c.out_dtype();
  int64_t last = greatest_whole(d);
  if (d == DType::kInt64 && from == 0) {
    return c.set(random_wide_word(c, draw_by_threads(c, c.out_shape(), true)).high);
  }
  int64_t range = 0;
  if (from > last || __builtin_sub_overflow(last, from, &range) || range == INT64_MAX) {
    c.refuse("a range of more than 2^63 - 1 numbers, or of none");
  }
  ++range;
  // With no bound at all PyTorch takes 64 bits for float64 alone.
  bool wide = c.has("from") ? range >= kNarrow : d == DType::kFloat64;
  NodeId x = below(c, whole(c, range), wide);
  c.result(c.b.binary(BinaryOp::kAdd, x, whole(c, from)));
}

void random(Context& c) {
  if (!c.has("to")) return without_end(c, c.integer("from", 0));
  between(c, c.size("from", 0), c.size("to"));
}

// Positions that sort random keys of 63 bits.
void randperm(Context& c) {
  if (is_empty(c)) return;
  WideWord key = random_wide_word(c, draw_by_threads(c, c.out_shape(), true));
  c.result(c.b.sort_indices(key.high, 0, false));
}

// ---- Choices ---------------------------------------------------------------------------------

NodeId is_below(Context& c, NodeId x, double p) {
  return c.b.binary(BinaryOp::kLess, x, number_like(c, x, p));
}

void bernoulli(Context& c) {
  if (is_empty(c)) return;
  DType d = float_dtype(c.out_dtype());
  if (c.has("p") && !c.is_tensor("p")) {
    return c.result(is_below(c, random_uniform(c, c.out_shape(), d), c.number("p", 0.5)));
  }
  NodeId p = c.b.cast(c.tensor(c.has("p") ? "p" : "self"), d);
  Drawn at = draw_by_fours(c, c.out_shape(), 12);
  NodeId x = random_uniform_at(c, at);
  c.result(c.b.binary(BinaryOp::kLessEqual, c.b.cast(x, d), p));
}

// The first position whose sum of weights so far reaches a uniform share of all.
NodeId with_replacement(Context& c, NodeId weights) {
  int axis = c.b.rank(weights) - 1;
  NodeId sums = c.b.scan(ScanOp::kSum, weights, axis);
  Expr last = c.b.size(weights, axis) - 1;
  NodeId total = c.b.slice(sums, axis, last, 1);
  NodeId share = mul(c, random_uniform(c, c.out_shape(), c.b.dtype(weights)), total);
  NodeId before =
      c.b.binary(BinaryOp::kLess, c.b.unsqueeze(sums, axis), c.b.unsqueeze(share, axis + 1));
  return c.b.reduce(ReduceOp::kSum, c.b.cast(before, DType::kInt64), {axis + 1});
}

// The greatest of weights over exponential numbers, or as many of the greatest as are wanted.
void multinomial(Context& c) {
  if (is_empty(c)) return;
  NodeId weights = float_tensor(c, "self");
  int axis = c.b.rank(weights) - 1;
  Expr samples = c.size("num_samples");
  bool one = samples.is_constant(1);
  if (c.flag("replacement", false) && !one) return c.result(with_replacement(c, weights));
  NodeId rivals = random_exponential(c, c.b.shape(weights), c.b.dtype(weights));
  NodeId scores = div(c, weights, rivals);
  if (one) return c.result(c.b.reduce(ReduceOp::kArgmax, scores, {axis}, true));
  c.result(c.b.slice(c.b.sort_indices(scores, axis, true), axis, 0, samples));
}

// ---- Dropout ---------------------------------------------------------------------------------

// Whether the operator draws; else its result is its input. `training` is what it does when its
// call doesn't say.
bool drops(Context& c, bool training) {
  if (c.flag("train", training) && c.number("p", 0.5) != 0) return true;
  c.alias("input");
  return false;
}

void dropout(Context& c) {
  if (!drops(c, false) || is_empty(c)) return;
  NodeId x = float_tensor(c, "input");
  double p = c.number("p", 0.5);
  c.result(scaled_where_kept(c, x, random_kept(c, c.out_shape(), p), p));
}

void native_dropout(Context& c) {
  if (!drops(c, true)) {
    c.unshare();
    if (c.wants_output(1)) c.set(c.b.full(DType::kBool, c.out_shape(1), 1), 1);
    return;
  }
  if (is_empty(c)) return;
  NodeId x = float_tensor(c, "input");
  double p = c.number("p", 0.5);
  NodeId mask = random_kept(c, c.out_shape(), p);
  c.result(scaled_where_kept(c, x, mask, p));
  if (c.wants_output(1)) c.set(mask, 1);
}

void native_dropout_backward(Context& c) {
  NodeId gradient = float_tensor(c, "grad_output");
  NodeId kept = c.b.cast(c.tensor("mask"), c.b.dtype(gradient));
  c.result(mul(c, mul(c, gradient, kept), c.number("scale", 1)));
}

// Bernoulli numbers of one size per (batch, channel), or per element.
NodeId noise(Context& c, NodeId x, bool by_channel, double p) {
  Sizes shape = c.b.shape(x);
  if (by_channel && shape.size() < 2) c.refuse("whole channels need a batch and channels");
  for (size_t k = 2; by_channel && k < shape.size(); ++k) shape[k] = 1;
  return c.b.cast(is_below(c, random_uniform(c, shape, DType::kFloat32), 1 - p), c.b.dtype(x));
}

void feature_dropout(Context& c) {
  if (!drops(c, false) || is_empty(c)) return;
  NodeId x = float_tensor(c, "input");
  double p = c.number("p", 0.5);
  c.result(mul(c, x, mul(c, noise(c, x, true, p), p < 1 ? 1 / (1 - p) : 0)));
}

// Self-normalising: dropped elements take the value -1.758, and mean and variance stay.
template <bool by_channel>
void alpha_dropout(Context& c) {
  if (!drops(c, false) || is_empty(c)) return;
  NodeId x = float_tensor(c, "input");
  double p = c.number("p", 0.5);
  if (p == 1) return c.result(mul(c, x, 0.0));
  constexpr double kAlpha = 1.7580993408473766;
  double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  NodeId keeps = noise(c, x, by_channel, p);
  NodeId moved = add(c, mul(c, add(c, keeps, -1), kAlpha * a), kAlpha * a * p);
  c.result(add(c, mul(c, x, mul(c, keeps, a)), moved));
}

}  // namespace

void add_random_operators(OperatorTable* t) {
  for (const char* name : {"aten.rand", "aten.rand_like"}) t->add(name, rand);
  for (const char* name : {"aten.randn", "aten.randn_like"}) t->add(name, randn);
  for (const char* name : {"aten.randint", "aten.randint_like"}) t->add(name, randint);
  for (const char* name : {"aten.normal", "aten.normal_functional"}) t->add(name, normal);
  t->add("aten.uniform", uniform);
  t->add("aten.log_normal", log_normal);
  t->add("aten.exponential", exponential);
  t->add("aten.cauchy", cauchy);
  t->add("aten.geometric", geometric);
  t->add("aten.random", random);
  t->add("aten.randperm", randperm);
  t->add("aten.bernoulli", bernoulli);
  t->add("aten.multinomial", multinomial);
  t->add("aten.dropout", dropout);
  t->add("aten.native_dropout", native_dropout);
  t->add("aten.native_dropout_backward", native_dropout_backward);
  t->add("aten.feature_dropout", feature_dropout);
  t->add("aten.alpha_dropout", alpha_dropout<false>);
  t->add("aten.feature_alpha_dropout", alpha_dropout<true>);
}

}  // namespace clients
