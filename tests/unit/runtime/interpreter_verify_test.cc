// Comparison of outputs and synthetic inputs.
#include <cmath>
#include <set>

#include "common/ir/hlir/half.h"
#include "common/runtime/tensor/compare.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"
#include "tests/unit/runtime/interpreter_testing.h"

namespace common::testing {
namespace {

HostTensor row(DType dtype, const Numbers& values) {
  return tensor(dtype, {static_cast<int64_t>(values.size())}, values);
}

TEST(Compare, CloseNamesTheWorstElement) {
  auto expected = tensor(DType::kFloat32, {2, 2}, {1, 2, kNan, kInf});
  EXPECT_TRUE(compare_close("out", expected, expected, {}).ok());
  auto near = tensor(DType::kFloat32, {2, 2}, {1.0001, 2, kNan, kInf});
  EXPECT_TRUE(compare_close("out", near, expected, {1e-3, 0}).ok());
  auto far = tensor(DType::kFloat32, {2, 2}, {1.5, 4, kNan, kInf});
  Status status = compare_close("output 3", far, expected, {1e-3, 0});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kVerification);
  EXPECT_NE(status.error().message.find("output 3: 2 of 4 elements differ, the worst at [0, 1]: "
                                        "got 4, expected 2"),
            std::string::npos)
      << status.error().message;
  EXPECT_FALSE(
      compare_close("out", tensor(DType::kFloat32, {2, 2}, {1, 2, 0, kInf}), expected, {1, 1})
          .ok());
  EXPECT_FALSE(
      compare_close("out", tensor(DType::kFloat32, {2, 2}, {1, 2, kNan, -kInf}), expected, {1, 1})
          .ok());
  EXPECT_FALSE(
      compare_close("out", tensor(DType::kFloat32, {4}, {1, 2, kNan, kInf}), expected, {}).ok());
  EXPECT_FALSE(compare_close("out", row(DType::kFloat64, {1}), row(DType::kFloat32, {1}), {}).ok());
}

TEST(Compare, IntegersAreExact) {
  auto a = integers(DType::kInt64, {2}, {INT64_MAX, 1});
  auto c = integers(DType::kInt64, {2}, {INT64_MAX - 1, 1});
  EXPECT_TRUE(compare_close("out", a, a, {}).ok());
  EXPECT_FALSE(compare_close("out", a, c, {1, 1}).ok());
}

TEST(Compare, CandidateIsHeldToTwiceTheReferencesError) {
  auto oracle = row(DType::kFloat64, {1, -2, 4, 0});
  auto reference = row(DType::kFloat32, {1.001, -2, 4, 0});
  auto judge = [&](const Numbers& values) {
    return verify_output("out", row(DType::kFloat32, values), oracle, reference);
  };
  auto same = judge({1, -2, 4, 0});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->candidate, 0);
  EXPECT_NEAR(same->reference, 0.0005, 1e-7);  // relative to the median magnitude, 2
  EXPECT_TRUE(judge({1, -2.0019, 4, 0}).ok());
  EXPECT_FALSE(judge({1, -2.0021, 4, 0}).ok());
  EXPECT_TRUE(judge({1, -2, 4, 0.0019}).ok());
  EXPECT_FALSE(judge({1, -2, 4, 0.0021}).ok());
  EXPECT_FALSE(judge({1, -2, kNan, 0}).ok());
  EXPECT_FALSE(judge({1, kInf, 4, 0}).ok());
  EXPECT_FALSE(verify_output("out", row(DType::kFloat32, {1, 2}), oracle, reference).ok());
}

TEST(Compare, SmallErrorsEverywhereAreFound) {
  // The reference is off by 2% in one element; half of that everywhere is no rounding.
  Numbers truth(100, 1.0);
  Numbers plain = truth;
  plain[7] = 1.02;
  Numbers shifted(100, 1.01);
  auto oracle = row(DType::kFloat64, truth);
  auto reference = row(DType::kFloat32, plain);
  auto result = verify_output("out", row(DType::kFloat32, shifted), oracle, reference);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("mean"), std::string::npos);
  truth[9] = 1.01;
  EXPECT_TRUE(verify_output("out", row(DType::kFloat32, truth), oracle, reference).ok());
}

