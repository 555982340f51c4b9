// Special functions around the normal distribution, the gamma function and the zeta function.
#include <cmath>
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/special/special_math.h"

namespace clients {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// (1 + 2 x) exp(x^2) erfc(x) for (x - 3.75) / (x + 3.75) in [-1, 1] (the variable of Schonfelder,
// "Chebyshev expansions for the error and related functions", 1978).
constexpr double kErfcx[] = {
    1.17757893456740175,      -4.59005458064647733e-3,  -0.0842491333665179156,
    0.0592099399981918905,    -0.0266586684353057523,   9.07499767070526509e-3,
    -2.41316354041760819e-3,  4.90775836525808632e-4,   -6.91697330250120637e-5,
    4.13902798607301017e-6,   7.74038306619849067e-7,   -2.18864010492343957e-7,
    1.07649994656709104e-8,   4.5219598112182869e-9,    -7.75440020883135111e-10,
    -6.31808834088668449e-11, 2.8687950109306699e-11,   1.94558685457773472e-13,
    -9.65469674843343891e-13, 3.25254814814873984e-14,  3.34781194828680539e-14,
    -1.8645628804193131e-15,  -1.25079505306886471e-15, 7.41823525662404346e-17,
    5.06814890479611132e-17};
// The normal quantile z of p: z / (p - 1/2) for (p - 1/2)^2 in [0, 9/64]. In the tails, with
// r = sqrt(-2 log(p)), for p below 1/8: r (r + z - log(r) / r), first for r in [2, 8], then for
// 1 / r in [1/40, 1/8], which reaches the smallest float64.
constexpr double kNdtriCentre[] = {
    2.75626240773561973,     0.276255910006695831,    0.0302071567096742772,
    4.12495724307757605e-3,  6.26201371068278004e-4,  1.0112940123524067e-4,
    1.70074806120694659e-5,  2.94314962287834284e-6,  5.20235429160728451e-7,
    9.34755448027532838e-8,  1.70155996943751891e-8,  3.13036326484412146e-9,
    5.80973075336826101e-10, 1.08625333486151058e-10, 2.04385966455798018e-11,
    3.8667162425075909e-12,  7.35025647520262983e-13, 1.40308362004386665e-13,
    2.68831034193732789e-14, 5.16793444070637528e-15, 9.96436518859769452e-16,
    1.92642403202838942e-16, 3.73349575218418355e-17};
constexpr double kNdtriTail[] = {
    1.00807773837573411,      -0.0650711688669641455,   0.0209857981705395881,
    -6.61829185177009919e-3,  2.08812238456585845e-3,   -6.62287322927336889e-4,
    2.11033551531264812e-4,   -6.74269953394503264e-5,  2.15640746529279056e-5,
    -6.89511324473598822e-6,  2.20304766897259995e-6,   -7.03284374998689629e-7,
    2.24355293877555768e-7,   -7.1544159396995033e-8,   2.28137475636479297e-8,
    -7.27691238542888587e-9,  2.32245242750146104e-9,   -7.41804308471216569e-10,
    2.37159973373800317e-10,  -7.59007306297617168e-11, 2.43179456168882195e-11,
    -7.79997889251481515e-12, 2.50463433088280382e-12,  -8.05139496659515873e-13,
    2.59096014245800571e-13,  -8.34636247816357031e-14, 2.6913073275524243e-14,
    -8.6864220129586725e-15,  2.80615822170840241e-15,  -9.07317628518155603e-16,
    2.93606348325620379e-16,  -9.50854481942010431e-17, 3.08169446728098102e-17,
    -9.99487031398190206e-18};
constexpr double kNdtriFarTail[] = {
    0.940394082884269431,     0.0179771488509338171,    7.20486122961814111e-4,
    -1.55159244401809454e-4,  2.76699018375275492e-5,   -5.28718633207615206e-6,
    1.12579754862152281e-6,   -2.63130441947548988e-7,  6.59857169679287285e-8,
    -1.74544749891973918e-8,  4.81343722630878761e-9,   -1.3723843993819895e-9,
    4.02076518319937129e-10,  -1.20490927865990412e-10, 3.68024473330334801e-11,
    -1.14254238292834651e-11, 3.59733964214484937e-12,  -1.1466389375188485e-12,
    3.69461983615652092e-13,  -1.20193298323702839e-13, 3.94378005545843163e-14,
    -1.30403520098729616e-14, 4.34197268497149447e-15,  -1.45488136969973607e-15,
    4.90308205492173805e-16,  -1.66111906686800216e-16, 5.65505665868360437e-17,
    -1.93381075537783216e-17, 6.64028039001422003e-18};

// ---- The normal distribution -----------------------------------------------------------------

NodeId scaled_erfc(Context& c, NodeId x) {
  NodeId size = c.b.unary(UnaryOp::kAbs, x);
  NodeId t = sub(c, number_like(c, x, 1), over(c, 7.5, add(c, size, 3.75)));
  NodeId right = div(c, chebyshev(c, t, -1, 1, kErfcx), add(c, add(c, size, size), 1.0));
  NodeId grown = c.b.unary(UnaryOp::kExp, mul(c, x, x));
  return c.b.select(less(c, x, 0), sub(c, add(c, grown, grown), right), right);
}

void erfcx(Context& c) { c.result(scaled_erfc(c, float_tensor(c, "self"))); }

void ndtr(Context& c) {
  NodeId x = mul(c, float_tensor(c, "self"), -M_SQRT1_2);
  c.result(mul(c, c.b.unary(UnaryOp::kErfc, x), 0.5));
}

void log_ndtr(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId y = mul(c, x, M_SQRT1_2);
  NodeId scaled = mul(c, scaled_erfc(c, c.b.unary(UnaryOp::kNeg, y)), 0.5);
  NodeId low = sub(c, c.b.unary(UnaryOp::kLog, scaled), mul(c, y, y));
  NodeId high = c.b.unary(UnaryOp::kLog1p, mul(c, c.b.unary(UnaryOp::kErfc, y), -0.5));
  c.result(c.b.select(less(c, x, -1), low, high));
}

void ndtri(Context& c) {
  NodeId p = float_tensor(c, "self");
  NodeId offset = add(c, p, -0.5);
  NodeId centre = mul(c, offset, chebyshev(c, mul(c, offset, offset), 0, 9.0 / 64, kNdtriCentre));
  NodeId left = less(c, offset, 0);
  NodeId tail = c.b.select(left, p, sub(c, number_like(c, p, 1), p));
  NodeId r = c.b.unary(UnaryOp::kSqrt, mul(c, c.b.unary(UnaryOp::kLog, tail), -2.0));
  NodeId inverse = over(c, 1, r);
  NodeId rest = c.b.select(less(c, r, 8), chebyshev(c, r, 2, 8, kNdtriTail),
                           chebyshev(c, inverse, 0.025, 0.125, kNdtriFarTail));
  rest = mul(c, add(c, rest, c.b.unary(UnaryOp::kLog, r)), inverse);
  NodeId size = patch(c, tail, 0, kInfinity, sub(c, r, rest));
  NodeId outer = c.b.select(left, c.b.unary(UnaryOp::kNeg, size), size);
  NodeId inside = less(c, c.b.unary(UnaryOp::kAbs, offset), 0.375);
  c.result(c.b.select(inside, centre, outer));
}

// -x log(x)
void entr(Context& c) {
  NodeId x = float_tensor(c, "self");
  NodeId value = c.b.unary(UnaryOp::kNeg, mul(c, x, c.b.unary(UnaryOp::kLog, x)));
  value = patch(c, x, 0, 0, value);
  c.result(c.b.select(less(c, x, 0), number_like(c, x, -kInfinity), value));
}

void xlog1py(Context& c) {
  auto [x, y] = float_pair(c, "self", "other");
  NodeId value = patch(c, x, 0, 0, mul(c, x, c.b.unary(UnaryOp::kLog1p, y)));
  c.result(c.b.select(c.b.unary(UnaryOp::kIsNan, y), y, value));
}

// ---- Zeta and polygamma ----------------------------------------------------------------------

// The sum of (q + k)^-x over all k >= 0, for x > 1 and q > 0: some terms, then the rest by Euler
// and Maclaurin's formula, as in Cephes (zeta.c).
NodeId positive_zeta(Context& c, NodeId x, NodeId q) {
  constexpr int kTerms = 9;
  // Bernoulli numbers B(2k) over (2k)!.
  constexpr double kBernoulli[] = {
      1.0 / 12,       -1.0 / 720,          1.0 / 30240,         -1.0 / 1209600,
      1.0 / 47900160, -691 / 1307674368e3, 1.0 / 74724249600.0, -3617 / 10670622842880e3};
  NodeId power = c.b.unary(UnaryOp::kNeg, x);
  NodeId sum = c.b.binary(BinaryOp::kPow, q, power);
  NodeId w = q;
  NodeId last = sum;
  for (int k = 0; k < kTerms; ++k) {
    w = add(c, w, 1.0);
    last = c.b.binary(BinaryOp::kPow, w, power);
    sum = add(c, sum, last);
  }
  NodeId inverse = over(c, 1, w);
  NodeId inverse_square = mul(c, inverse, inverse);
  NodeId factor = mul(c, mul(c, last, x), inverse);
  NodeId rest = sub(c, div(c, mul(c, last, w), add(c, x, -1.0)), mul(c, last, 0.5));
  double step = 1;
  for (double coefficient : kBernoulli) {
    rest = add(c, rest, mul(c, factor, coefficient));
    NodeId growth = mul(c, add(c, x, step), add(c, x, step + 1));
    factor = mul(c, factor, mul(c, growth, inverse_square));
    step += 2;
  }
  // Great powers vanish, and the factors that would grow with them must not undo that.
  return add(c, sum, patch(c, last, 0, 0, rest));
}

// Below zero, with r the fraction of -q: the terms on either side of zero, their signs by x's
// parity, are three sums over positive numbers.
NodeId hurwitz_zeta(Context& c, NodeId x, NodeId q) {
  NodeId negative = less(c, q, 0);
  NodeId floor = c.b.unary(UnaryOp::kFloor, q);
  NodeId above = positive_zeta(c, x, c.b.select(negative, sub(c, q, floor), q));
  NodeId size = c.b.unary(UnaryOp::kNeg, q);
  NodeId below = positive_zeta(c, x, sub(c, size, c.b.unary(UnaryOp::kFloor, size)));
  NodeId beyond = positive_zeta(c, x, add(c, size, 1.0));
  NodeId odd = equal(c, c.b.binary(BinaryOp::kMod, x, number_like(c, x, 2)), 1);
  NodeId finite = sub(c, below, beyond);
  finite = c.b.select(odd, c.b.unary(UnaryOp::kNeg, finite), finite);
  NodeId value = c.b.select(negative, add(c, above, finite), above);
  NodeId fractional = c.b.binary(BinaryOp::kNotEqual, x, c.b.unary(UnaryOp::kFloor, x));
  NodeId nan = number_like(c, x, NAN);
  value = c.b.select(c.b.binary(BinaryOp::kAnd, negative, fractional), nan, value);
  NodeId pole = c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kEqual, q, floor),
                           c.b.binary(BinaryOp::kLessEqual, q, number_like(c, q, 0)));
  value = c.b.select(pole, number_like(c, x, kInfinity), value);
  return c.b.select(less(c, x, 1), nan, patch(c, x, 1, kInfinity, value));
}

