// Matrix factorisations: if these fail, factors do not multiply to the matrix that they are of, at
// sizes and ranks that PyTorch's samples do not have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/base/cat.h"
#include "tests/unit/pt2/pt2_program.h"

namespace {

using clients::NamedArgument;
using clients::ScalarType;
using clients::TensorArgument;
using common::DType;
using common::HostTensor;
using pt2_test::Program;

constexpr double kClose = 1e-12;

// A float64 matrix of one batch.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

Matrix made(int64_t rows, int64_t columns, const std::function<double(int64_t, int64_t)>& value) {
  Matrix out{rows, columns, {}};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) out.values.push_back(value(i, j));
  }
  return out;
}
// Without structure, and the same everywhere.
Matrix any(int64_t rows, int64_t columns) {
  uint64_t state = 1;
  return made(rows, columns, [&](int64_t, int64_t) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 40) / (1 << 23) - 1;
  });
}
Matrix transposed(const Matrix& a) {
  return made(a.columns, a.rows, [&](int64_t i, int64_t j) { return a.at(j, i); });
}
Matrix operator*(const Matrix& a, const Matrix& b) {
  return made(a.rows, b.columns, [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < a.columns; ++k) sum += a.at(i, k) * b.at(k, j);
    return sum;
  });
}
Matrix symmetric(int64_t n) {
  Matrix a = any(n, n);
  return made(n, n, [&](int64_t i, int64_t j) { return a.at(i, j) + a.at(j, i); });
}
Matrix unit(int64_t n) {
  return made(n, n, [](int64_t i, int64_t j) { return i == j ? 1.0 : 0.0; });
}
Matrix diagonal(const Matrix& line) {
  int64_t n = static_cast<int64_t>(line.values.size());
  return made(n, n, [&](int64_t i, int64_t j) {
    return i == j ? line.values[static_cast<size_t>(i)] : 0.0;
  });
}
void expect_equal(const Matrix& a, const Matrix& b, double tolerance = kClose) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t k = 0; k < a.values.size(); ++k)
    ASSERT_NEAR(a.values[k], b.values[k], tolerance) << k;
}

using Sizes = std::vector<std::vector<int64_t>>;

