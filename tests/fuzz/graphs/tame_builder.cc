#include "tests/fuzz/graphs/tame_builder.h"

#include <algorithm>
#include <cmath>

namespace fuzz {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::NodeId;
using common::Op;
using common::ReduceOp;
using common::ScanOp;
using common::ScatterMode;
using common::Shape;
using common::UnaryOp;

namespace {

int digits_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 11;
    case DType::kBfloat16:
      return 8;
    case DType::kFloat32:
      return 24;
    default:
      return 53;
  }
}

// Rounding steps that a function of the math library is allowed.
constexpr double kFunctionSteps = 16;
// Beyond this floats are scaled down before they take part in anything.
constexpr double kUseful = 1024;

Numbers joined(const Numbers& a, const Numbers& b) {
  return {std::max(a.bound, b.bound), std::max(a.error, b.error), std::max(a.grain, b.grain),
          a.special || b.special};
}

enum class Domain : uint8_t {
  kWithin,    // magnitudes of at most `limit`
  kPositive,  // from 0.5 to 0.5 + limit
  kBeyondOne  // from 1.5 to 1.5 + limit
};
// A smooth function on a domain, the bounds of its value and of its derivative there.
struct Smooth {
  UnaryOp op;
  Domain domain;
  double limit, value, slope;
};
constexpr Smooth kSmooth[] = {
    {UnaryOp::kExp, Domain::kWithin, 4, 55, 55},
    {UnaryOp::kExp2, Domain::kWithin, 4, 16, 12},
    {UnaryOp::kExpm1, Domain::kWithin, 4, 55, 55},
    {UnaryOp::kLog, Domain::kPositive, 64, 4.2, 2},
    {UnaryOp::kLog2, Domain::kPositive, 64, 6.1, 2.9},
    {UnaryOp::kLog10, Domain::kPositive, 64, 1.9, 0.9},
    {UnaryOp::kLog1p, Domain::kPositive, 64, 4.2, 0.7},
    {UnaryOp::kSqrt, Domain::kPositive, 64, 8.1, 0.8},
    {UnaryOp::kRsqrt, Domain::kPositive, 64, 1.5, 1.5},
    {UnaryOp::kRecip, Domain::kPositive, 64, 2, 4},
    {UnaryOp::kSin, Domain::kWithin, 1000, 1, 1},
    {UnaryOp::kCos, Domain::kWithin, 1000, 1, 1},
    {UnaryOp::kTan, Domain::kWithin, 1, 1.6, 3.5},
    {UnaryOp::kAsin, Domain::kWithin, 0.5, 0.6, 1.2},
    {UnaryOp::kAcos, Domain::kWithin, 0.5, 2.1, 1.2},
    {UnaryOp::kAtan, Domain::kWithin, 1000, 1.6, 1},
    {UnaryOp::kSinh, Domain::kWithin, 4, 28, 28},
    {UnaryOp::kCosh, Domain::kWithin, 4, 28, 28},
    {UnaryOp::kTanh, Domain::kWithin, 1000, 1, 1},
    {UnaryOp::kAsinh, Domain::kWithin, 1000, 8, 1},
    {UnaryOp::kAcosh, Domain::kBeyondOne, 64, 5, 0.9},
    {UnaryOp::kAtanh, Domain::kWithin, 0.5, 0.6, 1.4},
    {UnaryOp::kErf, Domain::kWithin, 1000, 1, 1.2},
    {UnaryOp::kErfc, Domain::kWithin, 1000, 2, 1.2},
    {UnaryOp::kSigmoid, Domain::kWithin, 1000, 1, 0.3},
    {UnaryOp::kLgamma, Domain::kPositive, 16, 30, 2.8},
    {UnaryOp::kDigamma, Domain::kPositive, 16, 2.9, 5},
    {UnaryOp::kErfinv, Domain::kWithin, 0.5, 0.5, 1.2},
};

}  // namespace

double integer_limit(DType dtype) {
  if (dtype == DType::kBool) return 1;
  if (dtype == DType::kUint8) return 255;
  return std::ldexp(1, static_cast<int>(8 * common::dtype_size(dtype)) - 1);
}

