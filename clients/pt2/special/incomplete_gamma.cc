// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x).
//
// Four forms, each with a fixed number of steps, chosen element by element: the power series where
// x is below a, a continued fraction above, an alternating series for Q near zero, and Temme's
// uniform expansion where a is great and x is close to it. Step counts were found by comparing
// with many more steps over a from 1e-6 to 1e8: what they leave is below 1e-15 of the value, below
// 6e-9 for float32.
#include <cmath>
#include <iterator>
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/special/special_math.h"

namespace clients {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// log Gamma(1 + a) / a for a in [0, 2].
constexpr double kLogGamma[] = {
    -0.0555979016087626115,   0.451244249585358628,     -0.0575591323402752435,
    0.0101791736251421131,    -2.05700000821945995e-3,  4.46221845722570902e-4,
    -1.01055713893625111e-4,  2.35460677685484526e-5,   -5.59686398083596562e-6,
    1.35006023066577848e-6,   -3.29339982340272433e-7,  8.10574374071698752e-8,
    -2.00941881525489532e-8,  5.01122750710301951e-9,   -1.25606549994596582e-9,
    3.16202193519932572e-10,  -7.99018915034715095e-11, 2.02577723282330989e-11,
    -5.15118605686774788e-12, 1.3133163993292494e-12,   -3.35633153073655785e-13,
    8.59601507652978815e-14,  -2.20588670734028517e-14, 5.67088413923969383e-15,
    -1.46028192504095183e-15, 3.76604370394525982e-16,  -9.72629393681305211e-17,
    2.51523676168708707e-17,  -6.51239098702826407e-18, 1.68809472621770481e-18};
// Gamma(a) sqrt(a / (2 pi)) (e / a)^a for 10 / a in [0, 1].
constexpr double kGammaStar[] = {1.00417884524348399,      4.18276408740702144e-3,
                                 3.8343492813863761e-6,    -8.4536274695725873e-8,
                                 -2.65013521608453646e-11, 1.5074341427417633e-11,
                                 -6.39854554601418047e-14, -6.54897125329846363e-15,
                                 8.90187070178248087e-17,  4.79137637810493911e-18};
// (m - log(1 + m)) / m^2 for m in [-1/2, 5/8].
constexpr double kLog1pRest[] = {
    0.520166357142165968,     -0.197501457380168477,    0.0422325225415367222,
    -9.64245318856876699e-3,  2.29498254662830239e-3,   -5.62138356940903653e-4,
    1.40617494238955611e-4,   -3.57445665202469174e-5,  9.20196530558054229e-6,
    -2.39330881257514553e-6,  6.27751008291394602e-7,   -1.65827508339215985e-7,
    4.40704676444841858e-8,   -1.177327479137047e-8,    3.15945814350590268e-9,
    -8.51244300003666845e-10, 2.30156833379762513e-10,  -6.24245748583452874e-11,
    1.69788790936323976e-11,  -4.62982304770175861e-12, 1.26537352139906599e-12,
    -3.46563533129829186e-13, 9.5099662879763526e-14,   -2.61420034855665873e-14,
    7.19784300075738795e-15,  -1.9847972556503479e-15,  5.48065820718975854e-16,
    -1.51533828912478899e-16, 4.19477472759851028e-17,  -1.16250673606286978e-17,
    3.22506898967534197e-18};
// Taylor coefficients of c(k, eta) in DLMF 8.12.7 (dlmf.nist.gov), from the recurrence 8.12.11
// with the Stirling coefficients of Gamma, in exact fractions.
constexpr double kTemme0[] = {
    -0.33333333333333331,    0.083333333333333329,    -0.014814814814814815,
    0.0011574074074074073,   0.00035273368606701942,  -0.0001787551440329218,
    3.9192631785224377e-05,  -2.185448510679992e-06,  -1.85406221071516e-06,
    8.2967113409530865e-07,  -1.7665952736826078e-07, 6.7078535434014984e-09,
    1.0261809784240309e-08,  -4.3820360184533529e-09, 9.1476995822367902e-10,
    -2.5514193994946248e-11, -5.8307721325504256e-11, 2.4361948020667415e-11,
    -5.0276692801141755e-12, 1.1004392031956135e-13,  3.3717632624009851e-13,
    -1.3923887224181621e-13, 2.8534893807047445e-14};
constexpr double kTemme1[] = {
    -0.0018518518518518519,  -0.003472222222222222,   0.0026455026455026454,
    -0.00099022633744855963, 0.00020576131687242798,  -4.018775720164609e-07,
    -1.8098550334489977e-05, 7.6491609160811098e-06,  -1.6120900894563446e-06,
    4.647127802807434e-09,   1.3786334469157209e-07,  -5.7525456035177047e-08,
    1.1951628599778148e-08,  -1.7543241719747647e-11, -1.0091543710600413e-09,
    4.1627929918425828e-10,  -8.5639070264929801e-11, 6.0672151016047582e-14,
    7.1624989648114856e-12,  -2.9331866437714371e-12, 5.9966963656836885e-13};
constexpr double kTemme2[] = {
    0.0041335978835978834,   -0.0026813271604938273, 0.0007716049382716049,
    2.0093878600823047e-06,  -0.0001073665322636516, 5.2923448829120125e-05,
    -1.2760635188618728e-05, 3.4235787340961378e-08, 1.3721957309062934e-06,
    -6.2989921383800548e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
    -1.409252991086752e-08,  6.2289740849220218e-09, -1.3670488396617114e-09,
    9.428356159014678e-13,   1.2872252400089318e-10, -5.5645956134363323e-11,
    1.1975935546366981e-11};
constexpr double kTemme3[] = {
    0.00064943415637860077,  0.00022947209362139917,  -0.0004691894943952557,
    0.00026772063206283885,  -7.5618016718839766e-05, -2.3965051138672968e-07,
    1.1082654115347302e-05,  -5.6749528269915965e-06, 1.4230900732435883e-06,
    -2.7861080291528143e-11, -1.6958404091930278e-07, 8.0994649053880827e-08,
    -1.9111168485973655e-08, 2.3928620439808118e-12,  2.0620131815488797e-09,
    -9.460496661855133e-10,  2.1541049775774907e-10};
constexpr double kTemme4[] = {
    -0.00086188829091671173, 0.00078403922172006662,  -0.00029907248030319018,
    -1.4638452578843418e-06, 6.6414982154651219e-05,  -3.9683650471794347e-05,
    1.1375726970678419e-05,  2.5074972262375329e-10,  -1.6954149536558305e-06,
    8.9075075322053094e-07,  -2.2929348340008049e-07, 2.9567941375440492e-11,
    2.8865829742708783e-08,  -1.4189739437803219e-08, 3.4463580499464896e-09,
    -2.3024517174528067e-13, -3.9409233028046403e-10};
constexpr double kTemme5[] = {
    -0.00033679855336635813, -6.9728137583658571e-05, 0.00027727532449593918,
    -0.00019932570516188847, 6.797780477937208e-05,   1.4190629206439671e-07,
    -1.3594048189768693e-05, 8.018470256334202e-06,   -2.2914811765080952e-06,
    -3.2524735512984538e-10, 3.4652846491085265e-07,  -1.8447187191171344e-07,
    4.8240967037894184e-08,  -1.7989466721743514e-14, -6.3061945000135231e-09};
constexpr double kTemme6[] = {
    0.00053130793646399225,  -0.00059216643735369393, 0.0002708782096718045,
    7.9023532326603281e-07,  -8.1539693675619691e-05, 5.6116827531062497e-05,
    -1.8329116582843375e-05, -3.0796134506033047e-09, 3.4651553688036091e-06,
    -2.0291327396058603e-06, 5.7887928631490039e-07,  2.3386306738266568e-13,
    -8.828600746330484e-08,  4.7435958880408125e-08};
constexpr double kTemme7[] = {
    0.00034436760689237765, 5.1717909082605919e-05,  -0.00033493161081142234,
    0.00028126951547632369, -0.00010976582244684731, -1.2741009095484485e-07,
    2.7744451511563645e-05, -1.8263488805711332e-05, 5.7876949497350525e-06,
    4.9387589339362701e-10, -1.0595367014026043e-06, 6.1667143761104078e-07};
constexpr double kTemme8[] = {-0.00065262391859530937, 0.00083949872067208726,
                              -0.00043829709854172099, -6.9690914584205523e-07,
                              0.00016644846642067547,  -0.00012783517679769218,
                              4.6299532636913042e-05,  4.557909867922708e-09,
                              -1.0595271125805195e-05, 6.7833429048651668e-06};
constexpr double kTemme9[] = {
    -0.00059676129019274626, -7.2048954160200109e-05, 0.0006782308837667328,
    -0.0006401475260262758,  0.00027750107634328704,  1.8197008380465151e-07,
    -8.4795071170685031e-05, 6.1051920825015314e-05,  -2.1073920183404862e-05};
constexpr double kTemme10[] = {
    0.0013324454494800656,   -0.0019144384985654776, 0.0011089369134596636,  9.9324041226422995e-07,
    -0.00050874501293093194, 0.00042735056665392886, -0.00016858853767910798};

constexpr double kTemmeFrom = 20;
constexpr double kSmall = 2;

// A float, as numbers are to the builder: integers would name nodes.
double steps(Context& c, NodeId x, int narrow, int wide) {
  return c.b.dtype(x) == DType::kFloat64 ? wide : narrow;
}

NodeId exponential(Context& c, NodeId x) { return c.b.unary(UnaryOp::kExp, x); }
NodeId logarithm(Context& c, NodeId x) { return c.b.unary(UnaryOp::kLog, x); }

// What several forms need: where x lies relative to a.
struct Place {
  NodeId a, x;
  NodeId offset;  // x / a - 1
  NodeId near;    // (offset - log(1 + offset)) / offset^2, for offsets near zero
  NodeId depth;   // offset - log(1 + offset)
  NodeId close;   // the offset is near zero
};

Place place(Context& c, NodeId a, NodeId x) {
  NodeId offset = div(c, sub(c, x, a), a);
  NodeId near = chebyshev(c, offset, -0.5, 0.625, kLog1pRest);
  NodeId close = c.b.binary(BinaryOp::kAnd, less(c, offset, 0.6),
                            c.b.binary(BinaryOp::kLess, number_like(c, a, -0.5), offset));
  NodeId far = sub(c, offset, logarithm(c, div(c, x, a)));
  NodeId depth = c.b.select(close, mul(c, mul(c, offset, offset), near), far);
  return {a, x, offset, near, depth, close};
}

// x^a exp(-x) / Gamma(a)
NodeId prefactor(Context& c, const Place& p) {
  NodeId power = sub(c, mul(c, p.a, logarithm(c, p.x)), p.x);
  NodeId small = exponential(c, sub(c, power, c.b.unary(UnaryOp::kLgamma, p.a)));
  NodeId fall = exponential(c, c.b.unary(UnaryOp::kNeg, mul(c, p.a, p.depth)));
  NodeId root = c.b.unary(UnaryOp::kSqrt, mul(c, p.a, 0.5 * M_1_PI));
  NodeId great = div(c, mul(c, root, fall), chebyshev(c, over(c, 10, p.a), 0, 1, kGammaStar));
  return c.b.select(less(c, p.a, 10), small, great);
}

// P = prefactor / a (1 + x / (a + 1) (1 + x / (a + 2) (...)))
NodeId power_series(Context& c, const Place& p, NodeId factor) {
  NodeId sum = number_like(c, p.x, 1);
  for (double n = steps(c, p.x, 32, 52); n > 0; --n) {
    NodeId ratio = div(c, p.x, add(c, p.a, n));
    sum = add(c, mul(c, sum, ratio), 1.0);
  }
  return mul(c, factor, div(c, sum, p.a));
}

// Q = prefactor / (x - a + 1 - 1 (1 - a) / (x - a + 3 - 2 (2 - a) / (...))) (DLMF 8.9.2)
NodeId continued_fraction(Context& c, const Place& p, NodeId factor) {
  NodeId gap = sub(c, p.x, p.a);
  double last = steps(c, p.x, 16, 48);
  NodeId tail = add(c, gap, 2 * last + 1);
  for (double n = last; n > 0; --n) {
    NodeId numerator = mul(c, add(c, p.a, -n), n);
    tail = add(c, div(c, numerator, tail), add(c, gap, 2 * n - 1));
  }
  return div(c, factor, tail);
}

// Q for a and x up to 2, without the cancellation of 1 - P at small a:
// 1 - g - g sum of a (-x)^n / (n! (a + n)), where g = x^a / Gamma(1 + a).
NodeId alternating_series(Context& c, const Place& p) {
  NodeId log_gamma = chebyshev(c, p.a, 0, 2, kLogGamma);
  NodeId exponent = mul(c, p.a, sub(c, logarithm(c, p.x), log_gamma));
  NodeId sum = number_like(c, p.x, 0);
  NodeId power = number_like(c, p.x, 1);
  double factorial = 1;
  double last = steps(c, p.x, 16, 28);
  for (double n = 1; n <= last; ++n) {
    power = mul(c, power, p.x);
    factorial *= -n;
    sum = add(c, sum, mul(c, div(c, power, add(c, p.a, n)), 1 / factorial));
  }
  NodeId rest = mul(c, mul(c, exponential(c, exponent), p.a), sum);
  return c.b.unary(UnaryOp::kNeg, add(c, c.b.unary(UnaryOp::kExpm1, exponent), rest));
}

// Temme's expansion (DLMF 8.12.3, 8.12.4), for a above 20 and x close to a.
NodeId uniform_expansion(Context& c, const Place& p, bool upper) {
  constexpr std::span<const double> kRows[] = {kTemme0, kTemme1, kTemme2, kTemme3, kTemme4, kTemme5,
                                               kTemme6, kTemme7, kTemme8, kTemme9, kTemme10};
  NodeId eta = mul(c, p.offset, c.b.unary(UnaryOp::kSqrt, add(c, p.near, p.near)));
  NodeId inverse = over(c, 1, p.a);
  size_t row = static_cast<size_t>(steps(c, p.x, 5, static_cast<int>(std::size(kRows)))) - 1;
  NodeId sum = polynomial(c, eta, kRows[row]);
  while (row-- > 0) sum = add(c, mul(c, sum, inverse), polynomial(c, eta, kRows[row]));
  NodeId fall = exponential(c, c.b.unary(UnaryOp::kNeg, mul(c, p.a, p.depth)));
  NodeId rest = mul(c, mul(c, fall, sum), c.b.unary(UnaryOp::kSqrt, mul(c, inverse, 0.5 * M_1_PI)));
  NodeId z = mul(c, eta, c.b.unary(UnaryOp::kSqrt, mul(c, p.a, 0.5)));
  if (!upper) z = c.b.unary(UnaryOp::kNeg, z);
  NodeId main = mul(c, c.b.unary(UnaryOp::kErfc, z), 0.5);
  return upper ? add(c, main, rest) : sub(c, main, rest);
}

// NaN below zero and where the limit depends on the way; 0 and 1 at zeros and infinities.
NodeId at_the_edges(Context& c, NodeId a, NodeId x, NodeId value, bool upper) {
  double none = upper ? 1 : 0;
  value = patch(c, x, 0, none, value);
  value = patch(c, a, kInfinity, none, value);
  NodeId all = number_like(c, x, 1 - none);
  NodeId full = c.b.binary(BinaryOp::kOr, equal(c, a, 0), equal(c, x, kInfinity));
  NodeId undefined =
      c.b.binary(BinaryOp::kOr, c.b.binary(BinaryOp::kAnd, equal(c, a, 0), equal(c, x, 0)),
                 c.b.binary(BinaryOp::kAnd, equal(c, a, kInfinity), equal(c, x, kInfinity)));
  value = c.b.select(full, all, value);
  NodeId zero = number_like(c, x, 0);
  NodeId defined = c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kLessEqual, zero, a),
                              c.b.binary(BinaryOp::kLessEqual, zero, x));
  defined = c.b.binary(BinaryOp::kAnd, defined, logical_not(c, undefined));
  return c.b.select(defined, value, number_like(c, x, NAN));
}

