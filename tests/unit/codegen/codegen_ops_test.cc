// Every operation, dtype and template of the code generator against the reference interpreter.
#include <cmath>
#include <functional>
#include <map>

#include "codegen_testing.h"

namespace testing_codegen {
namespace {

NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "x");
}

constexpr DType kIntegers[] = {DType::kUint8, DType::kInt8, DType::kInt16, DType::kInt32,
                               DType::kInt64};
constexpr DType kAll[] = {DType::kBool,    DType::kUint8,   DType::kInt8,     DType::kInt16,
                          DType::kInt32,   DType::kInt64,   DType::kFloat16,  DType::kBfloat16,
                          DType::kFloat32, DType::kFloat64, DType::kComplex64};

bool takes(UnaryOp op, DType d) {
  if (op == UnaryOp::kNot) return !is_float(d);
  if (op == UnaryOp::kNeg || op == UnaryOp::kAbs || op == UnaryOp::kSign) return d != DType::kBool;
  return is_float(d);
}
bool takes(BinaryOp op, DType d) {
  if (op >= BinaryOp::kAnd && op <= BinaryOp::kShr) return !is_float(d);
  if (op >= BinaryOp::kAtan2 && op <= BinaryOp::kNextafter) return is_float(d);
  if (d == DType::kBool) return is_comparison(op) || op == BinaryOp::kMin || op == BinaryOp::kMax;
  return true;
}

// Ordinary values, then every special one.
HostTensor telling_values(Random& random, DType dtype, int64_t count) {
  HostTensor t = random_tensor(random, dtype, {count}, -9, 9);
  const double special[] = {0.0,  -0.0, 1.0,  -1.0,  0.5,  2.0,   INFINITY, -INFINITY, NAN,
                            1e-9, 1e5,  -1e5, 0.999, 88.5, -88.5, 1e-40,    700,       -103.5};
  int64_t at = 0;
  for (double x : special) {
    if (is_float(dtype)) t.set(at, x);
    at += 3;
  }
  return t;
}

// The same bits as the interpreter's, for counters of all magnitudes.
TEST(CodegenOps, Philox) {
  Random random(11);
  constexpr int64_t kCount = 300;
  KernelBatch batch;
  for (DType d : {DType::kInt64, DType::kFloat32}) {
    GraphBuilder b;
    std::vector<NodeId> operands;
    std::vector<HostTensor> inputs;
    for (int k = 0; k < 4; ++k) {
      operands.push_back(input(b, DType::kInt64, {kCount}));
      inputs.push_back(HostTensor::zeros(DType::kInt64, {kCount}).value());
      for (int64_t i = 0; i < kCount; ++i) {
        auto bits = static_cast<int64_t>(random.next() >> random.below(64));
        inputs.back().set_int(i, k == 3 ? i : bits);
      }
    }
    b.output(b.philox(d, operands[0], operands[1], operands[2], operands[3]));
    batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
  }
  batch.compile();
  batch.check_all(0);
}

TEST(CodegenOps, EveryUnary) {
  Random random(3);
  KernelBatch batch;
  for (int k = 0; k < kUnaryOpCount; ++k) {
    for (DType d : {DType::kBool, DType::kUint8, DType::kInt8, DType::kInt16, DType::kInt32,
                    DType::kInt64, DType::kFloat32, DType::kFloat64}) {
      auto op = static_cast<UnaryOp>(k);
      if (!takes(op, d)) continue;
      GraphBuilder b;
      b.output(b.unary(op, input(b, d, {203})));
      batch.add(Template::kLoops, {}, b.finish(), {telling_values(random, d, 203)});
    }
  }
  batch.compile();
  batch.check_all();
}

