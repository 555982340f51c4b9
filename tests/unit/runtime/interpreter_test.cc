// Elementwise operations, casts, reductions, scans, sorts, products: against values worked out by
// hand or by a plain loop.
#include <cmath>
#include <complex>
#include <cstring>

#include "common/base/random.h"
#include "tests/unit/runtime/interpreter_testing.h"

namespace common::testing {
namespace {

using Nodes = std::vector<NodeId>;

HostTensor unary(UnaryOp op, const HostTensor& x, Precision precision = Precision::kModel) {
  return compute(
      {x}, [op](GraphBuilder& b, const Nodes& n) { return b.unary(op, n[0]); }, precision);
}
HostTensor binary(BinaryOp op, const HostTensor& x, const HostTensor& y) {
  return compute({x, y},
                 [op](GraphBuilder& b, const Nodes& n) { return b.binary(op, n[0], n[1]); });
}
HostTensor cast(const HostTensor& x, DType to) {
  return compute({x}, [to](GraphBuilder& b, const Nodes& n) { return b.cast(n[0], to); });
}
HostTensor reduce(ReduceOp op, const HostTensor& x, std::vector<int> axes) {
  return compute({x}, [&](GraphBuilder& b, const Nodes& n) { return b.reduce(op, n[0], axes); });
}
HostTensor row(DType dtype, const Numbers& values) {
  return tensor(dtype, {static_cast<int64_t>(values.size())}, values);
}

TEST(Interpreter, UnaryFloats) {
  auto x = row(DType::kFloat32, {-1.5, -0.5, 0, 0.5, 2.5, kNan, kInf});
  expect_numbers(unary(UnaryOp::kNeg, x), {1.5, 0.5, 0, -0.5, -2.5, kNan, -kInf});
  expect_numbers(unary(UnaryOp::kAbs, x), {1.5, 0.5, 0, 0.5, 2.5, kNan, kInf});
  expect_numbers(unary(UnaryOp::kSign, x), {-1, -1, 0, 1, 1, 0, 1});
  expect_numbers(unary(UnaryOp::kRound, x), {-2, 0, 0, 0, 2, kNan, kInf});
  expect_numbers(unary(UnaryOp::kFloor, x), {-2, -1, 0, 0, 2, kNan, kInf});
  expect_numbers(unary(UnaryOp::kCeil, x), {-1, 0, 0, 1, 3, kNan, kInf});
  expect_numbers(unary(UnaryOp::kTrunc, x), {-1, 0, 0, 0, 2, kNan, kInf});
  expect_numbers(unary(UnaryOp::kIsNan, x), {0, 0, 0, 0, 0, 1, 0});
  expect_numbers(unary(UnaryOp::kIsInf, x), {0, 0, 0, 0, 0, 0, 1});
  expect_numbers(unary(UnaryOp::kSqrt, x),
                 {kNan, kNan, 0, 0.70710678118654752, 1.5811388300841898, kNan, kInf}, 1e-7);
  expect_numbers(unary(UnaryOp::kSigmoid, x),
                 {0.18242552380635635, 0.37754066879814544, 0.5, 0.62245933120185459,
                  0.92414181997875655, kNan, 1},
                 1e-7);
}

TEST(Interpreter, SpecialFunctions) {
  // Values from tables (Abramowitz and Stegun 6.3, 7.1; erfinv by inverting erf).
  expect_numbers(
      unary(UnaryOp::kDigamma, row(DType::kFloat64, {1, 0.5, 10, -1.5, -2})),
      {-0.57721566490153286, -1.9635100260214235, 2.2517525890667211, 0.70315664064524319, kNan},
      1e-13);
  expect_numbers(unary(UnaryOp::kDigamma, row(DType::kFloat32, {0, -0.0})), {-kInf, kInf});
  expect_numbers(unary(UnaryOp::kLgamma, row(DType::kFloat64, {5, 0.5})),
                 {3.1780538303479458, 0.57236494292470008}, 1e-14);
  auto y = unary(UnaryOp::kErfinv, row(DType::kFloat64, {0, 0.5, -0.9, 1, -1, 2}));
  expect_numbers(y, {0, 0.47693627620446987, -1.1630871536766743, kInf, -kInf, kNan}, 1e-13);
  // The nearest double to 0.999999 moves the result by up to 1e-11.
  expect_numbers(unary(UnaryOp::kErfinv, row(DType::kFloat64, {0.999999})), {3.4589107372795002},
                 1e-11);
  for (double x : {1e-12, 0.1, 0.3, -0.7, 0.99, -0.9999}) {
    auto inverse = unary(UnaryOp::kErfinv, row(DType::kFloat64, {x}));
    EXPECT_NEAR(std::erf(inverse.get(0)), x, 4e-16) << x;
  }
}

TEST(Interpreter, UnaryIntegersWrap) {
  auto x = integers(DType::kInt8, {3}, {-128, 5, -3});
  expect_numbers(unary(UnaryOp::kAbs, x), {-128, 5, 3});
  expect_numbers(unary(UnaryOp::kNeg, x), {-128, -5, 3});
  expect_numbers(unary(UnaryOp::kNot, x), {127, -6, 2});
  expect_numbers(unary(UnaryOp::kSign, x), {-1, 1, -1});
  expect_numbers(unary(UnaryOp::kNot, integers(DType::kBool, {2}, {0, 1})), {1, 0});
}

TEST(Interpreter, BinaryFloats) {
  auto a = row(DType::kFloat32, {7, -7, 7, -7, 1, kNan, 0});
  auto c = row(DType::kFloat32, {3, 3, -3, -3, 0, 1, kNan});
  expect_numbers(binary(BinaryOp::kMod, a, c), {1, 2, -2, -1, kNan, kNan, kNan});
  expect_numbers(binary(BinaryOp::kFmod, a, c), {1, -1, 1, -1, kNan, kNan, kNan});
  expect_numbers(binary(BinaryOp::kFloorDiv, a, c), {2, -3, -3, 2, kInf, kNan, kNan});
  expect_numbers(binary(BinaryOp::kMax, a, c), {7, 3, 7, -3, 1, kNan, kNan});
  expect_numbers(binary(BinaryOp::kMin, a, c), {3, -7, -3, -7, 0, kNan, kNan});
  expect_numbers(binary(BinaryOp::kLess, a, c), {0, 1, 0, 1, 0, 0, 0});
  expect_numbers(binary(BinaryOp::kNotEqual, a, c), {1, 1, 1, 1, 1, 1, 1});
  expect_numbers(binary(BinaryOp::kPow, a, c), {343, -343, 1.0 / 343, -1.0 / 343, 1, kNan, kNan},
                 1e-7);
  expect_numbers(binary(BinaryOp::kCopysign, a, c), {7, 7, -7, -7, 1, kNan, 0});
}

TEST(Interpreter, FloatRemaindersRoundOnce) {
  // 0.1f is slightly more than 0.1, so that one tenth fits 9 times into 1.
  auto a = row(DType::kFloat32, {1.0});
  auto c = row(DType::kFloat32, {0.1});
  expect_numbers(binary(BinaryOp::kFloorDiv, a, c), {9});
}

TEST(Interpreter, BinaryIntegers) {
  auto a = integers(DType::kInt32, {6}, {7, -7, 7, -7, INT32_MIN, 5});
  auto c = integers(DType::kInt32, {6}, {3, 3, -3, -3, -1, 0});
  expect_numbers(binary(BinaryOp::kDiv, a, c), {2, -2, -2, 2, INT32_MIN, 0});
  expect_numbers(binary(BinaryOp::kFloorDiv, a, c), {2, -3, -3, 2, INT32_MIN, 0});
  expect_numbers(binary(BinaryOp::kMod, a, c), {1, 2, -2, -1, 0, 0});
  expect_numbers(binary(BinaryOp::kFmod, a, c), {1, -1, 1, -1, 0, 0});
  auto base = integers(DType::kInt64, {6}, {3, -2, 2, 1, -1, -1});
  auto power = integers(DType::kInt64, {6}, {4, 3, -1, -5, -3, -4});
  expect_numbers(binary(BinaryOp::kPow, base, power), {81, -8, 0, 1, -1, 1});
  auto x = integers(DType::kInt8, {5}, {1, -128, -128, 64, -1});
  auto by = integers(DType::kInt8, {5}, {7, 1, 8, -1, 3});
  expect_numbers(binary(BinaryOp::kShl, x, by), {-128, 0, 0, 0, -8});
  expect_numbers(binary(BinaryOp::kShr, x, by), {0, -64, -1, 0, -1});
  auto u = integers(DType::kUint8, {2}, {200, 3});
  auto v = integers(DType::kUint8, {2}, {100, 5});
  expect_numbers(binary(BinaryOp::kAdd, u, v), {44, 8});
  expect_numbers(binary(BinaryOp::kSub, v, u), {156, 2});
  auto big = integers(DType::kInt64, {1}, {INT64_MAX});
  auto two = integers(DType::kInt64, {1}, {2});
  EXPECT_EQ(binary(BinaryOp::kMul, big, two).get_int(0), -2);
}

TEST(Interpreter, Booleans) {
  auto a = integers(DType::kBool, {4}, {0, 0, 1, 1});
  auto c = integers(DType::kBool, {4}, {0, 1, 0, 1});
  expect_numbers(binary(BinaryOp::kAnd, a, c), {0, 0, 0, 1});
  expect_numbers(binary(BinaryOp::kMax, a, c), {0, 1, 1, 1});
  expect_numbers(binary(BinaryOp::kXor, a, c), {0, 1, 1, 0});
  expect_numbers(binary(BinaryOp::kLess, a, c), {0, 1, 0, 0});
  expect_numbers(binary(BinaryOp::kLessEqual, a, c), {1, 1, 0, 1});
  expect_numbers(reduce(ReduceOp::kAny, a, {0}), {1});
  expect_numbers(reduce(ReduceOp::kAll, a, {0}), {0});
}

TEST(Interpreter, Casts) {
  auto x = row(DType::kFloat32, {2.9, -2.9, 3e9, kNan, -kInf, 300});
  expect_numbers(cast(x, DType::kInt32), {2, -2, INT32_MIN, INT32_MIN, INT32_MIN, 300});
  auto wide = cast(x, DType::kInt64);
  EXPECT_EQ(wide.get_int(2), 3000000000);
  EXPECT_EQ(wide.get_int(3), INT64_MIN);
  EXPECT_EQ(cast(x, DType::kInt8).get_int(5), 44);
  EXPECT_EQ(cast(x, DType::kUint8).get_int(1), 254);
  expect_numbers(cast(x, DType::kBool), {1, 1, 1, 1, 1, 1});
  expect_numbers(cast(row(DType::kFloat32, {0, -0.0, 0.1}), DType::kBool), {0, 0, 1});
  // Half way between two bfloat16 (and half) values: the even one.
  expect_numbers(cast(row(DType::kFloat32, {1.00390625, 1.01171875, 3e38}), DType::kBfloat16),
                 {1, 1.015625, 3.0044338711190084e38}, 1e-3);
  EXPECT_EQ(cast(row(DType::kFloat32, {1.01171875}), DType::kBfloat16).get(0), 1.015625);
  expect_numbers(cast(row(DType::kFloat32, {2049, 2051, 65520, 65519, 0x1p-25}), DType::kFloat16),
                 {2048, 2052, kInf, 65504, 0});
  EXPECT_EQ(cast(integers(DType::kInt64, {1}, {16777217}), DType::kFloat32).get(0), 16777216);
}

TEST(Interpreter, SelectBroadcasts) {
  auto c = integers(DType::kBool, {2, 1}, {1, 0});
  auto a = tensor(DType::kBfloat16, {3}, {1, 2, 3});
  auto z = tensor(DType::kBfloat16, {}, {9});
  auto out = compute({c, a, z},
                     [](GraphBuilder& b, const Nodes& n) { return b.select(n[0], n[1], n[2]); });
  expect_numbers(out, {1, 2, 3, 9, 9, 9});
}

TEST(Interpreter, Reductions) {
  auto x = counting(DType::kFloat32, {2, 3, 4});
  expect_numbers(reduce(ReduceOp::kSum, x, {2}), {6, 22, 38, 54, 70, 86});
  expect_numbers(reduce(ReduceOp::kSum, x, {0}), {12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34});
  expect_numbers(reduce(ReduceOp::kSum, x, {0, 2}), {60, 92, 124});
  expect_numbers(reduce(ReduceOp::kMax, x, {0, 1, 2}), {23});
  expect_numbers(reduce(ReduceOp::kProd, row(DType::kFloat32, {2, 3, 4}), {0}), {24});
  expect_numbers(reduce(ReduceOp::kProd, integers(DType::kInt8, {3}, {100, 3, 1}), {0}), {44});
  expect_numbers(reduce(ReduceOp::kMin, row(DType::kFloat32, {2, kNan, 1}), {0}), {kNan});
  expect_numbers(reduce(ReduceOp::kArgmax, row(DType::kFloat32, {2, 5, kNan, 7, kNan}), {0}), {2});
  expect_numbers(reduce(ReduceOp::kArgmin, row(DType::kFloat32, {2, 1, 7, 1}), {0}), {1});
  expect_numbers(reduce(ReduceOp::kArgmax, integers(DType::kBool, {3}, {0, 1, 1}), {0}), {1});
  auto empty = tensor(DType::kFloat32, {2, 0}, {});
  expect_numbers(reduce(ReduceOp::kSum, empty, {1}), {0, 0});
  expect_numbers(reduce(ReduceOp::kProd, empty, {1}), {1, 1});
  expect_numbers(reduce(ReduceOp::kMax, empty, {1}), {-kInf, -kInf});
  expect_numbers(reduce(ReduceOp::kMin, empty, {1}), {kInf, kInf});
  EXPECT_EQ(reduce(ReduceOp::kMax, empty, {0}).elements(), 0);
  expect_numbers(reduce(ReduceOp::kAll, integers(DType::kBool, {0}, {}), {0}), {1});
}

TEST(Interpreter, SumsAccumulateInDouble) {
  // In float32 every 1 would vanish beside 2^24.
  Numbers values(1001, 1.0);
  values[0] = 16777216;
  expect_numbers(reduce(ReduceOp::kSum, row(DType::kFloat32, values), {0}), {16778216});
  HostTensor columns = tensor(DType::kFloat32, {1001, 1}, values);
  auto out = compute({columns}, [](GraphBuilder& b, const Nodes& n) {
    return b.reduce(ReduceOp::kSum, b.expand(n[0], {1001, 600}), {0});
  });
  expect_numbers(out, Numbers(600, 16778216));
}

TEST(Interpreter, WideColumnsReduceInBlocks) {
  auto x = counting(DType::kFloat64, {3, 1300});
  auto sums = reduce(ReduceOp::kSum, x, {0});
  auto least = reduce(ReduceOp::kMin, x, {0});
  for (int64_t j = 0; j < 1300; ++j) {
    EXPECT_EQ(sums.get(j), 3.0 * static_cast<double>(j) + 3900);
    EXPECT_EQ(least.get(j), static_cast<double>(j));
  }
}

HostTensor scan(ScanOp op, const HostTensor& x, int axis) {
  return compute({x}, [&](GraphBuilder& b, const Nodes& n) { return b.scan(op, n[0], axis); });
}

TEST(Interpreter, Scans) {
  auto x = tensor(DType::kFloat32, {2, 3}, {1, 2, 3, 4, -5, 6});
  expect_numbers(scan(ScanOp::kSum, x, 1), {1, 3, 6, 4, -1, 5});
  expect_numbers(scan(ScanOp::kSum, x, 0), {1, 2, 3, 5, -3, 9});
  expect_numbers(scan(ScanOp::kProd, x, 1), {1, 2, 6, 4, -20, -120});
  expect_numbers(scan(ScanOp::kMax, row(DType::kFloat32, {1, kNan, 3}), 0), {1, kNan, kNan});
  expect_numbers(scan(ScanOp::kMin, integers(DType::kInt64, {4}, {3, 4, 1, 2}), 0), {3, 3, 1, 1});
  expect_numbers(scan(ScanOp::kLogSumExp, row(DType::kFloat64, {-kInf, 0, 0, 1000, kInf}), 0),
                 {-kInf, 0, std::log(2.0), 1000, kInf}, 1e-15);
}

TEST(Interpreter, SortsStablyWithNanGreatest) {
  auto x = row(DType::kFloat32, {2, kNan, 1, 2, kNan, -kInf});
  auto sort = [&](const HostTensor& t, int axis, bool descending, int64_t count = 0) {
    return compute({t}, [&](GraphBuilder& b, const Nodes& n) {
      return b.sort_indices(n[0], axis, descending, count);
    });
  };
  expect_numbers(sort(x, 0, false), {5, 2, 0, 3, 1, 4});
  expect_numbers(sort(x, 0, true), {1, 4, 0, 3, 2, 5});
  auto y = integers(DType::kInt32, {3, 2}, {3, 1, 1, 1, 2, 0});
  expect_numbers(sort(y, 0, false), {1, 2, 2, 0, 0, 1});
  expect_numbers(sort(x, 0, true, 3), {1, 4, 0});
  expect_numbers(sort(y, 0, false, 2), {1, 2, 2, 0});
  expect_numbers(sort(y, 1, false, 1), {1, 0, 1});
}

// A plain triple loop over [batch, m, k] and [k, n].
Numbers plain_matmul(const HostTensor& a, const HostTensor& b, int64_t batch, int64_t m, int64_t k,
                     int64_t n) {
  Numbers out;
  for (int64_t i = 0; i < batch * m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a.get(i * k + p) * b.get(p * n + j);
      out.push_back(static_cast<double>(static_cast<float>(sum)));
    }
  }
  return out;
}

HostTensor noise(DType dtype, std::vector<int64_t> sizes, uint64_t seed) {
  HostTensor result = HostTensor::zeros(dtype, std::move(sizes)).value();
  Random random(seed);
  for (int64_t i = 0; i < result.elements(); ++i) result.set(i, random.unit() * 2 - 1);
  return result;
}

TEST(Interpreter, MultiplyAndSumIsMatmul) {
  struct Case {
    int64_t batch, m, k, n;
  };
  for (const Case& c : {Case{1, 1, 5, 1}, Case{2, 3, 4, 5}, Case{1, 1, 300, 70}, Case{3, 130, 9, 2},
                        Case{1, 137, 513, 259}, Case{2, 2, 0, 3}}) {
    auto a = noise(DType::kFloat32, {c.batch, c.m, c.k}, 1);
    auto w = noise(DType::kFloat32, {c.k, c.n}, 2);
    auto matmul = [](GraphBuilder& b, const Nodes& n) { return b.matmul(n[0], n[1]); };
    expect_numbers(compute({a, w}, matmul), plain_matmul(a, w, c.batch, c.m, c.k, c.n), 1e-7);
    EXPECT_EQ(compute({a, w}, matmul, Precision::kWide).dtype(), DType::kFloat64);
  }
}

TEST(Interpreter, MatmulOfCastHalves) {
  auto a = noise(DType::kBfloat16, {1, 17, 40}, 1);
  auto w = noise(DType::kBfloat16, {40, 33}, 2);
  auto out = compute({a, w}, [](GraphBuilder& b, const Nodes& n) {
    return b.matmul(b.cast(n[0], DType::kFloat32), b.cast(n[1], DType::kFloat32));
  });
  expect_numbers(out, plain_matmul(a, w, 1, 17, 40, 33), 1e-7);
}

TEST(Interpreter, ProductReadTwiceIsStillRight) {
  auto x = row(DType::kFloat32, {1, 2, 3});
  GraphBuilder b;
  NodeId n = b.input(InputKind::kUser, DType::kFloat32, {3}, "x");
  NodeId product = b.binary(BinaryOp::kMul, n, n);
  b.output(b.reduce(ReduceOp::kSum, product, {0}));
  b.output(product);
  auto out = run_graph(b.finish(), {x});
  expect_numbers(out[0], {14});
  expect_numbers(out[1], {1, 4, 9});
}

TEST(Interpreter, DepthwiseSumsWithoutMatrix) {
  // Every result element has an operand row of its own: batch axes only.
  auto a = noise(DType::kFloat32, {6, 20, 7}, 3);
  auto w = noise(DType::kFloat32, {6, 20, 7}, 4);
  for (std::vector<int> axes : {std::vector<int>{2}, std::vector<int>{0}, std::vector<int>{0, 2}}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {6, 20, 7}, "a");
    NodeId y = b.input(InputKind::kUser, DType::kFloat32, {6, 20, 7}, "b");
    NodeId product = b.binary(BinaryOp::kMul, x, y);
    b.output(b.reduce(ReduceOp::kSum, product, axes));
    NodeId stored = b.binary(BinaryOp::kMul, y, x);
    b.output(b.reduce(ReduceOp::kSum, stored, axes));
    b.output(stored);
    auto out = run_graph(b.finish(), {a, w});
    expect_numbers(out[0], numbers(out[1]), 1e-6);
  }
}