// One output, judged again with one perturbed draw.
bool passes_again(const Numbers& candidate, const Numbers& oracle, const Numbers& plain,
                  const Numbers& perturbed, bool is_usual = true) {
  std::vector<HostTensor> ours, exact, reference;
  std::vector<std::vector<HostTensor>> draws(1);
  ours.push_back(row(DType::kFloat32, candidate));
  exact.push_back(row(DType::kFloat64, oracle));
  reference.push_back(row(DType::kFloat32, plain));
  draws[0].push_back(row(DType::kFloat32, perturbed));
  return verify_again(ours, exact, reference, draws, is_usual).ok();
}

TEST(Compare, ALuckyReferenceIsDrawnAgain) {
  const Numbers oracle = {1, 2, 3, 4}, plain = {1.001, 2, 3, 4}, candidate = {1, 2, 3, 4.012};
  ASSERT_FALSE(verify_output("out", row(DType::kFloat32, candidate), row(DType::kFloat64, oracle),
                             row(DType::kFloat32, plain))
                   .ok());
  EXPECT_TRUE(passes_again(candidate, oracle, plain, {1, 2, 3.006, 4}));
  EXPECT_FALSE(passes_again(candidate, oracle, plain, {1, 2, 3.003, 4})) << "more than twice this";
  EXPECT_FALSE(passes_again({1, 2.012, 3.012, 4.012}, oracle, plain, {1, 2, 3.006, 4}))
      << "as far off, but in more than twice as many elements";
}

TEST(Compare, ComparisonsMayTurnOverInAsManyElementsAsByRounding) {
  Numbers oracle(64, 1.0);
  Numbers turned = oracle, twice = oracle, thrice = oracle, everywhere(64, 2.0);
  turned[3] = 2;
  twice[5] = twice[6] = 2;
  thrice[5] = thrice[6] = thrice[7] = 2;
  EXPECT_TRUE(passes_again(twice, oracle, oracle, turned));
  EXPECT_FALSE(passes_again(thrice, oracle, oracle, turned));
  // Where most elements move, usual inputs say nothing of a candidate.
  EXPECT_FALSE(passes_again(everywhere, oracle, oracle, everywhere));
  EXPECT_TRUE(passes_again(everywhere, oracle, oracle, everywhere, false));

  auto numbers = [](int64_t a, int64_t b, int64_t c) {
    std::vector<HostTensor> one;
    one.push_back(integers(DType::kInt64, {3}, {a, b, c}));
    return one;
  };
  const std::vector<std::vector<HostTensor>> draws(1, numbers(7, 2, 3));
  auto judge = [&](const std::vector<HostTensor>& candidate) {
    return verify_again(candidate, numbers(1, 2, 3), numbers(1, 2, 3), draws, true).ok();
  };
  EXPECT_TRUE(judge(numbers(1, 9, 9))) << "places of near ties, of which rounding moved one";
  EXPECT_FALSE(judge(numbers(9, 9, 9)));
}

TEST(Compare, DrawsRoundInsideOtherwise) {
  // Near 1 a function's last place is most of what its square leaves to 1, and the inputs' last
  // place moves nothing.
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {64}, "x");
  NodeId t = b.unary(UnaryOp::kTanh, x);
  b.output(b.binary(BinaryOp::kSub, b.scalar(DType::kFloat32, 1), b.binary(BinaryOp::kMul, t, t)));
  Graph graph = b.finish();
  std::vector<HostTensor> inputs;
  inputs.push_back(row(DType::kFloat32, Numbers(64, 6.5)));
  ReferenceOutputs reference = reference_outputs(graph, inputs).value();
  // A tanh that is one unit in the last place off, everywhere.
  const auto exact = static_cast<float>(std::tanh(6.5));
  const auto below = static_cast<double>(std::nextafter(exact, 0.0F));
  std::vector<HostTensor> candidate;
  candidate.push_back(row(DType::kFloat32, Numbers(64, 1 - below * below)));
  EXPECT_TRUE(judge_outputs(graph, inputs, candidate, false, reference).ok());
  candidate[0] = row(DType::kFloat32, Numbers(64, 1 - 0.999 * below * below));
  EXPECT_FALSE(judge_outputs(graph, inputs, candidate, false, reference).ok());
}

