// Random numbers: if these fail, a model's numbers are not those of PyTorch's CUDA generator, two
// draws share numbers, or a distribution has another shape. Statistical tests have fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "clients/pt2/aten/random_stream.h"
#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "tests/unit/pt2/pt2_program.h"

namespace clients {
namespace {

using common::DType;
using common::HostTensor;
using pt2_test::Program;

HostTensor state(int64_t seed, int64_t offset) {
  HostTensor content = HostTensor::zeros(DType::kInt64, {2}).value();
  content.set_int(0, seed);
  content.set_int(1, offset);
  return content;
}

// One node "result" of a type and sizes.
struct Draw {
  std::string target;
  std::vector<NamedArgument> arguments = {};
  std::vector<int64_t> sizes = {};
  ScalarType type = ScalarType::kFloat32;
};

Model model_of(const Draw& draw, const std::vector<int64_t>& input = {}) {
  Program p;
  if (!input.empty()) p.input("x", input);
  p.tensor("result", draw.sizes, draw.type).node("aten." + draw.target, draw.arguments, "result");
  auto model = translate(p.output("result").get());
  EXPECT_TRUE(model.ok()) << draw.target << ": " << (model.ok() ? "" : model.error().message);
  return model.ok() ? *model : Model();
}

// The values, then the state that the call leaves.
std::vector<HostTensor> drawn(const Draw& draw, const std::vector<HostTensor>& inputs = {},
                              int64_t seed = 0, int64_t offset = 0) {
  Model model = model_of(draw, inputs.empty() ? std::vector<int64_t>() : inputs[0].sizes());
  std::vector<HostTensor> all = inputs;
  all.push_back(state(seed, offset));
  return pt2_test::run(model, all);
}

double mean_of(const HostTensor& x) {
  double sum = 0;
  for (int64_t i = 0; i < x.elements(); ++i) sum += x.get(i);
  return sum / static_cast<double>(x.elements());
}
double variance_of(const HostTensor& x) {
  double mean = mean_of(x), sum = 0;
  for (int64_t i = 0; i < x.elements(); ++i) sum += (x.get(i) - mean) * (x.get(i) - mean);
  return sum / static_cast<double>(x.elements());
}

// ---- The generator ---------------------------------------------------------------------------

// Words 0 to 3 of one counter, as 32 bits each.
std::array<uint32_t, 4> words(uint64_t seed, uint64_t offset, uint64_t subsequence) {
  common::GraphBuilder b;
  auto number = [&](uint64_t x) { return b.scalar_int(DType::kInt64, static_cast<int64_t>(x)); };
  b.output(b.philox(DType::kInt64, number(seed), number(offset), number(subsequence),
                    b.iota(DType::kInt64, 4)));
  auto result = common::interpret(b.finish(), {}, {}).value()[0];
  std::array<uint32_t, 4> out{};
  for (int64_t i = 0; i < 4; ++i)
    out[static_cast<size_t>(i)] = static_cast<uint32_t>(result.get_int(i));
  return out;
}

// The known answers that the algorithm's authors publish with it.
TEST(Philox, GivesItsKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(words(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(~0ULL, ~0ULL, ~0ULL), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Pairs of words of a million calls in a row, each of which takes a counter: none twice.
TEST(Philox, RepeatsNoStreamInAMillionCalls) {
  constexpr int64_t kCalls = 1'000'000;
  common::GraphBuilder b;
  auto zero = b.scalar_int(DType::kInt64, 0);
  auto counter = b.iota(DType::kInt64, kCalls);
  for (int64_t word : {0, 1}) {
    b.output(b.philox(DType::kInt64, zero, counter, zero, b.scalar_int(DType::kInt64, word)));
  }
  auto results = common::interpret(b.finish(), {}, {}).value();
  std::vector<uint64_t> pairs;
  for (int64_t i = 0; i < kCalls; ++i) {
    pairs.push_back(static_cast<uint64_t>(results[0].get_int(i)) << 32 |
                    static_cast<uint64_t>(results[1].get_int(i)));
  }
  std::sort(pairs.begin(), pairs.end());
  EXPECT_EQ(std::adjacent_find(pairs.begin(), pairs.end()), pairs.end());
}

// ---- As PyTorch's CUDA generator -------------------------------------------------------------

// What torch.manual_seed(0) and one call on any CUDA device print.
TEST(Random, IsThatOfPyTorchOnCuda) {
  HostTensor uniform = drawn({"rand.default", {}, {10}})[0];
  const double rand[] = {0.3990, 0.5167, 0.0249, 0.9401, 0.9459,
                         0.7967, 0.4150, 0.8203, 0.2290, 0.9096};
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR(uniform.get(i), rand[i], 5e-5) << i;
  HostTensor normal = drawn({"randn.default", {}, {10}})[0];
  const double randn[] = {-0.9247, -0.4253, -2.6438, 0.1452,  -0.1209,
                          -0.5797, -0.6229, -0.3284, -1.0745, -0.3631};
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR(normal.get(i), randn[i], 5e-5) << i;
}

// A tensor of more elements than threads: the second round takes the second word, the fifth the
// next counter.
TEST(Random, GoesOnWithAThreadsNextNumber) {
  constexpr int64_t kThreads = 132 * 8 * 256;
  HostTensor x = drawn({"rand.default", {}, {5 * kThreads}}, {}, 7)[0];
  auto uniform = [](uint32_t word) { return static_cast<float>(word) * 0x1p-32F + 0x1p-33F; };
  for (int64_t thread : {int64_t{0}, int64_t{11}, kThreads - 1}) {
    auto first = words(7, 0, static_cast<uint64_t>(thread));
    for (int64_t round = 0; round < 4; ++round) {
      EXPECT_EQ(x.get(round * kThreads + thread), uniform(first[static_cast<size_t>(round)]));
    }
    auto second = words(7, 1, static_cast<uint64_t>(thread));
    EXPECT_EQ(x.get(4 * kThreads + thread), uniform(second[0]));
  }
}

TEST(Random, AdvancesTheOffsetAsPyTorchDoes) {
  auto offset_after = [](std::vector<int64_t> sizes, ScalarType type) {
    return drawn({"rand.default", {}, std::move(sizes), type}, {}, 3, 8)[1].get_int(1) - 8;
  };
  constexpr int64_t kThreads = 132 * 8 * 256;
  EXPECT_EQ(offset_after({1}, ScalarType::kFloat32), 4);
  EXPECT_EQ(offset_after({4 * kThreads}, ScalarType::kFloat32), 4);
  EXPECT_EQ(offset_after({4 * kThreads + 1}, ScalarType::kFloat32), 8);
  EXPECT_EQ(offset_after({2 * kThreads + 1}, ScalarType::kFloat64), 8);
  EXPECT_EQ(drawn({"rand.default", {}, {5}}, {}, 3, 8)[1].get_int(0), 3);
}

// Two draws of one call, and the draws of two calls, are different numbers; a seed is repeatable.
TEST(Random, TakesNoNumberTwice) {
  Program p;
  p.tensor("a", {1000}).node("aten.rand.default", {}, "a");
  p.tensor("b", {1000}).node("aten.rand.default", {}, "b");
  Model model = translate(p.output("a").output("b").get()).value();
  auto first = pt2_test::run(model, {state(0, 0)});
  auto again = pt2_test::run(model, {state(0, 0)});
  auto next = pt2_test::run(model, {first[2]});
  std::set<float> seen;
  for (const HostTensor& x : {first[0], first[1], next[0], next[1]}) {
    for (float value : pt2_test::floats(x)) seen.insert(value);
  }
  // Of 4,000 numbers of 24 bits some 0.5 meet by chance.
  EXPECT_GE(seen.size(), 3990U);
  EXPECT_EQ(pt2_test::floats(first[0]), pt2_test::floats(again[0]));
  EXPECT_EQ(first[2].get_int(1), 8);
}

TEST(Random, StartsFromSeedZeroAndKeepsAState) {
  Model model = model_of({"rand.default", {}, {4}});
  ASSERT_EQ(model.weight_names.size(), 1U);
  EXPECT_EQ(model.weight_names[0], kRandomStateName);
  EXPECT_EQ(model.graph.inputs[0].kind, common::InputKind::kState);
  for (std::byte byte : contiguous_bytes(*model.weights[0])) EXPECT_EQ(byte, std::byte{0});
}

// ---- Distributions ---------------------------------------------------------------------------

struct Moments {
  Draw draw;
  double mean, variance;
};
class Distributions : public testing::TestWithParam<Moments> {};
// Mean within 4 deviations of the mean of as many draws, variance within 3 per cent.
TEST_P(Distributions, HaveTheirMoments) {
  const auto& [draw, mean, variance] = GetParam();
  HostTensor x = drawn(draw, {}, 42)[0];
  auto count = static_cast<double>(x.elements());
  EXPECT_NEAR(mean_of(x), mean, 4 * std::sqrt(variance / count)) << draw.target;
  EXPECT_NEAR(variance_of(x), variance, 0.03 * variance) << draw.target;
}

constexpr int64_t kMany = 200'000;
NamedArgument on_x() { return {"self", TensorArgument{"x"}}; }
INSTANTIATE_TEST_SUITE_P(
    Random, Distributions,
    testing::Values(
        Moments{{"rand.default", {}, {kMany}}, 0.5, 1.0 / 12},
        Moments{{"rand.default", {}, {kMany}, ScalarType::kFloat64}, 0.5, 1.0 / 12},
        Moments{{"rand.default", {}, {kMany}, ScalarType::kFloat16}, 0.5, 1.0 / 12},
        Moments{{"randn.default", {}, {2 * kMany}}, 0, 1},
        Moments{{"randn.default", {}, {2 * kMany}, ScalarType::kFloat64}, 0, 1},
        Moments{{"normal.float_float", {{"mean", 3.0}, {"std", 0.5}}, {kMany}}, 3, 0.25},
        Moments{{"randint.low",
                 {{"low", int64_t{-3}}, {"high", int64_t{9}}},
                 {kMany},
                 ScalarType::kInt64},
                2.5,
                143.0 / 12},
        Moments{{"randint.default", {{"high", int64_t{3} << 40}}, {kMany}, ScalarType::kInt64},
                std::ldexp(1.5, 40),
                std::ldexp(9.0 / 12, 80)}),
    [](const auto& info) { return common::cat("Case", info.index); });

// ---- By rejection and by inversion -----------------------------------------------------------

HostTensor filled(double value, std::vector<int64_t> sizes) {
  HostTensor x = HostTensor::uninitialized(DType::kFloat32, std::move(sizes)).value();
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, value);
  return x;
}

// Kolmogorov's distance from a distribution, which at one run in 10,000 is this far for as many
// draws (Smirnov, "Table for estimating the goodness of fit", 1948).
template <class Cumulative>
void expect_distributed(const HostTensor& x, Cumulative&& cumulative, std::string_view what) {
  std::vector<double> sorted;
  for (int64_t i = 0; i < x.elements(); ++i) sorted.push_back(x.get(i));
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  double distance = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double at = cumulative(sorted[i]);
    distance = std::max(
        {distance, at - static_cast<double>(i) / count, static_cast<double>(i + 1) / count - at});
  }
  EXPECT_LT(distance, 2.23 / std::sqrt(count)) << what;
}

// Gamma's cumulative distribution by its series, for x of any size.
double gamma_cumulative(double alpha, double x) {
  double term = std::exp(alpha * std::log(x) - x - std::lgamma(alpha + 1)), sum = 0;
  for (int n = 1; n < 1000 && term > 1e-17; ++n) {
    sum += term;
    term *= x / (alpha + n);
  }
  return sum;
}

TEST(Random, GammaNumbersAreDistributedAsGamma) {
  for (double alpha : {0.1, 0.7, 1.0, 3.5, 60.0}) {
    const HostTensor parameters = filled(alpha, {20'000});
    Draw draw{"_standard_gamma.default", {on_x()}, {20'000}};
    expect_distributed(
        drawn(draw, {parameters}, 3)[0], [&](double x) { return gamma_cumulative(alpha, x); },
        common::cat("gamma ", alpha));
  }
}

// A share of two is a beta number: for parameters 1 and 3 of cumulative distribution 1 - (1 - x)^3.
TEST(Random, DirichletNumbersAreShares) {
  HostTensor alpha = filled(1, {20'000, 2});
  for (int64_t i = 1; i < alpha.elements(); i += 2) alpha.set(i, 3);
  HostTensor x = drawn({"_sample_dirichlet.default", {on_x()}, {20'000, 2}}, {alpha}, 4)[0];
  HostTensor first = filled(0, {20'000});
  for (int64_t i = 0; i < first.elements(); ++i) {
    first.set(i, x.get(2 * i));
    ASSERT_NEAR(x.get(2 * i) + x.get(2 * i + 1), 1, 1e-6);
  }
  expect_distributed(
      first, [](double p) { return 1 - std::pow(1 - p, 3); }, "beta");
}

// The greatest difference of shares of counts from a distribution's, in deviations of the shares.
template <class Probability>
void expect_counts(const HostTensor& x, Probability&& probability, std::string_view what) {
  std::vector<double> seen;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto k = static_cast<size_t>(x.get(i));
    ASSERT_EQ(x.get(i), static_cast<double>(k)) << what;
    if (k >= seen.size()) seen.resize(k + 1);
    ++seen[k];
  }
  const auto count = static_cast<double>(x.elements());
  double all = 0;
  for (size_t k = 0; k < seen.size(); ++k) {
    const double p = probability(static_cast<double>(k));
    all += p;
    EXPECT_NEAR(seen[k], count * p, 4.8 * std::sqrt(count * p * (1 - p)) + 2) << what << ": " << k;
  }
  EXPECT_NEAR(all, 1, 0.01) << what;
}

TEST(Random, PoissonNumbersHaveTheirProbabilities) {
  for (double mean : {0.0, 0.3, 4.0, 9.99, 10.0, 47.5, 1000.0}) {
    HostTensor x = drawn({"poisson.default", {on_x()}, {20'000}}, {filled(mean, {20'000})}, 5)[0];
    expect_counts(
        x,
        [&](double k) {
          return mean == 0 ? k == 0 : std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
        },
        common::cat("Poisson ", mean));
  }
}

TEST(Random, BinomialNumbersHaveTheirProbabilities) {
  const std::pair<double, double> cases[] = {{0, 0.4},   {7, 0},    {7, 1},     {12, 0.3},
                                             {12, 0.85}, {40, 0.5}, {300, 0.1}, {300, 0.95}};
  for (auto [trials, p] : cases) {
    Program program;
    program.input("n", {20'000}).input("p", {20'000}).tensor("k", {20'000});
    program.node("aten.binomial.default",
                 {{"count", TensorArgument{"n"}}, {"prob", TensorArgument{"p"}}}, "k");
    auto model = translate(program.output("k").get());
    ASSERT_TRUE(model.ok()) << model.error().message;
    HostTensor x =
        pt2_test::run(*model, {filled(trials, {20'000}), filled(p, {20'000}), state(6, 0)})[0];
    expect_counts(
        x,
        [n = trials, p = p](double k) {
          if (p == 0 || p == 1) return k == n * p ? 1.0 : 0.0;
          return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                          k * std::log(p) + (n - k) * std::log1p(-p));
        },
        common::cat("binomial ", trials, " ", p));
  }
}

// Elements and calls draw from counters of their own.
TEST(Random, AttemptsTakeNoNumberTwice) {
  Draw draw{"_standard_gamma.default", {on_x()}, {2000}};
  auto first = drawn(draw, {filled(2, {2000})}, 3);
  auto next = drawn(draw, {filled(2, {2000})}, 3, first[1].get_int(1));
  std::set<float> seen;
  for (const HostTensor& x : {first[0], next[0]}) {
    for (float value : pt2_test::floats(x)) seen.insert(value);
  }
  EXPECT_GE(seen.size(), 3995U);
  EXPECT_EQ(first[1].get_int(1), 9 * 4);
}

// Whole numbers from a bound on, up to the greatest that the type holds.
TEST(Random, StartsAtItsBoundWithoutAnEnd) {
  Program p;
  p.input("x", {1000}, ScalarType::kUint8).tensor("result", {1000}, ScalarType::kUint8);
  p.node("aten.random.from", {{"self", TensorArgument{"x"}}, {"from", int64_t{250}}}, "result");
  auto model = translate(p.output("result").get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  HostTensor x =
      pt2_test::run(*model, {HostTensor::zeros(DType::kUint8, {1000}).value(), state(0, 0)})[0];
  double least = 255, most = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    least = std::min(least, x.get(i));
    most = std::max(most, x.get(i));
  }
  EXPECT_EQ(least, 250);
  EXPECT_EQ(most, 255);
}

TEST(Random, StaysBelowItsBound) {
  for (ScalarType type : {ScalarType::kFloat16, ScalarType::kBfloat16, ScalarType::kFloat32}) {
    HostTensor x = drawn({"rand.default", {}, {kMany}, type}, {}, 5)[0];
    for (int64_t i = 0; i < x.elements(); ++i) {
      ASSERT_GE(x.get(i), 0);
      ASSERT_LT(x.get(i), 1);
    }
  }
}

// The share of kept elements at ten million draws, within 4 deviations, and the kept ones scaled.
TEST(Random, DropoutKeepsItsShare) {
  constexpr int64_t kDraws = 10'000'000;
  constexpr double kP = 0.1;
  HostTensor ones = HostTensor::uninitialized(DType::kFloat32, {kDraws}).value();
  for (int64_t i = 0; i < kDraws; ++i) ones.set(i, 1);
  Draw draw{
      "dropout.default", {{"input", TensorArgument{"x"}}, {"p", kP}, {"train", true}}, {kDraws}};
  HostTensor x = drawn(draw, {ones})[0];
  int64_t kept = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    if (x.get(i) == 0) continue;
    ++kept;
    ASSERT_NEAR(x.get(i), 1 / (1 - kP), 1e-6);
  }
  double sigma = std::sqrt(kDraws * kP * (1 - kP));
  EXPECT_NEAR(static_cast<double>(kept), kDraws * (1 - kP), 4 * sigma);
}

TEST(Random, MultinomialFollowsItsWeights) {
  constexpr int64_t kRows = 30'000;
  const double weights[] = {1, 0, 2, 5};
  HostTensor x = HostTensor::zeros(DType::kFloat32, {kRows, 4}).value();
  for (int64_t i = 0; i < kRows * 4; ++i) x.set(i, weights[i % 4]);
  for (bool replacement : {false, true}) {
    int64_t samples = replacement ? 3 : 1;
    HostTensor chosen = drawn({"multinomial.default",
                               {on_x(), {"num_samples", samples}, {"replacement", replacement}},
                               {kRows, samples},
                               ScalarType::kInt64},
                              {x}, 9)[0];
    std::array<double, 4> counts{};
    for (int64_t i = 0; i < chosen.elements(); ++i) {
      ++counts.at(static_cast<size_t>(chosen.get_int(i)));
    }
    auto total = static_cast<double>(chosen.elements());
    EXPECT_EQ(counts[1], 0);
    for (size_t k : {0U, 2U, 3U}) {
      double p = weights[k] / 8;
      EXPECT_NEAR(counts[k], total * p, 4 * std::sqrt(total * p * (1 - p))) << k;
    }
  }
}

TEST(Random, SamplesWithoutReplacementAreDistinct) {
  HostTensor x = HostTensor::zeros(DType::kFloat32, {500, 6}).value();
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, 1 + static_cast<double>(i % 6));
  HostTensor chosen = drawn(
      {"multinomial.default", {on_x(), {"num_samples", int64_t{4}}}, {500, 4}, ScalarType::kInt64},
      {x})[0];
  for (int64_t row = 0; row < 500; ++row) {
    std::set<int64_t> distinct;
    for (int64_t k = 0; k < 4; ++k) distinct.insert(chosen.get_int(row * 4 + k));
    EXPECT_EQ(distinct.size(), 4U);
  }
}

TEST(Random, PermutesEveryNumberOnce) {
  HostTensor order =
      drawn({"randperm.default", {{"n", int64_t{5000}}}, {5000}, ScalarType::kInt64})[0];
  std::vector<int64_t> places(5000);
  int64_t unmoved = 0;
  for (int64_t i = 0; i < 5000; ++i) {
    ++places.at(static_cast<size_t>(order.get_int(i)));
    if (order.get_int(i) == i) ++unmoved;
  }
  EXPECT_EQ(std::count(places.begin(), places.end(), 1), 5000);
  EXPECT_LT(unmoved, 10);
}

TEST(Random, DropoutInEvalModeDrawsNothing) {
  Model model = model_of(
      {"dropout.default", {{"input", TensorArgument{"x"}}, {"p", 0.5}, {"train", false}}, {8}},
      {8});
  EXPECT_EQ(model.graph.inputs.size(), 1U);
}

}  // namespace
}  // namespace clients
