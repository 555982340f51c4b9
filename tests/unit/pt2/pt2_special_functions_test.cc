// Special functions against values that tables, identities or a few steps by hand give. Tables are
// those of Abramowitz & Stegun, Handbook of Mathematical Functions (A&S); where they print fewer
// digits than stand here, the further ones come from 40-digit arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/pt2/pt2_program.h"

namespace clients {
namespace {

using common::DType;
using common::HostTensor;
using pt2_test::Program;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kZeta3 = 1.2020569031595942;

struct Input {
  std::string name;
  std::vector<double> values;
};

HostTensor tensor_of(DType dtype, const std::vector<double>& values) {
  auto out = HostTensor::zeros(dtype, {static_cast<int64_t>(values.size())}).value();
  for (size_t i = 0; i < values.size(); ++i) {
    out.set(static_cast<int64_t>(i), values[i]);
  }
  return out;
}

common::Result<Model> model_of(const std::string& target, const std::vector<Input>& inputs,
                               const std::vector<NamedArgument>& numbers, ScalarType type,
                               ScalarType result) {
  Program p;
  std::vector<NamedArgument> arguments = numbers;
  auto count = static_cast<int64_t>(inputs[0].values.size());
  for (const Input& input : inputs) {
    p.input(input.name, {count}, type);
    arguments.push_back({input.name, TensorArgument{input.name}});
  }
  p.tensor("result", {count}, result).node("aten." + target, arguments, "result").output("result");
  return translate(p.get());
}

// The operator's values; tensors and result are of the two dtypes.
std::vector<double> evaluate(const std::string& target, const std::vector<Input>& inputs,
                             const std::vector<NamedArgument>& numbers = {},
                             DType dtype = DType::kFloat64, ScalarType type = ScalarType::kFloat64,
                             ScalarType result = ScalarType::kFloat64) {
  auto model = model_of(target, inputs, numbers, type, result);
  EXPECT_TRUE(model.ok()) << target << ": " << (model.ok() ? "" : model.error().message);
  if (!model.ok()) return std::vector<double>(inputs[0].values.size(), NAN);
  std::vector<HostTensor> tensors;
  for (const Input& input : inputs) tensors.push_back(tensor_of(dtype, input.values));
  std::vector<double> out;
  HostTensor values = pt2_test::run(*model, tensors)[0];
  for (int64_t i = 0; i < values.elements(); ++i) out.push_back(values.get(i));
  return out;
}

void expect_close(const std::string& target, double at, double value, double expected,
                  double tolerance) {
  EXPECT_NEAR(value, expected, tolerance * std::max(std::abs(expected), 1e-30))
      << target << " at " << at;
}

struct Row {
  const char* target;
  const char* argument;
  double x;
  double expected;
};

class Values : public testing::TestWithParam<Row> {};
TEST_P(Values, InBothPrecisions) {
  const auto& [target, argument, x, expected] = GetParam();
  std::string name = std::string(target) + ".default";
  expect_close(name, x, evaluate(name, {{argument, {x}}})[0], expected, 1e-13);
  double narrow = evaluate(name, {{argument, {x}}}, {}, DType::kFloat32, ScalarType::kFloat32,
                           ScalarType::kFloat32)[0];
  expect_close(name, x, narrow, expected, 3e-6);
}

// A&S table 9.1.
INSTANTIATE_TEST_SUITE_P(
    BesselJY, Values,
    testing::Values(Row{"special_bessel_j0", "self", 2, 0.22389077914123567},
                    Row{"special_bessel_j0", "self", -10, -0.24593576445134834},
                    Row{"special_bessel_j1", "self", 2, 0.57672480775687339},
                    Row{"special_bessel_j1", "self", -10, -0.043472746168861437},
                    Row{"special_bessel_y0", "self", 2, 0.51037567264974512},
                    Row{"special_bessel_y0", "self", 10, 0.055671167283599391},
                    Row{"special_bessel_y1", "self", 2, -0.10703243154093755},
                    Row{"special_bessel_y1", "self", 10, 0.24901542420695388}));

// A&S table 9.8, and by its factors exp(x) the functions that are not scaled.
INSTANTIATE_TEST_SUITE_P(
    BesselIK, Values,
    testing::Values(Row{"special_i0e", "self", 1, 0.46575960759364043},
                    Row{"special_i0e", "self", -10, 0.12783333716342861},
                    Row{"special_i1e", "self", 1, 0.20791041534970845},
                    Row{"special_i1e", "self", -10, -0.12126268138445552},
                    Row{"i0", "self", 1, 1.2660658777520083},
                    Row{"special_i0", "self", 10, 2815.7166284662544},
                    Row{"special_i1", "self", 1, 0.56515910399248503},
                    Row{"special_modified_bessel_i0", "self", 10, 2815.7166284662544},
                    Row{"special_modified_bessel_i1", "self", 10, 2670.9883037012546},
                    Row{"special_modified_bessel_k0", "self", 1, 0.42102443824070833},
                    Row{"special_modified_bessel_k0", "self", 10, 1.778006231616765e-05},
                    Row{"special_modified_bessel_k1", "self", 1, 0.60190723019723458},
                    Row{"special_modified_bessel_k1", "self", 10, 1.8648773453825584e-05},
                    Row{"special_scaled_modified_bessel_k0", "x", 1, 1.1444630798068948},
                    Row{"special_scaled_modified_bessel_k0", "x", 10, 0.39163193443659868},
                    Row{"special_scaled_modified_bessel_k1", "x", 1, 1.6361534862632582},
                    Row{"special_scaled_modified_bessel_k1", "x", 10, 0.41076657059578884}));

// A&S table 10.11; sin(x) / x at pi / 2.
INSTANTIATE_TEST_SUITE_P(Airy, Values,
                         testing::Values(Row{"special_airy_ai", "x", 0, 0.35502805388781722},
                                         Row{"special_airy_ai", "x", 1, 0.13529241631288141},
                                         Row{"special_airy_ai", "x", 5, 1.083444281360744e-4},
                                         Row{"special_airy_ai", "x", -5, 0.35076100902411429},
                                         Row{"special_spherical_bessel_j0", "x", M_PI / 2,
                                             2 / M_PI}));

// A&S tables 7.1, 26.1, 26.2 and 26.5.
INSTANTIATE_TEST_SUITE_P(Normal, Values,
                         testing::Values(Row{"special_erfcx", "self", 1, 0.42758357615580700},
                                         Row{"special_erfcx", "self", 10, 0.056140992743822586},
                                         Row{"special_erfcx", "self", -1, 5.0089800807622832},
                                         Row{"special_ndtr", "self", 2, 0.97724986805182079},
                                         Row{"special_ndtr", "self", -2, 0.022750131948179207},
                                         Row{"special_log_ndtr", "self", -10, -53.231285150512476},
                                         Row{"special_log_ndtr", "self", 1, -0.17275377902344989},
                                         Row{"special_ndtri", "self", 0.75, 0.67448975019608174},
                                         Row{"special_ndtri", "self", 0.03125, -1.8627318674216515},
                                         Row{"special_ndtri", "self", 1e-30, -11.464024688443615},
                                         Row{"special_entr", "self", M_E, -M_E},
                                         Row{"special_entr", "self", 0.5, M_LN2 / 2}));

TEST(SpecialFunctions, PolesZerosAndWhatIsUndefined) {
  auto at = [](const std::string& target, double x, const char* argument = "self") {
    return evaluate(target + ".default", {{argument, {x}}})[0];
  };
  EXPECT_EQ(at("special_bessel_y0", 0), -kInfinity);
  EXPECT_EQ(at("special_bessel_y1", 0), -kInfinity);
  EXPECT_TRUE(std::isnan(at("special_bessel_y0", -1)));
  EXPECT_EQ(at("special_modified_bessel_k0", 0), kInfinity);
  EXPECT_EQ(at("special_modified_bessel_k1", 0), kInfinity);
  EXPECT_TRUE(std::isnan(at("special_modified_bessel_k1", -1)));
  EXPECT_EQ(at("special_spherical_bessel_j0", 0, "x"), 1);
  EXPECT_EQ(at("special_spherical_bessel_j0", kInfinity, "x"), 0);
  EXPECT_EQ(at("special_ndtri", 0), -kInfinity);
  EXPECT_EQ(at("special_ndtri", 1), kInfinity);
  EXPECT_TRUE(std::isnan(at("special_ndtri", 1.5)));
  EXPECT_EQ(at("special_entr", 0), 0);
  EXPECT_EQ(at("special_entr", -1), -kInfinity);
  EXPECT_EQ(at("special_erfcx", kInfinity), 0);
  EXPECT_EQ(at("special_log_ndtr", -kInfinity), -kInfinity);
}

TEST(SpecialFunctions, IntegersAreComputedInFloat32) {
  auto at = [](const char* target, double x) {
    return evaluate(target, {{"self", {x}}}, {}, DType::kInt32, ScalarType::kInt32,
                    ScalarType::kFloat32)[0];
  };
  EXPECT_EQ(at("special_ndtr.default", 0), 0.5);
  EXPECT_NEAR(at("special_bessel_j0.default", 2), 0.22389078, 1e-7);
}

TEST(SpecialFunctions, HalfTypesRoundOnce) {
  double x = evaluate("special_i0e.default", {{"self", {1}}}, {}, DType::kBfloat16,
                      ScalarType::kBfloat16, ScalarType::kBfloat16)[0];
  EXPECT_EQ(x, 0.46484375) << "the bfloat16 next to 0.46575960759364043";
}

TEST(SpecialFunctions, LogarithmTimesZeroIsZero) {
  auto out = evaluate("special_xlog1py.default",
                      {{"self", {0, 2, 0, 1}}, {"other", {-1, M_E - 1, NAN, -1}}});
  EXPECT_EQ(out[0], 0);
  EXPECT_NEAR(out[1], 2, 1e-15);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], -kInfinity);
  EXPECT_NEAR(evaluate("special_xlog1py.other_scalar", {{"self", {3}}}, {{"other", 1.0}})[0],
              3 * M_LN2, 1e-15);
}