TEST(Compare, RoundingOtherwiseKeepsWhatIsExact) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {64}, "x");
  b.output(b.binary(BinaryOp::kAdd, x, b.scalar(DType::kFloat32, 1)));
  b.output(b.unary(UnaryOp::kExp, x));
  Graph graph = b.finish();
  std::vector<HostTensor> inputs;
  inputs.push_back(row(DType::kFloat32, Numbers(64, 0.5)));
  auto outputs = [&](uint64_t rounding) {
    InterpretOptions options;
    options.precision = Precision::kPlain;
    options.rounding = rounding;
    return interpret(graph, inputs, options).value();
  };
  const auto nearest = outputs(0), first = outputs(1), again = outputs(1), second = outputs(2);
  EXPECT_EQ(first[0].get(3), 1.5);
  std::set<double> seen, seen_next;
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(first[1].get(i), nearest[1].get(i), 2.4e-7);
    EXPECT_EQ(first[1].get(i), again[1].get(i));
    seen.insert(first[1].get(i));
    seen_next.insert(second[1].get(i));
  }
  EXPECT_EQ(seen.size(), 3u) << "a unit up, down, and as it was";
  EXPECT_EQ(seen_next, seen);
}

TEST(Compare, OraclesOfHalfTypesAreKeptInFloat32UnlessTheyOverflow) {
  // Where 1e30 is squared twice, float64 is finite and float32 is not.
  for (const auto& [value, kept] : {std::pair{3.0, DType::kFloat32}, {1e30, DType::kFloat64}}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {3}, "x");
    NodeId wide = b.cast(x, DType::kFloat32);
    NodeId square = b.binary(BinaryOp::kMul, wide, wide);
    b.output(b.cast(b.binary(BinaryOp::kMul, square, square), DType::kBfloat16));
    b.output(wide);
    std::vector<HostTensor> inputs;
    inputs.push_back(row(DType::kBfloat16, Numbers(3, value)));
    const double exact = std::pow(inputs[0].get(0), 4);
    ReferenceOutputs reference = reference_outputs(b.finish(), inputs).value();
    EXPECT_EQ(reference.oracle[0].dtype(), kept);
    EXPECT_NEAR(reference.oracle[0].get(2), exact, 1e-7 * exact);
    EXPECT_EQ(reference.oracle[1].dtype(), DType::kFloat64);
  }
}

// x[rows, depth] times the transpose of y[columns, depth].
Graph product_graph(int64_t rows, int64_t columns, int64_t depth) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {rows, depth}, "x");
  NodeId y = b.input(InputKind::kUser, DType::kFloat32, {columns, depth}, "y");
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {rows, columns},
                  {x, y},
                  ContractAttr{{0, 2}, {1, 2}, {0, 1}}}));
  return b.finish();
}

TEST(Compare, RoundingOtherwiseSumsProductsInOneAccumulator) {
  // 2^24 + 1 + 1 + ...: one accumulator of float32 loses each 1, sums of parts only some.
  constexpr int64_t kDepth = 600;
  for (int64_t columns : {1, 8}) {
    Numbers left(8 * kDepth, 1.0);
    for (size_t row = 0; row < 8; ++row) left[row * kDepth] = 16777216;
    std::vector<HostTensor> inputs;
    inputs.push_back(tensor(DType::kFloat32, {8, kDepth}, left));
    inputs.push_back(tensor(DType::kFloat32, {columns, kDepth},
                            Numbers(static_cast<size_t>(columns * kDepth), 1.0)));
    const Graph graph = product_graph(8, columns, kDepth);
    auto first = [&](uint64_t rounding) {
      InterpretOptions options;
      options.precision = Precision::kPlain;
      options.rounding = rounding;
      return interpret(graph, inputs, options).value()[0].get(0);
    };
    EXPECT_GT(first(0), 16777216 + 200) << columns;
    EXPECT_NEAR(first(1), 16777216, 2) << columns << " (a unit in the last place)";
  }
}