// Densely, through zero and to where the result is 1, which it must not pass: 1 - y * y is not
// negative.
TEST(CodegenOps, ErfTanhAndSigmoidOverTheirRange) {
  constexpr int64_t kCount = 4800;
  KernelBatch batch;
  for (auto [op, end] : std::map<UnaryOp, double>{
           {UnaryOp::kErf, 12}, {UnaryOp::kTanh, 12}, {UnaryOp::kSigmoid, 120}}) {
    HostTensor x = HostTensor::zeros(DType::kFloat32, {kCount}).value();
    for (int64_t i = 0; i < kCount; ++i) {
      double place = 2 * static_cast<double>(i) / kCount - 1;
      x.set(i, i % 2 == 0 ? end * place : std::pow(place, 9));
    }
    GraphBuilder b;
    NodeId y = b.unary(op, input(b, DType::kFloat32, {kCount}));
    b.output(y);
    b.output(b.binary(BinaryOp::kLess, b.scalar(DType::kFloat32, 1), b.unary(UnaryOp::kAbs, y)));
    batch.add(Template::kLoops, {}, b.finish(), {std::move(x)});
  }
  batch.compile();
  batch.check_all(5e-7);
}

TEST(CodegenOps, EveryBinary) {
  Random random(4);
  KernelBatch batch;
  for (int k = 0; k < kBinaryOpCount; ++k) {
    for (DType d : {DType::kBool, DType::kUint8, DType::kInt8, DType::kInt16, DType::kInt32,
                    DType::kInt64, DType::kFloat32, DType::kFloat64}) {
      auto op = static_cast<BinaryOp>(k);
      if (!takes(op, d)) continue;
      GraphBuilder b;
      NodeId x = input(b, d, {203});
      NodeId y = input(b, d, {203});
      b.output(b.binary(op, x, y));
      HostTensor right = telling_values(random, d, 203);
      HostTensor left = random_tensor(random, d, {203}, -9, 9);
      if (is_float(d)) left.set(5, NAN);
      batch.add(Template::kLoops, {}, b.finish(), {left, right});
    }
  }
  batch.compile();
  batch.check_all();
}

TEST(CodegenOps, EveryCast) {
  Random random(5);
  KernelBatch batch;
  for (DType from : kAll) {
    for (DType to : kAll) {
      if (from == to) continue;
      GraphBuilder b;
      b.output(b.raw({Op::kCast, to, {101}, {input(b, from, {101})}, {}}));
      HostTensor x = random_tensor(random, from, {101}, from == DType::kUint8 ? 0 : -100, 100);
      batch.add(Template::kLoops, {}, b.finish(), {x});
    }
  }
  batch.compile();
  batch.check_all();
}

// Also those that another type has no number for.
TEST(CodegenOps, SpecialNumbersAreCast) {
  Random random(12);
  KernelBatch batch;
  const DType floats[] = {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64};
  for (DType from : floats) {
    for (DType to : floats) {
      if (from == to) continue;
      GraphBuilder b;
      b.output(b.raw({Op::kCast, to, {101}, {input(b, from, {101})}, {}}));
      batch.add(Template::kLoops, {}, b.finish(), {telling_values(random, from, 101)});
    }
  }
  batch.compile();
  batch.check_all();
}