Numbers rounded(DType dtype, Numbers numbers, double times) {
  if (!common::is_float(dtype)) {
    numbers.bound = std::min(numbers.bound, integer_limit(dtype));
    return numbers;
  }
  bool exact = numbers.grain != kNoGrain && numbers.error == 0 &&
               std::ldexp(numbers.bound, numbers.grain) <= std::ldexp(1, digits_of(dtype));
  if (exact) return numbers;
  numbers.error += times * std::ldexp(numbers.bound, -digits_of(dtype));
  numbers.grain = kNoGrain;
  return numbers;
}

TameBuilder::TameBuilder(std::vector<common::SymbolRange> symbols,
                         std::vector<std::vector<int64_t>> bindings)
    : graph_(std::move(symbols)), bindings_(std::move(bindings)) {}

NodeId TameBuilder::declare(NodeId id, const Numbers& numbers) {
  numbers_.emplace(id, numbers);  // an equal node was made before: what is known stays true
  return id;
}

int64_t TameBuilder::most(const Expr& size) const {
  int64_t most = 0;
  for (const auto& binding : bindings_) most = std::max(most, size.evaluate(binding));
  return most;
}

int64_t TameBuilder::most_elements(const Shape& shape) const {
  return most(common::element_count(shape));
}

NodeId TameBuilder::scalar(DType dtype, double value) {
  int grain = value == std::floor(value) ? 0 : kNoGrain;
  for (int g = 1; g < 16 && grain == kNoGrain; ++g) {
    if (std::ldexp(value, g) == std::floor(std::ldexp(value, g))) grain = g;
  }
  bool wraps = dtype == DType::kUint8 && value < 0;
  double bound = wraps ? integer_limit(dtype) : std::fabs(value);
  return declare(graph_.scalar(dtype, value), rounded(dtype, {bound, 0, grain, false}));
}

NodeId TameBuilder::cast(NodeId x, DType to) {
  DType from = dtype(x);
  if (from == to) return x;
  if (common::is_half(to)) x = within(x, kUseful);
  Numbers n = numbers(x);
  if (!common::is_float(to)) {
    n.grain = 0;
    // Numbers below 0 wrap around.
    if (n.special || n.bound > integer_limit(to) || to == DType::kUint8)
      n.bound = integer_limit(to);
    n.special = false;
    if (to == DType::kBool) n.bound = 1;
  }
  return declare(graph_.cast(x, to), rounded(to, n));
}

NodeId TameBuilder::computable(NodeId x) {
  if (common::is_half(dtype(x))) x = cast(x, DType::kFloat32);
  return common::is_float(dtype(x)) ? within(sane(x), kUseful) : x;
}

NodeId TameBuilder::view(NodeId x, const common::View& view) {
  Numbers n = numbers(x);
  if (!view.valid.empty()) {
    // The fill is a constant that rounds to the dtype once, like a scalar.
    NodeId fill = scalar(dtype(x), view.fill);
    n = joined(n, numbers(fill));
  }
  return declare(graph_.view(x, view), n);
}

NodeId TameBuilder::sane(NodeId x) {
  if (!numbers(x).special) return x;
  Numbers n = numbers(x);
  double limit = std::max(1.0, std::exp2(std::ceil(std::log2(std::max(n.bound, 1.0)))));
  NodeId low = graph_.binary(BinaryOp::kMax, x, scalar(dtype(x), -limit));
  NodeId finite = graph_.binary(BinaryOp::kMin, low, scalar(dtype(x), limit));
  NodeId is_nan = graph_.unary(UnaryOp::kIsNan, x);
  n.special = false;
  n.bound = limit;
  return declare(graph_.select(is_nan, scalar(dtype(x), 0), finite), n);
}

NodeId TameBuilder::within(NodeId x, double bound) {
  Numbers n = numbers(x);
  if (n.bound <= bound || dtype(x) == DType::kBool) return x;
  if (common::is_half(dtype(x))) return within(cast(x, DType::kFloat32), bound);
  if (!common::is_float(dtype(x))) {
    double modulus = std::min(std::floor(bound) + 1, 7.0);
    NodeId divisor = scalar(dtype(x), modulus);
    return declare(graph_.binary(BinaryOp::kMod, x, divisor), {modulus - 1, 0, 0, false});
  }
  constexpr double kMostDown = 2000;  // beyond any float's range, for bounds that are unknown
  double steps = std::ceil(std::log2(n.bound / bound));
  int down = static_cast<int>(steps < kMostDown ? steps : kMostDown);
  double factor = std::ldexp(1, -down);
  n.bound *= factor;
  n.error *= factor;
  if (n.grain != kNoGrain) n.grain += down;
  return declare(graph_.binary(BinaryOp::kMul, x, scalar(dtype(x), factor)), n);
}