// Kernels may sum thousands of products in one accumulator, which rounds several times as much as
// sums of parts.
TEST(Compare, SumsInOneAccumulatorPassAndWrongOnesDoNot) {
  constexpr int64_t kSide = 16, kDepth = 65536;
  const Graph graph = product_graph(kSide, kSide, kDepth);
  const auto inputs = synthetic_inputs(graph, {}, 1, InputPattern::kNormal).value();
  ReferenceOutputs reference = reference_outputs(graph, inputs).value();
  const Numbers x = numbers(inputs[0]), y = numbers(inputs[1]);
  // `factor` gives an element of x as a candidate reads it for an element of the product.
  auto candidate_of = [&](auto&& factor) {
    Numbers sums;
    for (int64_t i = 0; i < kSide * kSide; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        const auto a = static_cast<size_t>(i / kSide * kDepth + k);
        const auto b = static_cast<size_t>(i % kSide * kDepth + k);
        sum += factor(static_cast<float>(x[a]), i, k) * static_cast<float>(y[b]);
      }
      sums.push_back(sum);
    }
    std::vector<HostTensor> candidate;
    candidate.push_back(tensor(DType::kFloat32, {kSide, kSide}, sums));
    return candidate;
  };
  auto passes = [&](const std::vector<HostTensor>& candidate) {
    return judge_outputs(graph, inputs, candidate, true, reference).ok();
  };
  const auto in_order = candidate_of([](float a, int64_t, int64_t) { return a; });
  EXPECT_FALSE(verify_outputs(in_order, reference.oracle, reference.plain).ok());
  EXPECT_TRUE(passes(in_order));
  auto missing = [](float a, int64_t i, int64_t k) { return i == 5 && k == kDepth / 2 ? 0.0F : a; };
  EXPECT_FALSE(passes(candidate_of(missing))) << "one product of one element";
  auto halved = [](float a, int64_t, int64_t) { return float_from_half(half_from_float(a)); };
  EXPECT_FALSE(passes(candidate_of(halved))) << "factors of half precision";
}

TEST(Compare, FewElementsAreAllowedWhatTheGraphRoundsTo) {
  auto oracle = row(DType::kFloat64, {1});
  auto lucky = row(DType::kFloat32, {1});
  auto candidate = row(DType::kFloat32, {1.001});
  EXPECT_FALSE(verify_output("out", candidate, oracle, lucky).ok());
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {1}, "x");
  b.output(b.cast(x, DType::kFloat32));
  EXPECT_EQ(narrowest_float(b.finish()), DType::kBfloat16);
  EXPECT_TRUE(verify_output("out", candidate, oracle, lucky, DType::kBfloat16).ok());
}

TEST(Compare, TheScaleOfALargeOutputIsThatOfASample) {
  constexpr size_t kCount = 300'000;
  Numbers truth(kCount, 0.0);
  for (size_t i = 0; i < kCount; ++i) truth[i] = i % 3 == 0 ? 2 : -8;
  auto known = reference_error(row(DType::kFloat64, truth), row(DType::kFloat32, truth));
  EXPECT_EQ(known.typical, 8);
  EXPECT_EQ(known.greatest, 0);
  // Where nearly all elements are 0, a sample would say nothing of the others.
  Numbers sparse(kCount, 0.0);
  for (size_t i = 1; i < 11; ++i) sparse[i] = 5;
  EXPECT_EQ(reference_error(row(DType::kFloat64, sparse), row(DType::kFloat32, sparse)).typical, 5);
  // One wrong element among many is found.
  Numbers wrong = truth;
  wrong[kCount - 2] = 8;
  auto judged = verify_output("out", row(DType::kFloat32, wrong), row(DType::kFloat64, truth),
                              row(DType::kFloat32, truth), known);
  ASSERT_FALSE(judged.ok());
  EXPECT_NE(judged.error().message.find("1 of 300000 elements differ, the worst at [299998]"),
            std::string::npos)
      << judged.error().message;
}

TEST(Compare, WhatTheReferenceGivesBitByBitPasses) {
  // Off as the reference is, which overflows where the oracle does not.
  auto oracle = row(DType::kFloat64, {1, 3e5, -2});
  auto reference = row(DType::kFloat16, {1.25, kInf, -2});
  auto judged = verify_output("out", reference, oracle, reference);
  ASSERT_TRUE(judged.ok());
  EXPECT_EQ(judged->candidate, judged->reference);
  EXPECT_GT(judged->reference, 0);
}

TEST(Compare, NonFiniteElements) {
  auto oracle = row(DType::kFloat64, {kNan, kInf, 1e6, 1});
  auto reference = row(DType::kFloat16, {kNan, kInf, kInf, 1});
  auto judge = [&](const Numbers& values) {
    return verify_output("out", row(DType::kFloat16, values), oracle, reference).ok();
  };
  EXPECT_TRUE(judge({kNan, kInf, kInf, 1}));
  EXPECT_TRUE(judge({kNan, kInf, kNan, 1}));  // where the reference overflows
  EXPECT_FALSE(judge({0, kInf, kInf, 1}));
  EXPECT_FALSE(judge({kNan, -kInf, kInf, 1}));
  EXPECT_FALSE(judge({kNan, kInf, kInf, kNan}));
  EXPECT_FALSE(judge({kNan, kInf, 5, 1}));
}