// A&S 23.2: zeta(2) = pi^2 / 6, zeta(4) = pi^4 / 90, and with q = 1/2 a factor 2^s - 1; one step
// down adds q^-s.
TEST(SpecialFunctions, HurwitzZeta) {
  double four = std::pow(M_PI, 4) / 90;
  std::vector<double> s = {2, 3, 4, 4, 4, 3, 2, 1, 0.5, 2.5, 2, 2};
  std::vector<double> q = {1, 1, 1, 0.5, -0.5, -0.5, 0.5, 3, 3, -0.5, -3, 0};
  auto out = evaluate("special_zeta.default", {{"self", s}, {"other", q}});
  std::vector<double> expected = {M_PI * M_PI / 6, kZeta3,         four,           15 * four,
                                  15 * four + 16,  7 * kZeta3 - 8, M_PI * M_PI / 2};
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_close("special_zeta", q[i], out[i], expected[i], 1e-13);
  }
  EXPECT_EQ(out[7], kInfinity);
  EXPECT_TRUE(std::isnan(out[8]));
  EXPECT_TRUE(std::isnan(out[9]));
  EXPECT_EQ(out[10], kInfinity);
  EXPECT_EQ(out[11], kInfinity);
  double far = evaluate("special_zeta.self_scalar", {{"other", {-100.5}}}, {{"self", 2.0}})[0];
  double sum = M_PI * M_PI / 2;
  for (double k = 0.5; k < 101; ++k) sum += 1 / (k * k);
  expect_close("special_zeta", -100.5, far, sum, 1e-13);
}