TEST(Interpreter, Contract) {
  Graph g;
  g.inputs = {{InputKind::kUser, DType::kBfloat16, {2, 3, 4}, "a"},
              {InputKind::kUser, DType::kFloat32, {4, 2, 5}, "b"}};
  g.nodes = {{Op::kInput, DType::kBfloat16, {2, 3, 4}, {}, InputAttr{0}},
             {Op::kInput, DType::kFloat32, {4, 2, 5}, {}, InputAttr{1}},
             {Op::kContract,
              DType::kFloat32,
              {5, 2, 3},
              {0, 1},
              ContractAttr{{0, 1, 2}, {2, 0, 3}, {3, 0, 1}}}};
  g.outputs = {{OutputKind::kUser, 2, -1}};
  auto a = noise(DType::kBfloat16, {2, 3, 4}, 5);
  auto w = noise(DType::kFloat32, {4, 2, 5}, 6);
  Numbers expected;
  for (int64_t n = 0; n < 5; ++n) {
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t m = 0; m < 3; ++m) {
        double sum = 0;
        for (int64_t k = 0; k < 4; ++k) {
          sum += a.get((i * 3 + m) * 4 + k) * w.get((k * 2 + i) * 5 + n);
        }
        expected.push_back(sum);
      }
    }
  }
  expect_numbers(run_graph(g, {a, w})[0], expected, 1e-7);
}