TEST(Compare, NothingToCompareIsRight) {
  auto oracle = row(DType::kFloat64, {});
  auto single = row(DType::kFloat32, {});
  auto judged = verify_output("out", single, oracle, single);
  ASSERT_TRUE(judged.ok());
  EXPECT_EQ(judged->candidate, 0);
  EXPECT_TRUE(verify_output("out", oracle, oracle, oracle).ok());
  EXPECT_FALSE(verify_output("out", row(DType::kFloat32, {1}), oracle, single).ok());
}

TEST(Compare, IntegersMayFollowEitherPrecision) {
  auto oracle = integers(DType::kInt64, {2}, {3, 4});
  auto reference = integers(DType::kInt64, {2}, {3, 5});
  EXPECT_TRUE(verify_output("out", integers(DType::kInt64, {2}, {3, 4}), oracle, reference).ok());
  EXPECT_TRUE(verify_output("out", integers(DType::kInt64, {2}, {3, 5}), oracle, reference).ok());
  EXPECT_FALSE(verify_output("out", integers(DType::kInt64, {2}, {3, 6}), oracle, reference).ok());
}

TEST(Compare, PlainPrecisionMakesThePlainLoweringsError) {
  // 2^24 + 1 + 1 + ...: float32 accumulation loses the ones, double does not.
  Numbers values(65, 1.0);
  values[0] = 16777216;
  auto x = row(DType::kFloat32, values);
  for (bool product : {false, true}) {
    auto build = [&](GraphBuilder& b, const std::vector<NodeId>& n) {
      NodeId one = b.full(DType::kFloat32, {65}, 1);
      return b.reduce(ReduceOp::kSum, product ? b.binary(BinaryOp::kMul, n[0], one) : n[0], {0});
    };
    expect_numbers(compute({x}, build, Precision::kModel), {16777280});
    EXPECT_LT(compute({x}, build, Precision::kPlain).get(0), 16777280);
  }
}

TEST(Synthetic, InputsAreDeterministicAndBounded) {
  GraphBuilder b;
  Expr s = b.new_symbol({2, 4096});
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {s, 8}, "x");
  NodeId w = b.input(InputKind::kWeight, DType::kBfloat16, {16, 64}, "w");
  NodeId gain = b.input(InputKind::kWeight, DType::kFloat32, {8}, "g");
  b.output(b.binary(BinaryOp::kMul, x, gain));
  b.output(w);
  Graph g = b.finish();
  std::vector<int64_t> symbols = choose_sizes(g, 0);
  EXPECT_EQ(symbols, (std::vector<int64_t>{24}));
  EXPECT_EQ(choose_sizes(g, 1), (std::vector<int64_t>{2}));
  auto first = synthetic_inputs(g, symbols, 7, InputPattern::kNormal).value();
  auto again = synthetic_inputs(g, symbols, 7, InputPattern::kNormal).value();
  auto other = synthetic_inputs(g, symbols, 8, InputPattern::kNormal).value();
  EXPECT_EQ(numbers(first[0]), numbers(again[0]));
  EXPECT_NE(numbers(first[0]), numbers(other[0]));
  double sum = 0;
  double squares = 0;
  for (double v : numbers(first[1])) {
    sum += v;
    squares += v * v;
    EXPECT_LT(std::fabs(v), 3.5 / 8);
  }
  EXPECT_NEAR(sum / 1024, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 1024), 1 / 8.0, 0.01);
  for (double v : numbers(first[2])) EXPECT_GT(v, 0.2);
}

// Weights that calls share come from their own seed and are the same memory, whatever else the
// calls ask for, until their sizes change.
TEST(Synthetic, LargeWeightsComeAgainAfterAPrimeNumberOfElements) {
  GraphBuilder b;
  b.output(b.input(InputKind::kWeight, DType::kBfloat16, {300, 1024}, "w"));
  auto made = synthetic_inputs(b.finish(), {}, 1, InputPattern::kNormal);
  ASSERT_TRUE(made.ok());
  const HostTensor& w = (*made)[0];
  constexpr int64_t kPeriod = 65'521;
  std::set<double> first_of_rows;
  for (int64_t i = 0; i < 300; ++i) first_of_rows.insert(w.get(i * 1024));
  EXPECT_GT(first_of_rows.size(), 250u);  // rows differ, but for values that bfloat16 rounds alike
  for (int64_t i = 0; i + kPeriod < w.elements(); i += 997) {
    ASSERT_EQ(w.get(i), w.get(i + kPeriod)) << i;
  }
}