// A&S 6.4: values at 1 and 1/2, and steps of n! x^-(n+1).
TEST(SpecialFunctions, Polygamma) {
  auto at = [](int64_t n, double x) {
    return evaluate("polygamma.default", {{"self", {x}}}, {{"n", n}})[0];
  };
  expect_close("polygamma 0", 1, at(0, 1), -0.57721566490153286, 1e-13);
  expect_close("polygamma 1", 1, at(1, 1), M_PI * M_PI / 6, 1e-13);
  expect_close("polygamma 1", 0.5, at(1, 0.5), M_PI * M_PI / 2, 1e-13);
  expect_close("polygamma 1", -0.5, at(1, -0.5), M_PI * M_PI / 2 + 4, 1e-13);
  expect_close("polygamma 2", 1, at(2, 1), -2 * kZeta3, 1e-13);
  expect_close("polygamma 2", -0.5, at(2, -0.5), 16 - 14 * kZeta3, 1e-12);
  expect_close("polygamma 3", 1, at(3, 1), std::pow(M_PI, 4) / 15, 1e-13);
  EXPECT_EQ(at(2, -1), -kInfinity);
  auto negative = model_of("polygamma.default", {{"self", {1}}}, {{"n", int64_t{-1}}},
                           ScalarType::kFloat64, ScalarType::kFloat64);
  EXPECT_FALSE(negative.ok());
}

