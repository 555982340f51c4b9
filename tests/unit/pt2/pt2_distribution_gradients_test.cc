// Gradients of random numbers to the parameters of their distribution, against derivatives of the
// distribution functions with 30 digits. If these fail, models train their distributions wrongly.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/pt2/pt2_program.h"

namespace clients {
namespace {

using common::DType;
using common::HostTensor;
using pt2_test::Program;

struct Given {
  std::string name;
  std::vector<double> values;
};

HostTensor tensor_of(DType dtype, const std::vector<double>& values) {
  auto out = HostTensor::zeros(dtype, {static_cast<int64_t>(values.size())}).value();
  for (size_t k = 0; k < values.size(); ++k) out.set(static_cast<int64_t>(k), values[k]);
  return out;
}

std::vector<double> gradient(const std::string& target, const std::vector<Given>& given,
                             ScalarType type) {
  DType dtype = type == ScalarType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Program p;
  std::vector<NamedArgument> arguments;
  std::vector<HostTensor> tensors;
  auto count = static_cast<int64_t>(given[0].values.size());
  for (const Given& one : given) {
    p.input(one.name, {count}, type);
    arguments.push_back({one.name, TensorArgument{one.name}});
    tensors.push_back(tensor_of(dtype, one.values));
  }
  p.tensor("result", {count}, type).node(target, arguments, "result").output("result");
  auto model = translate(p.get());
  EXPECT_TRUE(model.ok()) << model.error().message;
  std::vector<double> out;
  HostTensor result = pt2_test::run(*model, tensors)[0];
  for (int64_t k = 0; k < result.elements(); ++k) out.push_back(result.get(k));
  return out;
}

struct GammaRow {
  double a, x, expected;
};
constexpr GammaRow kGamma[] = {
    {0.01, 1e-06, 0.0013254639203790098}, {0.5, 0.2, 0.7940505663308434},
    {1.0, 1.0, 1.1735630272247268},       {1.0, 5.0, 2.3570757536203653},
    {3.0, 0.5, 0.37617535631048193},      {3.0, 9.0, 1.7397554120638796},
    {20.0, 20.0, 1.0083737883634059},     {20.0, 35.0, 1.316605387285306},
    {1000.0, 950.0, 0.9747350236971637}};

struct BetaRow {
  double x, a, b, expected;
};
constexpr BetaRow kBeta[] = {
    {0.3, 0.5, 0.5, 1.3220415512632513},        {0.9, 2.0, 1.0, 0.47412232046021835},
    {0.0001, 0.1, 3.0, 0.007827429995525895},   {0.5, 4.0, 4.0, 0.13591490158930833},
    {0.02, 40.0, 900.0, 0.0007154105131896811}, {0.999, 5.0, 0.05, 0.2199981726946824},
    {0.7, 0.2, 8.0, 0.8462546797392683}};

TEST(DistributionGradients, GammaNumbersFollowTheirShape) {
  Given a{"self", {}}, x{"output", {}};
  for (const GammaRow& row : kGamma) {
    a.values.push_back(row.a);
    x.values.push_back(row.x);
  }
  for (ScalarType type : {ScalarType::kFloat64, ScalarType::kFloat32}) {
    auto got = gradient("aten._standard_gamma_grad.default", {a, x}, type);
    for (size_t k = 0; k < std::size(kGamma); ++k) {
      double expected = kGamma[k].expected;
      EXPECT_NEAR(got[k], expected, 5e-5 * expected) << kGamma[k].a << " at " << kGamma[k].x;
    }
  }
}

TEST(DistributionGradients, BetaNumbersFollowTheirFirstParameter) {
  Given x{"x", {}}, a{"alpha", {}}, total{"total", {}};
  for (const BetaRow& row : kBeta) {
    x.values.push_back(row.x);
    a.values.push_back(row.a);
    total.values.push_back(row.a + row.b);
  }
  for (ScalarType type : {ScalarType::kFloat64, ScalarType::kFloat32}) {
    auto got = gradient("aten._dirichlet_grad.default", {x, a, total}, type);
    for (size_t k = 0; k < std::size(kBeta); ++k) {
      double expected = kBeta[k].expected;
      EXPECT_NEAR(got[k], expected, 1e-4 * expected) << kBeta[k].a << " at " << kBeta[k].x;
    }
  }
}

TEST(DistributionGradients, NumbersAtTheEndsOfTheirRangeStay) {
  Given a{"self", {0.1}}, zero{"output", {0}};
  auto type = ScalarType::kFloat32;
  EXPECT_EQ(gradient("aten._standard_gamma_grad.default", {a, zero}, type)[0], 0);
  std::vector<Given> given = {{"x", {0, 1}}, {"alpha", {0.1, 0.1}}, {"total", {0.3, 0.3}}};
  EXPECT_EQ(gradient("aten._dirichlet_grad.default", given, type), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace clients