Graph one_node(DType dtype, const Shape& shape, Op op, Attr attribute) {
  Graph g;
  g.inputs = {{InputKind::kUser, dtype, shape, "x"}};
  g.nodes = {{Op::kInput, dtype, shape, {}, InputAttr{0}},
             {op, dtype, shape, {0}, std::move(attribute)}};
  g.outputs = {{OutputKind::kUser, 1, -1}};
  return g;
}

TEST(Interpreter, SoftmaxAndItsLogarithm) {
  auto x = tensor(DType::kFloat32, {2, 3}, {1, 2, 3, -kInf, -kInf, -kInf});
  double z = std::exp(-2.0) + std::exp(-1.0) + 1;
  auto out = run_graph(one_node(DType::kFloat32, {2, 3}, Op::kSoftmax, SoftmaxAttr{1, false}), {x});
  expect_numbers(out[0], {std::exp(-2.0) / z, std::exp(-1.0) / z, 1 / z, kNan, kNan, kNan}, 1e-7);
  out = run_graph(one_node(DType::kFloat32, {2, 3}, Op::kSoftmax, SoftmaxAttr{1, true}), {x});
  expect_numbers(out[0], {-2 - std::log(z), -1 - std::log(z), -std::log(z), kNan, kNan, kNan},
                 1e-7);
  out = run_graph(one_node(DType::kFloat32, {2, 3}, Op::kSoftmax, SoftmaxAttr{0, false}), {x});
  expect_numbers(out[0], {1, 1, 1, 0, 0, 0});
}