TEST(Synthetic, WeightsMayBeShared) {
  GraphBuilder b;
  Expr s = b.new_symbol({2, 64});
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {4}, "w");
  NodeId mask = b.input(InputKind::kWeight, DType::kInt64, {4}, "m");
  NodeId sized = b.input(InputKind::kWeight, DType::kFloat32, {s}, "v");
  b.output(b.binary(BinaryOp::kMul, x, w));
  b.output(mask);
  b.output(sized);
  Graph g = b.finish();
  SharedWeights weights{5, {}};
  std::vector<int64_t> few{3}, many{9};
  auto first = synthetic_inputs(g, few, 1, InputPattern::kNormal, weights).value();
  auto other = synthetic_inputs(g, few, 2, InputPattern::kLarge, weights).value();
  auto longer = synthetic_inputs(g, many, 2, InputPattern::kZeros, weights).value();
  auto alone = synthetic_inputs(g, few, 5, InputPattern::kNormal).value();
  EXPECT_NE(numbers(first[0]), numbers(other[0]));
  for (size_t i : {1, 2, 3}) {
    EXPECT_EQ(first[i].data(), other[i].data()) << i;
    EXPECT_EQ(numbers(first[i]), numbers(alone[i])) << i;
  }
  EXPECT_EQ(first[1].data(), longer[1].data());
  EXPECT_EQ(longer[3].sizes(), many);
}

TEST(Synthetic, AnOrderOfRowsHasEachOnce) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {40, 3}, "x");
  NodeId w = b.input(InputKind::kUser, DType::kFloat32, {40, 2, 3}, "w");
  NodeId order = b.input(InputKind::kUser, DType::kInt64, {40}, "order");
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {40, 2},
                  {x, w, order},
                  ContractAttr{{0, 2}, {0, 1, 2}, {0, 1}}}));
  Graph g = b.finish();
  Numbers rows = numbers(synthetic_inputs(g, {}, 3, InputPattern::kLarge).value()[2]);
  EXPECT_FALSE(std::is_sorted(rows.begin(), rows.end()));
  std::sort(rows.begin(), rows.end());
  for (size_t k = 0; k < rows.size(); ++k) EXPECT_EQ(rows[k], static_cast<double>(k));
}

TEST(Synthetic, Patterns) {
  GraphBuilder b;
  b.output(b.input(InputKind::kUser, DType::kFloat32, {64}, "x"));
  Graph g = b.finish();
  auto draw = [&](InputPattern pattern) {
    return numbers(synthetic_inputs(g, {}, 3, pattern).value()[0]);
  };
  for (double v : draw(InputPattern::kZeros)) EXPECT_EQ(v, 0);
  for (double v : draw(InputPattern::kSigns)) EXPECT_EQ(std::fabs(v), 1);
  for (double v : draw(InputPattern::kNegative)) EXPECT_LT(v, 0);
  for (double v : draw(InputPattern::kPositive)) EXPECT_GT(v, 0);
  Numbers mixed = draw(InputPattern::kMixed);
  EXPECT_GT(std::count_if(mixed.begin(), mixed.end(), [](double v) { return std::fabs(v) < 1e-3; }),
            4);
  Numbers large = draw(InputPattern::kLarge);
  EXPECT_GT(*std::max_element(large.begin(), large.end()), 50);
}

// The uses of the integer input x[4] of a graph that `build` makes.
template <class Build>
IntegerUse use_of(Build&& build) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kInt64, {4}, "x");
  NodeId table = b.input(InputKind::kWeight, DType::kFloat32, {50, 3}, "table");
  b.output(build(b, x, table));
  Graph g = b.finish();
  return integer_uses(g, {})[0];
}
NodeId look_up(GraphBuilder& b, NodeId table, NodeId index) {
  return b.gather(table, {index}, {4}, {Coordinate{0, {}}, Coordinate{-1, Expr(0)}});
}