// A constant or what was bfloat16, boolean or small, and is only chosen, moved or given a sign
// before it is stored.
TEST(CodegenOps, NumbersThatBfloat16HoldsAreStoredAsTheyAre) {
  using With = std::function<NodeId(GraphBuilder&, NodeId)>;  // of 101 bfloat16 values in float32
  auto f32 = [](GraphBuilder& b, double value) { return b.scalar(DType::kFloat32, value); };
  auto through = [](DType between) {
    return [between](GraphBuilder& b, NodeId x) {
      return b.cast(b.cast(x, between), DType::kFloat32);
    };
  };
  auto padded = [](double fill) {
    return [fill](GraphBuilder& b, NodeId x) { return b.pad(x, 0, 3, 5, fill); };
  };
  const std::vector<With> exact = {
      [&](GraphBuilder& b, NodeId x) {
        return b.binary(BinaryOp::kMin, b.binary(BinaryOp::kMax, x, f32(b, 0)), f32(b, 6));
      },
      [](GraphBuilder& b, NodeId x) { return b.unary(UnaryOp::kNeg, b.unary(UnaryOp::kAbs, x)); },
      [&](GraphBuilder& b, NodeId x) {
        return b.select(b.binary(BinaryOp::kLess, x, f32(b, 0.1)), x, f32(b, 0.5));
      },
      [](GraphBuilder& b, NodeId x) {
        NodeId first = b.slice(b.iota(DType::kInt64, 101), 0, 0, 7);
        return b.gather(x, {first}, {7}, {{0, {}}});
      },
      padded(0),
      through(DType::kInt8),
      through(DType::kBool),
  };
  const std::vector<With> rounded = {
      [&](GraphBuilder& b, NodeId x) { return b.binary(BinaryOp::kMax, x, f32(b, 0.1)); },
      [&](GraphBuilder& b, NodeId x) {
        return b.select(b.binary(BinaryOp::kLess, x, f32(b, 0.5)), x, f32(b, 0.1));
      },
      [](GraphBuilder& b, NodeId x) { return b.binary(BinaryOp::kAdd, x, x); },
      [](GraphBuilder& b, NodeId x) { return b.unary(UnaryOp::kSqrt, x); },
      padded(0.1),
      through(DType::kInt16),
      through(DType::kFloat16),
  };
  Random random(13);
  KernelBatch batch;
  for (const auto* all : {&exact, &rounded}) {
    for (const With& with : *all) {
      GraphBuilder b;
      NodeId x = b.cast(input(b, DType::kBfloat16, {101}), DType::kFloat32);
      b.output(b.cast(with(b, x), DType::kBfloat16));
      batch.add(Template::kLoops, {}, b.finish(), {telling_values(random, DType::kBfloat16, 101)});
    }
  }
  batch.compile();
  batch.check_all();
  for (size_t k = 0; k < batch.size(); ++k) {
    bool found = batch.at(k).source.text.find("lf_bf16_from_exact") != std::string::npos;
    EXPECT_EQ(found, k < exact.size()) << batch.at(k).source.text;
  }
}

TEST(CodegenOps, EveryReduction) {
  Random random(6);
  KernelBatch batch;
  for (int k = 0; k < kReduceOpCount; ++k) {
    for (DType d : {DType::kBool, DType::kUint8, DType::kInt8, DType::kInt16, DType::kInt32,
                    DType::kInt64, DType::kFloat32, DType::kFloat64}) {
      auto op = static_cast<ReduceOp>(k);
      bool logical = op == ReduceOp::kAny || op == ReduceOp::kAll;
      bool position = op == ReduceOp::kArgmax || op == ReduceOp::kArgmin;
      if (logical != (d == DType::kBool) && !position) continue;
      for (const std::vector<int>& axes :
           {std::vector<int>{2}, std::vector<int>{0}, std::vector<int>{1}, std::vector<int>{0, 2},
            std::vector<int>{0, 1, 2}}) {
        if (position && axes.size() != 1) continue;
        GraphBuilder b;
        b.output(b.reduce(op, input(b, d, {3, 7, 41}), axes));
        batch.add(Template::kLoops, {}, b.finish(),
                  {random_tensor(random, d, {3, 7, 41}, d == DType::kUint8 ? 0 : -2, 3)});
      }
    }
  }
  // NaN, infinities, empty and long rows.
  for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kArgmax, ReduceOp::kSum}) {
    for (int64_t n : {0, 1, 5000}) {
      GraphBuilder b({{0, 100000}});
      b.output(b.reduce(op, input(b, DType::kFloat32, {4, Expr::symbol(0)}), {1}));
      HostTensor x = random_tensor(random, DType::kFloat32, {4, n}, 0, 1);
      if (n > 1 && op != ReduceOp::kSum) {
        x.set(100, NAN);
        x.set(n + 4, INFINITY);
        x.set(2 * n + 4, -INFINITY);
        x.set(3 * n, NAN);
        x.set(3 * n + 9, NAN);
      }
      batch.add(Template::kLoops, {}, b.finish(), {x});
    }
  }
  batch.compile();
  batch.check_all();
}

TEST(CodegenOps, PositionsTakeZerosOfBothSignsAsEqual) {
  KernelBatch batch;
  for (ReduceOp op : {ReduceOp::kArgmax, ReduceOp::kArgmin}) {
    for (DType d : {DType::kFloat32, DType::kFloat64}) {
      for (int axis : {0, 1}) {
        GraphBuilder b;
        b.output(b.reduce(op, input(b, d, {9, 9}), {axis}));
        HostTensor x = HostTensor::zeros(d, {9, 9}).value();
        for (int64_t i = 0; i < x.elements(); ++i) x.set(i, i * i % 3 == 0 ? 0.0 : -0.0);
        batch.add(Template::kLoops, {}, b.finish(), {x});
      }
    }
  }
  batch.compile();
  batch.check_all();
}