// For whole a, Q is a sum of Poisson's probabilities (A&S 6.5.13): each of the forms has its rows.
TEST(SpecialFunctions, IncompleteGammaOfWholeA) {
  std::vector<double> a = {1, 1, 2, 3, 9, 9, 15, 19, 25, 50, 100, 100, 40, 40};
  std::vector<double> x = {0.5, 7, 1.5, 2, 12, 4, 15, 21, 24, 60, 100, 75, 100, 10};
  auto q = evaluate("special_gammaincc.default", {{"self", a}, {"other", x}});
  auto p = evaluate("special_gammainc.default", {{"self", a}, {"other", x}});
  for (size_t i = 0; i < a.size(); ++i) {
    double upper = 0;
    double lower = 0;
    double term = std::exp(-x[i]);
    for (int k = 0; k < 400; ++k) {
      (k < a[i] ? upper : lower) += term;
      term *= x[i] / (k + 1);
    }
    expect_close("gammaincc", a[i], q[i], upper, 1e-12);
    expect_close("gammainc", a[i], p[i], lower, 1e-12);
  }
}

TEST(SpecialFunctions, IncompleteGammaOfAHalfIsTheErrorFunction) {
  std::vector<double> x = {1e-6, 0.25, 1, 1.9, 2.1, 4, 20};
  std::vector<double> half(x.size(), 0.5);
  auto p = evaluate("igamma.default", {{"self", half}, {"other", x}});
  auto q = evaluate("igammac.default", {{"self", half}, {"other", x}});
  for (size_t i = 0; i < x.size(); ++i) {
    expect_close("igamma", x[i], p[i], std::erf(std::sqrt(x[i])), 1e-13);
    expect_close("igammac", x[i], q[i], std::erfc(std::sqrt(x[i])), 1e-13);
  }
}

TEST(SpecialFunctions, IncompleteGammaAtItsEdges) {
  std::vector<double> a = {0, 0, 1, kInfinity, kInfinity, 2, -1, 1};
  std::vector<double> x = {0, 1, 0, kInfinity, 3, kInfinity, 1, -1};
  auto p = evaluate("igamma.default", {{"self", a}, {"other", x}});
  std::vector<double> expected = {NAN, 1, 0, NAN, 0, 1, NAN, NAN};
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::isnan(p[i]), std::isnan(expected[i])) << i;
    if (!std::isnan(expected[i])) {
      EXPECT_EQ(p[i], expected[i]) << i;
    }
  }
}

struct Polynomial {
  const char* name;
  double n, x, expected;
};
// By the explicit forms of low degrees (A&S table 22.3 to 22.12), and by the integer recurrence.
constexpr Polynomial kPolynomials[] = {
    {"chebyshev_polynomial_t", 3, 0.5, -1},
    {"chebyshev_polynomial_t", 12, 2, 3650401},
    {"chebyshev_polynomial_t", 9, -2, -70226},
    {"chebyshev_polynomial_u", 3, 0.5, -1},
    {"chebyshev_polynomial_u", 12, 2, 7865521},
    {"chebyshev_polynomial_u", 9, -1, -10},
    {"chebyshev_polynomial_v", 2, 0.5, -1},
    {"chebyshev_polynomial_v", 12, 2, 5757961},
    {"chebyshev_polynomial_v", 9, -2, -191861},
    {"chebyshev_polynomial_w", 2, 0.5, 1},
    {"chebyshev_polynomial_w", 12, 2, 9973081},
    {"chebyshev_polynomial_w", 9, -2, -110771},
    {"shifted_chebyshev_polynomial_t", 2, 2, 17},
    {"shifted_chebyshev_polynomial_u", 2, 2, 35},
    {"shifted_chebyshev_polynomial_v", 12, 0, 25},
    {"shifted_chebyshev_polynomial_w", 12, 0, 1},
    {"hermite_polynomial_h", 4, 2, 76},
    {"hermite_polynomial_h", 2.9, 3, 34},
    {"hermite_polynomial_he", 4, 2, -5},
    {"hermite_polynomial_he", -1, 2, 0},
};