TEST(Synthetic, IndicesStayInsideWhatTheyIndex) {
  auto direct = use_of([](GraphBuilder& b, NodeId x, NodeId t) { return look_up(b, t, x); });
  EXPECT_EQ(direct, (IntegerUse{0, 49, true, false}));
  auto shifted = use_of([](GraphBuilder& b, NodeId x, NodeId t) {
    NodeId moved = b.binary(BinaryOp::kAdd, x, b.scalar_int(DType::kInt64, 10));
    return look_up(b, t, b.cast(moved, DType::kInt32));
  });
  EXPECT_EQ(shifted, (IntegerUse{0, 39, true, false}));
  auto stepped = use_of([](GraphBuilder& b, NodeId x, NodeId t) {
    NodeId scaled = b.binary(BinaryOp::kMul, x, b.scalar_int(DType::kInt64, 7));
    return look_up(b, t, scaled);
  });
  EXPECT_EQ(stepped, (IntegerUse{0, 7, true, false}));
  auto running = use_of([](GraphBuilder& b, NodeId x, NodeId t) {
    return look_up(b, t, b.binary(BinaryOp::kAdd, x, b.iota(DType::kInt64, 4)));
  });
  EXPECT_EQ(running, (IntegerUse{0, 46, true, false}));
  // Negative positions count from the end: select(x < 0, x + 50, x).
  auto wrapped = use_of([](GraphBuilder& b, NodeId x, NodeId t) {
    NodeId negative = b.binary(BinaryOp::kLess, x, b.scalar_int(DType::kInt64, 0));
    NodeId moved = b.binary(BinaryOp::kAdd, x, b.scalar_int(DType::kInt64, 50));
    return look_up(b, t, b.select(negative, moved, x));
  });
  EXPECT_EQ(wrapped, (IntegerUse{0, 49, true, true}));
}

TEST(Synthetic, OtherIntegerUses) {
  auto divisor = use_of([](GraphBuilder& b, NodeId x, NodeId) {
    return b.binary(BinaryOp::kMod, b.iota(DType::kInt64, 4), x);
  });
  EXPECT_EQ(divisor.least, 1);
  auto mask = use_of([](GraphBuilder& b, NodeId x, NodeId) { return b.cast(x, DType::kFloat32); });
  EXPECT_EQ(mask, (IntegerUse{0, 7, false, true}));
  auto free =
      use_of([](GraphBuilder& b, NodeId x, NodeId) { return b.binary(BinaryOp::kAdd, x, x); });
  EXPECT_EQ(free, (IntegerUse{}));

  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kInt64, {3, 5}, "mask");
  b.output(b.cast(x, DType::kFloat32));
  Graph g = b.finish();
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Numbers values = numbers(synthetic_inputs(g, {}, seed, InputPattern::kNormal).value()[0]);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(values[i] == 1 || (values[i] == 0 && i % 5 != 0));
    }
  }
}

TEST(Synthetic, IndicesInsideLoopsAreSeen) {
  GraphBuilder body;
  NodeId c = body.input(InputKind::kUser, DType::kFloat32, {4}, "c");
  NodeId index = body.input(InputKind::kUser, DType::kInt64, {4}, "i");
  body.output(body.gather(c, {index}, {4}, {Coordinate{0, {}}}));
  GraphBuilder b;
  NodeId start = b.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  NodeId where = b.input(InputKind::kUser, DType::kInt64, {4}, "where");
  LoopAttr loop;
  loop.body = std::make_shared<Graph>(body.finish());
  loop.trip_count = 2;
  loop.carried = 1;
  loop.invariant = 1;
  NodeId l = b.raw({Op::kLoop, DType::kFloat32, {}, {start, where}, loop});
  b.output(b.raw({Op::kLoopResult, {}, {}, {l}, LoopResultAttr{0}}));
  EXPECT_EQ(integer_uses(b.finish(), {})[1], (IntegerUse{0, 3, true, false}));
}

TEST(Synthetic, SizesStaySmall) {
  GraphBuilder b;
  Expr s = b.new_symbol({0, INT64_MAX});
  Expr t = b.new_symbol({3, 5});
  b.output(b.input(InputKind::kUser, DType::kFloat32, {s, t, 4096, 64}, "x"));
  Graph g = b.finish();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int64_t> sizes = choose_sizes(g, seed);
    EXPECT_LE(sizes[0] * sizes[1] * 4096 * 64, int64_t{1} << 22);
    EXPECT_GE(sizes[0], 0);
    EXPECT_TRUE(sizes[1] >= 3 && sizes[1] <= 5);
  }
}

}  // namespace
}  // namespace common::testing