NodeId TameBuilder::away_from_zero(NodeId x, double distance) {
  return binary(BinaryOp::kAdd, unary(UnaryOp::kAbs, x), scalar(dtype(x), distance));
}

NodeId TameBuilder::unary(UnaryOp op, NodeId x) {
  for (const Smooth& f : kSmooth) {
    if (f.op != op) continue;
    x = within(x, f.limit);
    if (f.domain != Domain::kWithin) {
      x = away_from_zero(x, f.domain == Domain::kPositive ? 0.5 : 1.5);
    }
    Numbers n{f.value, numbers(x).error * f.slope, kNoGrain, false};
    return declare(graph_.unary(op, x), rounded(dtype(x), n, kFunctionSteps));
  }
  Numbers n = numbers(x);
  switch (op) {
    case UnaryOp::kNot:
    case UnaryOp::kNeg:
    case UnaryOp::kAbs:
      if (!common::is_float(dtype(x))) n.bound += 1;
      if (dtype(x) == DType::kUint8) n.bound = integer_limit(dtype(x));
      break;
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
      return declare(graph_.unary(op, x), {1, 0, 0, false});
    case UnaryOp::kSign:
      n = {1, 0, 0, false};
      break;
    default:  // to whole numbers
      n.bound = std::ceil(n.bound);
      n.grain = 0;
  }
  return declare(graph_.unary(op, x), rounded(dtype(x), n));
}

NodeId TameBuilder::integer_binary(BinaryOp op, NodeId a, NodeId b) {
  double x = numbers(a).bound, y = numbers(b).bound;
  Numbers n{integer_limit(dtype(a)), 0, 0, false};
  if (op == BinaryOp::kAdd || op == BinaryOp::kSub) n.bound = x + y;
  if (op == BinaryOp::kMul) n.bound = x * y;
  if (op == BinaryOp::kMin || op == BinaryOp::kMax) n.bound = std::max(x, y);
  // A result that wraps around may be anything.
  if (n.bound > integer_limit(dtype(a)) || (dtype(a) == DType::kUint8 && op == BinaryOp::kSub)) {
    n.bound = integer_limit(dtype(a));
  }
  return declare(graph_.binary(op, a, b), n);
}

NodeId TameBuilder::float_binary(BinaryOp op, NodeId a, NodeId b) {
  DType d = dtype(a);
  if (op == BinaryOp::kPow) {
    a = away_from_zero(within(a, 2), 0.5);
    b = within(b, 2);
  } else if (op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv || op == BinaryOp::kMod ||
             op == BinaryOp::kFmod || op == BinaryOp::kAtan2) {
    a = within(a, 64);
    b = away_from_zero(within(b, 64), 0.5);
  } else if (op == BinaryOp::kCopysign) {
    b = away_from_zero(b, 0.5);
  }
  const Numbers x = numbers(a), y = numbers(b);
  Numbers n{std::max(x.bound, y.bound), x.error + y.error, std::max(x.grain, y.grain), false};
  double steps = 1;
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
      n.bound = x.bound + y.bound;
      break;
    case BinaryOp::kMul:
      n.bound = x.bound * y.bound;
      n.error = x.error * y.bound + y.error * x.bound + x.error * y.error;
      n.grain = n.grain == kNoGrain ? kNoGrain : x.grain + y.grain;
      break;
    case BinaryOp::kDiv:
      n = {2 * x.bound, 2 * x.error + 4 * x.bound * y.error, kNoGrain, false};
      break;
    case BinaryOp::kFloorDiv:
      n = {2 * x.bound + 1, 0, 0, false};
      break;
    case BinaryOp::kPow:
      n = {10, 16 * n.error, kNoGrain, false};
      steps = kFunctionSteps;
      break;
    case BinaryOp::kAtan2:
      n = {3.2, 2 * n.error, kNoGrain, false};
      steps = kFunctionSteps;
      break;
    case BinaryOp::kHypot:
      n = {x.bound + y.bound, n.error, kNoGrain, false};
      steps = kFunctionSteps;
      break;
    case BinaryOp::kNextafter:
      n = {2 * x.bound + 1e-30, x.error, kNoGrain, false};
      steps = 2;
      break;
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      n.special = x.special || y.special;
      break;
    default:  // mod, fmod and copysign give a multiple of the finer grain
      break;
  }
  return declare(graph_.binary(op, a, b), rounded(d, n, steps));
}