NodeId one_minus(Context& c, NodeId x) { return sub(c, number_like(c, x, 1), x); }

NodeId at_most(Context& c, NodeId x, double bound) {
  return c.b.binary(BinaryOp::kLessEqual, x, number_like(c, x, bound));
}

template <bool upper>
void incomplete_gamma(Context& c) {
  auto [a, x] = float_pair(c, "self", "other");
  Place p = place(c, a, x);
  NodeId factor = prefactor(c, p);
  NodeId series = power_series(c, p, factor);
  NodeId fraction = continued_fraction(c, p, factor);
  NodeId below = c.b.binary(BinaryOp::kLessEqual, x, a);
  NodeId small = at_most(c, x, kSmall);
  NodeId value = 0;
  if (upper) {
    value = c.b.select(below, one_minus(c, series), fraction);
    NodeId both = c.b.binary(BinaryOp::kAnd, small, at_most(c, a, kSmall));
    value = c.b.select(both, alternating_series(c, p), value);
  } else {
    NodeId by_series = c.b.binary(BinaryOp::kOr, below, small);
    value = c.b.select(by_series, series, one_minus(c, fraction));
  }
  NodeId great = c.b.binary(BinaryOp::kLess, number_like(c, a, kTemmeFrom), a);
  NodeId uniform = c.b.binary(BinaryOp::kAnd, great, p.close);
  value = c.b.select(uniform, uniform_expansion(c, p, upper), value);
  c.result(at_the_edges(c, a, x, value, upper));
}

}  // namespace

void add_incomplete_gamma_operators(OperatorTable* t) {
  t->add("aten.igamma", incomplete_gamma<false>);
  t->add("aten.igammac", incomplete_gamma<true>);
}

}  // namespace clients