void zeta(Context& c) {
  auto [x, q] = float_pair(c, "self", "other");
  c.result(hurwitz_zeta(c, x, q));
}

// By reflection below 1/2, then six steps up to where the asymptotic series holds.
NodeId trigamma(Context& c, NodeId x) {
  constexpr int kSteps = 6;
  constexpr double kSeries[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                5.0 / 66, -691.0 / 2730, 7.0 / 6};
  NodeId reflected = less(c, x, 0.5);
  NodeId y = c.b.select(reflected, sub(c, number_like(c, x, 1), x), x);
  NodeId sum = number_like(c, x, 0);
  for (int k = 0; k < kSteps; ++k) {
    sum = add(c, sum, over(c, 1, mul(c, y, y)));
    y = add(c, y, 1.0);
  }
  NodeId inverse = over(c, 1, y);
  NodeId square = mul(c, inverse, inverse);
  NodeId series = add(c, mul(c, inverse, 0.5), mul(c, square, polynomial(c, square, kSeries)));
  sum = add(c, sum, mul(c, inverse, add(c, series, 1.0)));
  NodeId cosecant = over(c, M_PI, c.b.unary(UnaryOp::kSin, mul(c, x, M_PI)));
  return c.b.select(reflected, sub(c, mul(c, cosecant, cosecant), sum), sum);
}

// (-1)^(n + 1) n! zeta(n + 1, x)
void polygamma(Context& c) {
  int64_t n = c.integer("n");
  NodeId x = float_tensor(c, "self");
  if (n < 0) c.refuse("a negative order");
  if (n == 0) return c.result(c.b.unary(UnaryOp::kDigamma, x));
  if (n == 1) return c.result(trigamma(c, x));
  auto order = static_cast<double>(n) + 1;
  NodeId value = hurwitz_zeta(c, number_like(c, x, order), x);
  double factorial = std::tgamma(order);
  c.result(mul(c, value, n % 2 == 1 ? factorial : -factorial));
}

}  // namespace

void add_special_functions_operators(OperatorTable* t) {
  t->add("aten.special_erfcx", erfcx);
  t->add("aten.special_ndtr", ndtr);
  t->add("aten.special_log_ndtr", log_ndtr);
  t->add("aten.special_ndtri", ndtri);
  t->add("aten.special_entr", entr);
  t->add("aten.special_xlog1py", xlog1py);
  t->add("aten.special_zeta", zeta);
  t->add("aten.polygamma", polygamma);
}

}  // namespace clients
