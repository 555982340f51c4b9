// Window functions of signals: bartlett, blackman, hamming, hann and kaiser.
//
// A periodic window of n values is the symmetric one of n + 1 without its last value. Values are
// computed in float64 and rounded once.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/special/special_math.h"

namespace clients {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The position of each value in [0, 1], 1 at the end of the symmetric window: float64 (length).
// Empty, and the result set, for windows of fewer than two values.
std::optional<NodeId> window_places(Context& c) {
  int64_t length = c.integer("window_length");
  if (length < 0) c.refuse("the length of a window is negative");
  if (length < 2) {
    c.set(c.b.full(c.out_dtype(), c.out_shape(), 1));
    return std::nullopt;
  }
  int64_t intervals = c.flag("periodic", true) ? length : length - 1;
  return mul(c, c.b.iota(DType::kFloat64, length), 1.0 / static_cast<double>(intervals));
}

// cos(2 pi multiple place)
NodeId wave(Context& c, NodeId place, double multiple) {
  return c.b.unary(UnaryOp::kCos, mul(c, place, 2 * kPi * multiple));
}

// alpha - beta cos(2 pi place)
void raised_cosine(Context& c, double alpha, double beta) {
  auto place = window_places(c);
  if (!place) return;
  c.result(add(c, mul(c, wave(c, *place, 1), -c.number("beta", beta)), c.number("alpha", alpha)));
}

void bartlett(Context& c) {
  auto place = window_places(c);
  if (!place) return;
  NodeId from_middle = c.b.unary(UnaryOp::kAbs, add(c, mul(c, *place, 2.0), -1.0));
  c.result(sub(c, number_like(c, from_middle, 1), from_middle));
}

void blackman(Context& c) {
  auto place = window_places(c);
  if (!place) return;
  NodeId first = mul(c, wave(c, *place, 1), -0.5);
  c.result(add(c, add(c, first, mul(c, wave(c, *place, 2), 0.08)), 0.42));
}

void kaiser(Context& c) {
  auto place = window_places(c);
  if (!place) return;
  double beta = c.number("beta", 12.0);
  NodeId from_middle = add(c, mul(c, *place, 2.0), -1.0);
  NodeId square = sub(c, number_like(c, from_middle, 1), mul(c, from_middle, from_middle));
  NodeId height = mul(c, c.b.unary(UnaryOp::kSqrt, maximum(c, square, 0)), beta);
  c.result(div(c, bessel_i0(c, height), bessel_i0(c, number_like(c, height, beta))));
}

}  // namespace

void add_window_functions_operators(OperatorTable* t) {
  t->add("aten.bartlett_window", bartlett);
  t->add("aten.blackman_window", blackman);
  t->add("aten.hamming_window", [](Context& c) { raised_cosine(c, 0.54, 0.46); });
  t->add("aten.hann_window", [](Context& c) { raised_cosine(c, 0.5, 0.5); });
  t->add("aten.kaiser_window", kaiser);
}

}  // namespace clients