// A program of one operator on one or two matrices, its results of these sizes.
Program program(const std::string& target, const std::vector<Matrix>& inputs,
                std::vector<NamedArgument> arguments, const Sizes& results) {
  Program p;
  const char* names[] = {"self", "B"};
  std::vector<NamedArgument> all;
  for (size_t k = 0; k < inputs.size(); ++k) {
    std::string name = common::cat("x", k);
    p.input(name, {inputs[k].rows, inputs[k].columns}, ScalarType::kFloat64);
    all.push_back({names[k], TensorArgument{name}});
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  for (size_t k = 0; k < results.size(); ++k) {
    p.tensor(common::cat("y", k), results[k], ScalarType::kFloat64);
  }
  p.node("aten." + target, all, "y0");
  for (size_t k = 1; k < results.size(); ++k) p.second_output(common::cat("y", k));
  for (size_t k = 0; k < results.size(); ++k) p.output(common::cat("y", k));
  return p;
}

std::vector<Matrix> results(const std::string& target, const std::vector<Matrix>& inputs,
                            const Sizes& sizes, std::vector<NamedArgument> arguments = {}) {
  auto model = clients::translate(program(target, inputs, std::move(arguments), sizes).get());
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  if (!model.ok()) return {};
  std::vector<HostTensor> given;
  for (const Matrix& input : inputs) {
    common::ByteView bytes{reinterpret_cast<const std::byte*>(input.values.data()),
                           input.values.size() * sizeof(double)};
    given.push_back(
        HostTensor::copy_of(DType::kFloat64, {input.rows, input.columns}, bytes).value());
  }
  std::vector<Matrix> out;
  for (const HostTensor& tensor : pt2_test::run(*model, given)) {
    bool line = tensor.sizes().size() == 1;
    Matrix matrix{line ? 1 : tensor.sizes()[0], tensor.sizes().back(), {}};
    for (int64_t k = 0; k < tensor.elements(); ++k) matrix.values.push_back(tensor.get(k));
    out.push_back(std::move(matrix));
  }
  return out;
}

class Shapes : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(Shapes, LuFactorsMultiplyToTheMatrix) {
  auto [m, n] = GetParam();
  int64_t r = std::min(m, n);
  // A corner of zero asks for a pivot.
  Matrix a = any(m, n);
  a.values[0] = 0;
  auto out = results("linalg_lu.default", {a}, {{m, m}, {m, r}, {r, n}});
  ASSERT_EQ(out.size(), 3U);
  expect_equal(out[0] * out[1] * out[2], a);
  for (double factor : out[1].values) EXPECT_LE(std::abs(factor), 1);
}

TEST_P(Shapes, QrFactorsMultiplyToTheMatrix) {
  auto [m, n] = GetParam();
  int64_t r = std::min(m, n);
  Matrix a = any(m, n);
  for (auto [mode, k] : {std::pair{"reduced", r}, std::pair{"complete", m}}) {
    auto out = results("linalg_qr.default", {a}, {{m, k}, {k, n}}, {{"mode", std::string(mode)}});
    ASSERT_EQ(out.size(), 2U);
    expect_equal(out[0] * out[1], a);
    expect_equal(transposed(out[0]) * out[0], unit(k));
  }
}

void expect_singular_factors(const Matrix& a) {
  int64_t m = a.rows, n = a.columns, r = std::min(m, n);
  auto out = results("_linalg_svd.default", {a}, {{m, r}, {r}, {r, n}});
  ASSERT_EQ(out.size(), 3U);
  expect_equal(out[0] * diagonal(out[1]) * out[2], a);
  expect_equal(transposed(out[0]) * out[0], unit(r));
  expect_equal(out[2] * transposed(out[2]), unit(r));
  for (size_t k = 1; k < out[1].values.size(); ++k) {
    EXPECT_LE(out[1].values[k], out[1].values[k - 1]);
  }
}

TEST_P(Shapes, SingularFactorsMultiplyToTheMatrix) {
  auto [m, n] = GetParam();
  expect_singular_factors(any(m, n));
}

INSTANTIATE_TEST_SUITE_P(Linalg, Shapes,
                         testing::Values(std::pair{1, 1}, std::pair{2, 2}, std::pair{3, 1},
                                         std::pair{1, 4}, std::pair{7, 5}, std::pair{5, 8},
                                         std::pair{24, 24}),
                         [](const auto& info) {
                           return common::cat(info.param.first, "x", info.param.second);
                         });

// Of rank two: the other singular values are rounding, their vectors still orthonormal.
TEST(Linalg, SingularVectorsOfARankDeficientMatrixAreOrthonormal) {
  expect_singular_factors(any(6, 2) * any(2, 5));
  expect_singular_factors(made(4, 4, [](int64_t, int64_t) { return 0.0; }));
}

TEST(Linalg, EigenvectorsDiagonaliseASymmetricMatrix) {
  for (int64_t n : {1, 2, 3, 8, 33}) {
    Matrix a = symmetric(n);
    auto out = results("_linalg_eigh.default", {a}, {{n}, {n, n}});
    ASSERT_EQ(out.size(), 2U);
    expect_equal(out[1] * diagonal(out[0]) * transposed(out[1]), a);
    expect_equal(transposed(out[1]) * out[1], unit(n));
  }
}

TEST(Linalg, SolvesFromEitherSide) {
  Matrix a = any(9, 9), b = any(9, 4);
  auto left = results("linalg_solve.default", {a, b}, {{9, 4}});
  ASSERT_EQ(left.size(), 1U);
  expect_equal(a * left[0], b, 1e-11);
  auto right = results("linalg_solve.default", {a, transposed(b)}, {{4, 9}}, {{"left", false}});
  ASSERT_EQ(right.size(), 1U);
  expect_equal(right[0] * a, transposed(b), 1e-11);
}

// exp(A) exp(-A) = 1, also where the norm takes squarings.
TEST(Linalg, ExponentialsOfOppositesAreInverses) {
  Matrix a = any(5, 5);
  for (double scale : {0.1, 1.0, 4.0}) {
    auto scaled = [&](double by) {
      return made(5, 5, [&](int64_t i, int64_t j) { return by * a.at(i, j); });
    };
    Matrix up = results("linalg_matrix_exp.default", {scaled(scale)}, {{5, 5}})[0];
    Matrix down = results("linalg_matrix_exp.default", {scaled(-scale)}, {{5, 5}})[0];
    expect_equal(up * down, unit(5), 1e-9);
  }
}

TEST(Linalg, MatricesOfTooManyRowsAreRefused) {
  Program p;
  p.input("x", {5000, 5000}).tensor("y", {5000, 5000});
  p.node("aten.linalg_cholesky.default", {{"self", TensorArgument{"x"}}}, "y").output("y");
  auto model = clients::translate(p.get());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("more than 4096"), std::string::npos)
      << model.error().message;
}

}  // namespace