TEST(CodegenOps, Scans) {
  Random random(7);
  KernelBatch batch;
  for (int k = 0; k < kScanOpCount; ++k) {
    for (DType d : {DType::kUint8, DType::kInt8, DType::kInt32, DType::kInt64, DType::kFloat32,
                    DType::kFloat64}) {
      auto op = static_cast<ScanOp>(k);
      if (op == ScanOp::kLogSumExp && !is_float(d)) continue;
      for (int axis : {0, 1, 2}) {
        GraphBuilder b;
        NodeId x = input(b, d, {3, 9, 5});
        b.output(b.scan(op, b.binary(BinaryOp::kAdd, x, x), axis));
        batch.add(Template::kScan, {}, b.finish(),
                  {random_tensor(random, d, {3, 9, 5}, d == DType::kUint8 ? 0 : -2, 2)});
      }
    }
  }
  batch.compile();
  batch.check_all();
}

TEST(CodegenOps, Sorts) {
  Random random(8);
  KernelBatch batch;
  for (DType d : kAll) {
    if (d == DType::kComplex64) continue;
    for (int axis : {0, 1}) {
      for (bool descending : {false, true}) {
        GraphBuilder b;
        b.output(b.sort_indices(input(b, d, {150, 60}), axis, descending));
        HostTensor x = random_tensor(random, d, {150, 60}, d == DType::kUint8 ? 0 : -9, 9);
        if (is_float(d)) {
          for (int64_t i : {3, 77, 500}) x.set(i, NAN);
          for (int64_t i : {5, 65, 300}) x.set(i, -0.0);
          for (int64_t i : {6, 66, 301}) x.set(i, 0.0);
        }
        batch.add(Template::kSort, {}, b.finish(), {x});
      }
    }
  }
  batch.compile();
  batch.check_all();
}

// The first elements of lines in no order, in that of the sort, in the other one, and of few
// values.
TEST(CodegenOps, SortsOfFirstElements) {
  Random random(19);
  KernelBatch batch;
  constexpr int64_t kLength = 700;
  std::vector<HostTensor> lines;
  for (int shape = 0; shape < 3; ++shape) {
    HostTensor x = random_tensor(random, DType::kFloat32, {3, kLength}, -9, 9);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const auto place = static_cast<double>(i % kLength);
      if (shape == 1) x.set(i, i < kLength ? place : -place);
      if (shape == 2) x.set(i, std::floor(x.get(i) / 3));
    }
    for (int64_t i : {3, 800, 2000}) x.set(i, NAN);
    lines.push_back(std::move(x));
  }
  for (const HostTensor& x : lines) {
    for (bool is_symbolic : {false, true}) {
      for (bool descending : {false, true}) {
        for (int64_t count : {1, 2, 32, 33, 90, 150, 400}) {
          GraphBuilder b(is_symbolic ? std::vector<SymbolRange>{{400, 1000}}
                                     : std::vector<SymbolRange>{});
          const Expr length = is_symbolic ? Expr::symbol(0) : Expr(kLength);
          NodeId line = b.input(InputKind::kUser, DType::kFloat32, {3, length}, "x");
          b.output(b.sort_indices(b.unary(UnaryOp::kNeg, line), 1, descending, count));
          batch.add(Template::kSort, {}, b.finish(), {x});
        }
      }
    }
  }
  for (DType d : {DType::kFloat64, DType::kBfloat16, DType::kInt64, DType::kUint8, DType::kBool}) {
    for (int64_t count : {4, 60}) {
      GraphBuilder b;
      b.output(b.sort_indices(input(b, d, {500, 7}), 0, d != DType::kInt64, count));
      batch.add(Template::kSort, {}, b.finish(),
                {random_tensor(random, d, {500, 7}, d == DType::kUint8 ? 0 : -40, 40)});
    }
  }
  batch.compile();
  batch.check_all();
}