NodeId TameBuilder::binary(BinaryOp op, NodeId a, NodeId b) {
  if (common::is_comparison(op)) return declare(graph_.binary(op, a, b), {1, 0, 0, false});
  return common::is_float(dtype(a)) ? float_binary(op, a, b) : integer_binary(op, a, b);
}

NodeId TameBuilder::select(NodeId condition, NodeId a, NodeId b) {
  return declare(graph_.select(condition, a, b), joined(numbers(a), numbers(b)));
}

Numbers TameBuilder::sum_of(DType dtype, const Numbers& term, double count) const {
  Numbers n{term.bound * count, term.error * count, term.grain, false};
  return rounded(dtype, n, count);
}

NodeId TameBuilder::reduce(ReduceOp op, NodeId x, const std::vector<int>& axes, bool keep) {
  Shape away;
  for (int axis : axes) away.push_back(graph_.shape(x)[static_cast<size_t>(axis)]);
  auto count = static_cast<double>(std::max<int64_t>(most_elements(away), 1));
  DType d = dtype(x);
  Numbers n = numbers(x);
  bool is_float = common::is_float(d);
  switch (op) {
    case ReduceOp::kSum:
      n = is_float ? sum_of(d, n, count) : Numbers{integer_limit(d), 0, 0, false};
      break;
    case ReduceOp::kProd:
      x = is_float ? within(x, 1) : x;
      n = is_float ? Numbers{1, numbers(x).error * count, kNoGrain, false}
                   : Numbers{integer_limit(d), 0, 0, false};
      n = rounded(d, n, count);
      break;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      if (is_float) n.special = n.special || graph_.bounds().lower(common::element_count(away)) < 1;
      if (!is_float) n.bound = integer_limit(d);
      break;
    default:
      n = {op == ReduceOp::kAny || op == ReduceOp::kAll ? 1 : count, 0, 0, false};
  }
  NodeId result = graph_.reduce(op, x, axes);
  declare(result, n);
  if (!keep) return result;
  Shape kept = graph_.shape(x);
  for (int axis : axes) kept[static_cast<size_t>(axis)] = 1;
  return declare(graph_.reshape(result, kept), n);
}

NodeId TameBuilder::scan(ScanOp op, NodeId x, int axis) {
  DType d = dtype(x);
  auto count =
      static_cast<double>(std::max<int64_t>(most(graph_.shape(x)[static_cast<size_t>(axis)]), 1));
  bool is_float = common::is_float(d);
  if (op == ScanOp::kProd && is_float) x = within(x, 1);
  Numbers n = numbers(x);
  if (op == ScanOp::kSum || op == ScanOp::kProd) {
    Numbers product{1, n.error * count, kNoGrain, false};
    n = !is_float            ? Numbers{integer_limit(d), 0, 0, false}
        : op == ScanOp::kSum ? sum_of(d, n, count)
                             : rounded(d, product, count);
  } else if (op == ScanOp::kLogSumExp) {
    n = rounded(d, {n.bound + std::log(count), n.error, kNoGrain, false}, kFunctionSteps * count);
  }
  return declare(graph_.scan(op, x, axis), n);
}

NodeId TameBuilder::matmul(NodeId a, NodeId b) {
  const Numbers &x = numbers(a), &y = numbers(b);
  Numbers product{x.bound * y.bound, x.error * y.bound + y.error * x.bound + x.error * y.error,
                  x.grain == kNoGrain || y.grain == kNoGrain ? kNoGrain : x.grain + y.grain, false};
  auto count = static_cast<double>(std::max<int64_t>(most(graph_.shape(a).back()), 1));
  Numbers n = common::is_float(dtype(a)) ? sum_of(dtype(a), rounded(dtype(a), product), count)
                                         : Numbers{integer_limit(dtype(a)), 0, 0, false};
  return declare(graph_.matmul(a, b), n);
}