// Of a length with two equal factors and another one, against sums over the points.
TEST(Interpreter, FourierTransforms) {
  constexpr int64_t kPoints = 12;
  std::vector<double> re, im;
  for (int64_t p = 0; p < kPoints; ++p) {
    re.push_back(static_cast<double>(p * p % 7));
    im.push_back(static_cast<double>(p % 5) - 2);
  }
  for (bool inverse : {false, true}) {
    for (bool imaginary : {false, true}) {
      std::vector<double> expected;
      for (int64_t q = 0; q < 9; ++q) {
        std::complex<double> sum = 0;
        for (size_t p = 0; p < re.size(); ++p) {
          double angle = (inverse ? 2 : -2) * M_PI * static_cast<double>(p) *
                         static_cast<double>(q) / static_cast<double>(kPoints);
          sum += std::complex<double>(re[p], im[p]) * std::polar(1.0, angle);
        }
        expected.push_back(imaginary ? sum.imag() : sum.real());
      }
      GraphBuilder b;
      NodeId x = b.input(InputKind::kUser, DType::kFloat64, {kPoints}, "");
      NodeId y = b.input(InputKind::kUser, DType::kFloat64, {kPoints}, "");
      b.output(b.fourier(x, y, {imaginary, inverse, 9}));
      auto out = run_graph(b.finish(), {tensor(DType::kFloat64, {kPoints}, re),
                                        tensor(DType::kFloat64, {kPoints}, im)});
      expect_numbers(out[0], expected, 1e-13);
    }
  }
}

TEST(Interpreter, Norms) {
  auto x = tensor(DType::kFloat64, {2, 2, 2}, {1, 2, 3, 6, 0, 0, 0, 0});
  NormAttr layer{2, true, 0.5};
  double s = 1 / std::sqrt(3.5 + 0.5);  // mean 3, variance 14 / 4
  expect_numbers(run_graph(one_node(DType::kFloat64, {2, 2, 2}, Op::kNorm, layer), {x})[0],
                 {-2 * s, -1 * s, 0, 3 * s, 0, 0, 0, 0}, 1e-15);
  NormAttr rms{1, false, 0.0};
  auto out = run_graph(one_node(DType::kFloat64, {2, 2, 2}, Op::kNorm, rms), {x})[0];
  expect_numbers(out,
                 {1 / std::sqrt(2.5), 2 / std::sqrt(2.5), 3 / std::sqrt(22.5), 6 / std::sqrt(22.5),
                  kNan, kNan, kNan, kNan},
                 1e-15);
}

}  // namespace
}  // namespace common::testing