// Templates of their own that hold a reduction: of each line, of all lines, and of an update.
TEST(CodegenOps, OrderedOperationsHoldReductions) {
  Random random(12);
  KernelBatch batch;
  for (bool whole : {false, true}) {
    for (Template form : {Template::kSort, Template::kScan}) {
      GraphBuilder b;
      NodeId x = input(b, DType::kFloat32, {3, 200});
      std::vector<int> axes = whole ? std::vector<int>{0, 1} : std::vector<int>{1};
      NodeId scaled = b.binary(BinaryOp::kMul, x, b.reduce(ReduceOp::kSum, x, axes, true));
      b.output(form == Template::kSort ? b.sort_indices(scaled, 1, false)
                                       : b.scan(ScanOp::kMax, scaled, 1));
      batch.add(form, {}, b.finish(), {random_tensor(random, DType::kFloat32, {3, 200}, 0, 1)});
    }
  }
  for (DType d : {DType::kFloat32, DType::kFloat64}) {
    GraphBuilder b;
    NodeId base = input(b, d, {64, 8});
    NodeId sums = b.reduce(ReduceOp::kSum, input(b, d, {1, 8, 300}), {2});
    NodeId at = b.view(input(b, DType::kInt64, {1}), View{{1, 8}, {Expr::index(0)}, {}, 0});
    b.output(b.scatter(ScatterMode::kAssign, base, sums, {at}, {{0, 0}, {-1, Expr::index(1)}}));
    batch.add(Template::kScatter, {}, b.finish(),
              {random_tensor(random, d, {64, 8}), random_tensor(random, d, {1, 8, 300}, 0, 1),
               random_tensor(random, DType::kInt64, {1}, 5, 6)});
  }
  batch.compile();
  batch.check_all();
}

// As a router orders its experts: a line's threads compute the softmax that they sort, also where
// they are more than its elements.
TEST(CodegenOps, SortsOfSoftmax) {
  Random random(13);
  KernelBatch batch;
  for (int64_t experts : {6, 100, 128}) {
    for (int axis : {0, 1}) {
      GraphBuilder b;
      std::vector<int64_t> sizes = {3, experts};
      if (axis == 0) std::swap(sizes[0], sizes[1]);
      Shape shape(sizes.begin(), sizes.end());
      NodeId scores = b.cast(input(b, DType::kBfloat16, shape), DType::kFloat32);
      NodeId softmax =
          b.raw({Op::kSoftmax, DType::kFloat32, shape, {scores}, SoftmaxAttr{axis, false}});
      b.output(b.sort_indices(softmax, axis, true));
      batch.add(Template::kSort, {}, b.finish(),
                {random_tensor(random, DType::kBfloat16, sizes, -4, 4)});
    }
  }
  batch.compile();
  batch.check_all();
}

// One step's keys into a cache: heads that are normalised and rotated, stored at a position that
// may lie outside of it. On a GPU loops compute them, wherever the sums of a head are.
TEST(CodegenOps, ScattersOfRotatedHeads) {
  Random random(21);
  KernelBatch batch;
  constexpr int64_t kHeads = 3, kWidth = 64, kPlaces = 10;
  for (DType d : {DType::kFloat32, DType::kBfloat16}) {
    for (bool is_normal : {false, true}) {
      for (int64_t position : {-1, 0, 9, 10}) {
        GraphBuilder b;
        Shape shape = {kHeads, 1, kWidth};
        NodeId x = b.cast(input(b, d, shape), DType::kFloat32);
        NodeId turns = input(b, DType::kFloat32, {kWidth});
        NodeId cache = input(b, d, {kHeads, kPlaces, kWidth});
        NodeId place = input(b, DType::kInt64, {1});
        if (is_normal) {
          NodeId squares = b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, x, x), {2}, true);
          x = b.binary(BinaryOp::kMul, x, b.expand(b.unary(UnaryOp::kRsqrt, squares), shape));
        }
        NodeId turned = b.concat({b.unary(UnaryOp::kNeg, b.slice(x, 2, kWidth / 2, kWidth / 2)),
                                  b.slice(x, 2, 0, kWidth / 2)},
                                 2);
        NodeId key =
            b.binary(BinaryOp::kAdd, x, b.binary(BinaryOp::kMul, turned, b.expand(turns, shape)));
        NodeId at = b.view(place, View{{kHeads, 1, kWidth}, {Expr::index(0) * 0}, {}, 0});
        b.output(b.scatter(ScatterMode::kAssign, cache, b.cast(key, d), {at},
                           {{-1, Expr::index(0)}, {0, 0}, {-1, Expr::index(2)}}));
        batch.add(Template::kScatter, {}, b.finish(),
                  {random_tensor(random, d, {kHeads, 1, kWidth}),
                   random_tensor(random, DType::kFloat32, {kWidth}),
                   random_tensor(random, d, {kHeads, kPlaces, kWidth}),
                   random_tensor(random, DType::kInt64, {1}, static_cast<double>(position),
                                 static_cast<double>(position) + 1)});
      }
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_EQ(batch.at(k).kernel.nest.has_value(), runs_on_gpu());
  }
  batch.check_all();
}