NodeId TameBuilder::contract(NodeId a, NodeId b, const common::ContractAttr& labels) {
  bool wide = dtype(a) == DType::kFloat64 || dtype(b) == DType::kFloat64;
  DType d = wide ? DType::kFloat64 : DType::kFloat32;
  std::map<int, Expr> summed;
  for (size_t k = 0; k < labels.a.size(); ++k) summed[labels.a[k]] = graph_.shape(a)[k];
  for (size_t k = 0; k < labels.b.size(); ++k) summed[labels.b[k]] = graph_.shape(b)[k];
  for (int label : labels.out) summed.erase(label);
  double count = 1;
  for (const auto& [label, size] : summed) count *= static_cast<double>(most(size));
  const Numbers &x = numbers(a), &y = numbers(b);
  Numbers product{x.bound * y.bound, x.error * y.bound + y.error * x.bound + x.error * y.error,
                  x.grain == kNoGrain || y.grain == kNoGrain ? kNoGrain : x.grain + y.grain, false};
  return declare(graph_.raw({Op::kContract, d, {}, {a, b}, labels}),
                 sum_of(d, rounded(d, product), std::max(count, 1.0)));
}

NodeId TameBuilder::softmax(NodeId x, int axis, bool log) {
  Numbers n = numbers(x);
  double count = static_cast<double>(most(graph_.shape(x)[static_cast<size_t>(axis)])) + 1;
  n = {log ? 2 * n.bound + std::log(count) : 1, 2 * n.error, kNoGrain, false};
  // The exponentials' arguments lost digits at the operand's magnitude.
  n.error += numbers(x).bound * std::ldexp(4, -digits_of(dtype(x)));
  return declare(
      graph_.raw({Op::kSoftmax, dtype(x), graph_.shape(x), {x}, common::SoftmaxAttr{axis, log}}),
      rounded(dtype(x), n, kFunctionSteps * count));
}

NodeId TameBuilder::norm(NodeId x, int axes, bool centred) {
  x = within(x, 16);
  Shape whole = graph_.shape(x);
  Shape row(whole.end() - axes, whole.end());
  double count = static_cast<double>(most_elements(row)) + 1;
  Numbers n = numbers(x);
  // With 0.5 as epsilon rows are scaled by less than 1.5; squares lose digits at bound^2.
  n = {
      std::min(std::sqrt(count), 1.5 * 2 * n.bound),
      8 * n.error * (1 + n.bound) + n.bound * n.bound * count * std::ldexp(8, -digits_of(dtype(x))),
      kNoGrain, false};
  return declare(
      graph_.raw({Op::kNorm, dtype(x), graph_.shape(x), {x}, common::NormAttr{axes, centred, 0.5}}),
      rounded(dtype(x), n, kFunctionSteps));
}

NodeId TameBuilder::fourier(NodeId x, const common::FourierAttr& part) {
  x = within(x, 16);
  auto points = static_cast<double>(graph_.shape(x).back().constant());
  Numbers n = sum_of(dtype(x), numbers(x), points);
  n.grain = kNoGrain;
  return declare(graph_.fourier(x, std::nullopt, part),
                 rounded(dtype(x), n, kFunctionSteps * points));
}

NodeId TameBuilder::scatter(ScatterMode mode, NodeId base, NodeId updates,
                            const std::vector<NodeId>& indices,
                            std::vector<common::Coordinate> coordinates) {
  DType d = dtype(base);
  auto count = static_cast<double>(most_elements(graph_.shape(updates)));
  bool is_float = common::is_float(d);
  if (mode == ScatterMode::kMul && is_float) {
    base = within(base, 1);
    updates = within(updates, 1);
  }
  Numbers n = joined(numbers(base), numbers(updates));
  if (!is_float && d != DType::kBool && mode != ScatterMode::kAssign) n.bound = integer_limit(d);
  if (mode == ScatterMode::kAdd && is_float) n = sum_of(d, n, count + 1);
  if (mode == ScatterMode::kMul && is_float) {
    n = rounded(d, {1, n.error * (count + 1), kNoGrain, false}, count + 1);
  }
  return declare(graph_.scatter(mode, base, updates, indices, std::move(coordinates)), n);
}

}  // namespace fuzz