TEST(SpecialFunctions, PolynomialsOfTensorAndOfConstantDegree) {
  for (const Polynomial& row : kPolynomials) {
    std::string target = std::string("special_") + row.name;
    double by_tensor = evaluate(target + ".default", {{"x", {row.x}}, {"n", {row.n}}})[0];
    double by_number = evaluate(target + ".n_scalar", {{"x", {row.x}}}, {{"n", row.n}})[0];
    EXPECT_NEAR(by_tensor, row.expected, 1e-13 * std::abs(row.expected)) << target << row.n;
    EXPECT_NEAR(by_number, row.expected, 1e-13 * std::abs(row.expected)) << target << row.n;
  }
}

TEST(SpecialFunctions, PolynomialsOfANumberAtDegreesOfATensor) {
  auto t =
      evaluate("special_chebyshev_polynomial_t.x_scalar", {{"n", {0, 1, 2, 3, -1}}}, {{"x", 2.0}});
  EXPECT_EQ(t, (std::vector<double>{1, 2, 7, 26, 0}));
  auto above = evaluate("special_hermite_polynomial_h.default", {{"x", {1}}, {"n", {513}}});
  EXPECT_TRUE(std::isnan(above[0])) << "PyTorch ends at 512";
}

// T(n, cos t) = cos(n t), however great n is.
TEST(SpecialFunctions, ChebyshevPolynomialsOfGreatDegree) {
  double x = std::cos(0.7);
  auto at = [&](const char* kind) {
    return evaluate(std::string("special_chebyshev_polynomial_") + kind + ".default",
                    {{"x", {x}}, {"n", {1000}}})[0];
  };
  EXPECT_NEAR(at("t"), std::cos(700.0), 1e-12);
  EXPECT_NEAR(at("u"), std::sin(700.7) / std::sin(0.7), 1e-12);
  EXPECT_NEAR(at("v"), std::cos(700.35) / std::cos(0.35), 1e-12);
  EXPECT_NEAR(at("w"), std::sin(700.35) / std::sin(0.35), 1e-12);
}

TEST(SpecialFunctions, DegreesWithoutABoundAreRefused) {
  struct Known {
    const char* target;
    double x, expected;
  };
  // L3 = (6 - 18 x + 9 x^2 - x^3) / 6, P3 = (5 x^3 - 3 x) / 2.
  for (const Known& row : {Known{"special_laguerre_polynomial_l", 1, -2.0 / 3},
                           Known{"special_legendre_polynomial_p", 2, 17}}) {
    std::string target = row.target;
    double known = evaluate(target + ".n_scalar", {{"x", {row.x}}}, {{"n", int64_t{3}}})[0];
    EXPECT_NEAR(known, row.expected, 1e-14);
    double bounded = evaluate(target + ".default", {{"x", {row.x}}, {"n", {3}}}, {}, DType::kInt8,
                              ScalarType::kInt8, ScalarType::kFloat32)[0];
    EXPECT_NEAR(bounded, row.expected, 1e-6);
    auto unbounded = model_of(target + ".default", {{"x", {1}}, {"n", {3}}}, {},
                              ScalarType::kFloat32, ScalarType::kFloat32);
    ASSERT_FALSE(unbounded.ok());
    EXPECT_NE(unbounded.error().message.find("degree"), std::string::npos)
        << unbounded.error().message;
  }
}

}  // namespace
}  // namespace clients