// Lines that no block of threads holds at once, of constant and of symbolic length.
TEST(CodegenOps, LongLines) {
  Random random(10);
  KernelBatch batch;
  for (bool symbolic : {false, true}) {
    for (int64_t n : {700, 5000}) {
      std::vector<SymbolRange> symbols;
      if (symbolic) symbols.push_back({1, 100'000});
      Expr length = symbolic ? Expr::symbol(0) : Expr(n);
      auto line = [&](GraphBuilder& b, DType d) {
        return b.input(InputKind::kUser, d, {2, length}, "x");
      };
      for (ScanOp op : {ScanOp::kSum, ScanOp::kMax, ScanOp::kLogSumExp}) {
        GraphBuilder b(symbols);
        b.output(b.scan(op, line(b, DType::kFloat32), 1));
        batch.add(Template::kScan, {}, b.finish(),
                  {random_tensor(random, DType::kFloat32, {2, n})});
      }
      for (DType d : {DType::kInt16, DType::kInt64, DType::kInt8, DType::kUint8, DType::kBool}) {
        const double most = d == DType::kInt8 ? 128 : d == DType::kUint8 ? 256 : 400;
        GraphBuilder b(symbols);
        b.output(b.sort_indices(line(b, d), 1, d != DType::kUint8));
        batch.add(Template::kSort, {}, b.finish(),
                  {random_tensor(random, d, {2, n}, d == DType::kUint8 ? 0 : -most, most)});
      }
    }
  }
  batch.compile();
  batch.check_all();
}

TEST(CodegenOps, Scatters) {
  Random random(9);
  KernelBatch batch;
  for (int k = 0; k < kScatterModeCount; ++k) {
    for (DType d : {DType::kBool, DType::kInt8, DType::kInt32, DType::kFloat32, DType::kFloat64}) {
      auto mode = static_cast<ScatterMode>(k);
      GraphBuilder b;
      NodeId base = input(b, d, {4, 10, 6});
      NodeId updates = input(b, d, {4, 7, 6});
      NodeId index = input(b, DType::kInt64, {7});
      Shape shape = {4, 7, 6};
      NodeId spread = b.view(index, View{shape, {Expr::index(1)}, {}, 0});
      b.output(b.scatter(mode, base, updates, {spread},
                         {{-1, Expr::index(0)}, {0, 0}, {-1, Expr::index(2)}}));
      batch.add(Template::kScatter, {}, b.finish(),
                {random_tensor(random, d, {4, 10, 6}), random_tensor(random, d, {4, 7, 6}),
                 random_tensor(random, DType::kInt64, {7}, -2, 12)});
    }
  }
  // The updates read the base.
  GraphBuilder b;
  NodeId base = input(b, DType::kFloat32, {10});
  NodeId index = input(b, DType::kInt32, {10});
  NodeId reversed = b.view(base, view_slice({10}, 0, 9, 10, -1));
  b.output(b.scatter(ScatterMode::kAdd, base, reversed, {index}, {{0, 0}}));
  batch.add(Template::kScatter, {}, b.finish(),
            {random_tensor(random, DType::kFloat32, {10}),
             random_tensor(random, DType::kInt32, {10}, 0, 10)});
  batch.compile();
  batch.check_all();
  for (size_t k = 0; k < batch.size(); ++k) {
    batch.check(k, 2e-6, 3);
    // The output may be the base's memory.
    const std::string& text = batch.at(k).source.text;
    for (const char* promise :
         {"restrict__ in", "restrict__ out", "restrict const in", "restrict const out"}) {
      EXPECT_EQ(text.find(promise), std::string::npos) << text;
    }
  }
}

TEST(CodegenOps, ViewsGathersAndSelects) {
  Random random(10);
  KernelBatch batch;
  for (DType d : kAll) {
    GraphBuilder b;
    NodeId x = input(b, d, {5, 8});
    NodeId y = input(b, d, {3, 8});
    NodeId joined = b.concat({x, y, x}, 0);
    NodeId padded = b.pad(b.slice(joined, 1, 1, 5), 1, 2, 1, 7);
    NodeId transposed = b.permute(b.reshape(padded, {13, 2, 4}), {2, 0, 1});
    b.output(transposed);
    b.output(joined);
    batch.add(Template::kLoops, {}, b.finish(),
              {random_tensor(random, d, {5, 8}, d == DType::kUint8 ? 0 : -3, 9),
               random_tensor(random, d, {3, 8}, d == DType::kUint8 ? 0 : -3, 9)});
  }
  for (DType d : kIntegers) {
    GraphBuilder b;
    NodeId table = input(b, DType::kFloat32, {20, 9});
    NodeId index = input(b, d, {3, 4});
    Shape shape = {3, 4, 9};
    NodeId spread = b.view(index, View{shape, {Expr::index(0), Expr::index(1)}, {}, 0});
    NodeId rows = b.gather(table, {spread}, shape, {{0, 0}, {-1, Expr::index(2)}});
    b.output(b.binary(BinaryOp::kMul, rows, rows));
    b.output(b.reduce(ReduceOp::kMax, rows, {2}));
    batch.add(Template::kLoops, {}, b.finish(),
              {random_tensor(random, DType::kFloat32, {20, 9}),
               random_tensor(random, d, {3, 4}, d == DType::kUint8 ? 0 : -4, 25)});
  }
  batch.compile();
  batch.check_all();
}

// What is left of a division of a negative position, which C would round up, or let be negative.
TEST(CodegenOps, PositionsBelowZeroAreRoundedDown) {
  Random random(13);
  KernelBatch batch;
  Expr s0 = Expr::symbol(0), i = Expr::index(0);
  for (const Expr& index : {common::floor_div(i - s0, 2) + s0, common::mod(i - s0, 3)}) {
    for (int64_t n : {4, 7, 16}) {
      GraphBuilder b({{4, 16}});
      NodeId x = input(b, DType::kFloat32, {s0});
      b.output(b.view(x, View{{s0}, {index}, {{index, s0}}, 0.5}));
      batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, DType::kFloat32, {n})});
    }
  }
  batch.compile();
  batch.check_all();
}

TEST(CodegenOps, SymbolicSizes) {
  Random random(11);
  KernelBatch batch;
  for (int64_t n : {0, 1, 2, 31, 64, 1000}) {
    for (int64_t m : {0, 1, 7}) {
      GraphBuilder b({{0, 2000}, {0, 10}});
      Expr s0 = Expr::symbol(0);
      Expr s1 = Expr::symbol(1);
      NodeId x = input(b, DType::kFloat32, {s1, s0});
      NodeId shifted = b.pad(x, 1, 1, 1, 0.5);
      NodeId soft = b.raw(
          {Op::kSoftmax, DType::kFloat32, b.shape(shifted), {shifted}, SoftmaxAttr{1, false}});
      NodeId flat = b.reshape(soft, {(s0 + 2) * s1});
      b.output(flat);
      b.output(b.reduce(ReduceOp::kSum, x, {0, 1}));
      b.output(b.binary(BinaryOp::kAdd, x, b.cast(b.iota(DType::kInt64, s0), DType::kFloat32)));
      batch.add(Template::kLoops, {}, b.finish(), {random_tensor(random, DType::kFloat32, {m, n})});
    }
  }
  batch.compile();
  batch.check_all();
}

}  // namespace
}  // namespace testing_codegen
