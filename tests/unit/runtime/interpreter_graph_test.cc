// Views, gathers, scatters, loops, symbols, errors and the two precisions of the interpreter.
#include <cstring>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "tests/unit/runtime/interpreter_testing.h"

namespace common::testing {
namespace {

using Nodes = std::vector<NodeId>;

// What a view means, element by element.
Numbers plain_view(const HostTensor& in, const View& view) {
  Numbers out;
  std::vector<int64_t> sizes = evaluate_shape(view.shape, {});
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    for (size_t k = sizes.size(); k-- > 0; rest /= sizes[k]) index[k] = rest % sizes[k];
    bool valid = true;
    for (const Validity& v : view.valid) {
      int64_t value = v.value.evaluate({}, index);
      valid = valid && value >= 0 && value < v.bound.evaluate({}, index);
    }
    int64_t position = 0;
    for (size_t k = 0; k < view.index.size(); ++k) {
      position = position * in.sizes()[k] + view.index[k].evaluate({}, index);
    }
    out.push_back(valid ? in.get(position) : view.fill);
  }
  return out;
}

// One view node, exactly as given, over an operand that is stored contiguously or transposed.
void check_view(const std::vector<int64_t>& sizes, const View& view) {
  auto x = counting(DType::kFloat32, sizes);
  Graph g;
  g.inputs = {{InputKind::kUser, DType::kFloat32, shape_of(sizes), "x"}};
  g.nodes = {{Op::kInput, DType::kFloat32, shape_of(sizes), {}, InputAttr{0}},
             {Op::kView, DType::kFloat32, view.shape, {0}, ViewAttr{view}}};
  g.outputs = {{OutputKind::kUser, 1, -1}};
  expect_numbers(run_graph(g, {x})[0], plain_view(x, view));

  // The same view of a turned tensor that was turned back lazily.
  std::vector<int> order;
  for (int k = static_cast<int>(sizes.size()); k-- > 0;) order.push_back(k);
  View turn = view_permute(shape_of(sizes), order);
  View back = view_permute(turn.shape, order);
  HostTensor turned = tensor(DType::kFloat32, evaluate_shape(turn.shape, {}), plain_view(x, turn));
  g.inputs[0].shape = turn.shape;
  g.nodes = {{Op::kInput, DType::kFloat32, turn.shape, {}, InputAttr{0}},
             {Op::kView, DType::kFloat32, back.shape, {0}, ViewAttr{back}},
             {Op::kView, DType::kFloat32, view.shape, {1}, ViewAttr{view}}};
  g.outputs[0].node = 2;
  expect_numbers(run_graph(g, {turned})[0], plain_view(x, view));
}

TEST(InterpreterViews, Movement) {
  Shape s = {3, 4};
  check_view({3, 4}, view_permute(s, std::vector<int>{1, 0}));
  check_view({3, 4}, *view_expand(s, {2, 3, 4}));
  check_view({3, 4}, view_slice(s, 1, 3, 4, -1));
  check_view({3, 4}, view_slice(s, 0, 1, 2, 1));
  check_view({3, 4}, view_pad(s, 1, 2, 1, 7.5));
  check_view({3, 4}, view_pad(s, 0, -1, 3, -1));
  check_view({3, 9}, view_unfold({3, 9}, 1, 4, 3, 2));
  check_view({3, 4}, view_unsqueeze(s, 1));
  check_view({}, *view_expand({}, {2, 2}));
}

TEST(InterpreterViews, Reshapes) {
  for (const Shape& to : {Shape{12}, Shape{4, 3}, Shape{2, 6}, Shape{6, 2}, Shape{2, 2, 3},
                          Shape{1, 12, 1}, Shape{3, 2, 2}}) {
    check_view({3, 4}, view_reshape({3, 4}, to, Bounds()));
  }
  // Merging axes that are not neighbours in memory needs split axes, or the general case.
  Shape s = {2, 3, 8};
  View turned = view_permute(s, std::vector<int>{1, 0, 2});
  for (const Shape& to : {Shape{3, 16}, Shape{48}, Shape{6, 8}, Shape{4, 12}, Shape{16, 3}}) {
    check_view({2, 3, 8}, *view_compose(view_reshape(turned.shape, to, Bounds()), turned, {}));
  }
}

TEST(InterpreterViews, PaddedWindows) {
  // im2col of a 3x3 convolution with stride 2 and padding 1, and unused axes.
  View padded = *view_compose(view_pad({2, 7, 9}, 1, 1, 1, 0), view_pad({2, 7, 9}, 2, 1, 1, 0), {});
  View padded_both =
      *view_compose(view_pad({2, 7, 11}, 1, 1, 1, 0), view_pad({2, 7, 9}, 2, 1, 1, 0), {});
  View rows = view_unfold(padded_both.shape, 1, 4, 3, 2);
  View windows = *view_compose(view_unfold(rows.shape, 2, 5, 3, 2), rows, {});
  View all = *view_compose(windows, padded_both, {});
  check_view({2, 7, 9}, all);
  check_view({2, 7, 9}, *view_compose(*view_expand(all.shape, {5, 2, 4, 5, 3, 3}), all, {}));
  EXPECT_EQ(padded.valid.size(), 2u);
}

TEST(InterpreterViews, GeneralExpressions) {
  Expr i = Expr::index(0);
  Expr j = Expr::index(1);
  check_view({10}, View{{10}, {mod(i + 3, 10)}, {}, 0});  // roll
  check_view({10}, View{{7, 3}, {mod(i * 3 + j * 2, 10)}, {}, 0});
  check_view({10}, View{{4, 600}, {min(i + j, 9)}, {}, 0});  // longer than a block
  check_view({10}, View{{4, 5}, {i + j}, {{i - j, 3}}, 5});
  check_view({10}, View{{4, 5}, {i * j}, {{i * j, 10}}, 5});
  check_view({10}, View{{2, 6}, {floor_div(j + i, 2)}, {{mod(j, 4), 3}}, -2});
  check_view({4}, View{{6}, {i}, {{i, 4}, {i - 1, 2}}, 9});
  // Valid beyond the row's end only, and nowhere.
  check_view({4}, View{{2}, {i - 3}, {{i - 3, 4}, {-1, 4}}, 9});
}

TEST(InterpreterViews, RandomViewsAgreeWithTheirMeaning) {
  Random random(11);
  for (int n = 0; n < 200; ++n) {
    Shape s = {static_cast<int64_t>(1 + random.below(4)), static_cast<int64_t>(1 + random.below(5)),
               static_cast<int64_t>(1 + random.below(4))};
    std::vector<int64_t> sizes = evaluate_shape(s, {});
    View view = view_identity(s);
    for (int step = 0; step < 4; ++step) {
      const Shape& now = view.shape;
      auto axis = static_cast<int>(random.below(now.size()));
      int64_t size = now[static_cast<size_t>(axis)].constant();
      View next;
      switch (random.below(5)) {
        case 0: {
          std::vector<int> order(now.size());
          for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
          std::swap(order[0], order[random.below(order.size())]);
          next = view_permute(now, order);
          break;
        }
        case 1:
          next = view_pad(now, axis, static_cast<int64_t>(random.below(3)),
                          static_cast<int64_t>(random.below(2)), 0.5);
          break;
        case 2:
          next = view_slice(now, axis, size - 1, size, -1);
          break;
        case 3: {
          Shape merged = {element_count(now)};
          next = view_reshape(now, merged, Bounds());
          break;
        }
        default: {
          int64_t count = element_count(now).constant();
          int64_t part = count % 2 == 0 ? 2 : count % 3 == 0 ? 3 : 1;
          next = view_reshape(now, {part, count / part}, Bounds());
          break;
        }
      }
      view = *view_compose(next, view, {});
    }
    SCOPED_TRACE(::testing::Message() << "view " << n);
    check_view(sizes, view);
  }
}

TEST(InterpreterViews, ReadingOutsideIsAnError) {
  Graph g;
  g.inputs = {{InputKind::kUser, DType::kFloat32, {4}, "x"}};
  g.nodes = {
      {Op::kInput, DType::kFloat32, {4}, {}, InputAttr{0}},
      {Op::kView, DType::kFloat32, {4}, {0}, ViewAttr{View{{4}, {Expr::index(0) + 1}, {}, 0}}}};
  g.outputs = {{OutputKind::kUser, 1, -1}};
  auto x = counting(DType::kFloat32, {4});
  for (const Expr& index : {Expr::index(0) + 1, Expr::index(0) - 1, Expr::index(0) * Expr::index(0),
                            mod(Expr::index(0) * 3, 7)}) {
    std::get<ViewAttr>(g.nodes[1].attr).view.index[0] = index;
    auto result = interpret(g, std::vector<HostTensor>{x}, {});
    ASSERT_FALSE(result.ok()) << index.text();
    EXPECT_EQ(result.error().code, Code::kInvalidInput);
  }
  // Invalid elements are not read.
  auto& view = std::get<ViewAttr>(g.nodes[1].attr).view;
  view = View{{4}, {Expr::index(0) + 1}, {{Expr::index(0), 3}}, 0.5};
  expect_numbers(run_graph(g, {x})[0], {1, 2, 3, 0.5});
}

TEST(InterpreterIndexing, GatherClamps) {
  auto table = tensor(DType::kFloat16, {3, 2}, {1, 2, 3, 4, 5, 6});
  auto rows = integers(DType::kInt32, {4}, {2, -5, 9, 1});
  auto out = compute({table, rows}, [](GraphBuilder& b, const Nodes& n) {
    return b.gather(n[0], {b.unsqueeze(n[1], 1)}, {4, 2},
                    {Coordinate{0, {}}, Coordinate{-1, Expr::index(1)}});
  });
  expect_numbers(out, {5, 6, 1, 2, 5, 6, 3, 4});
  // Two index tensors, the second broadcast along the first axis.
  auto columns = integers(DType::kInt64, {2}, {1, 0});
  out = compute({table, rows, columns}, [](GraphBuilder& b, const Nodes& n) {
    return b.gather(n[0], {b.unsqueeze(n[1], 1), n[2]}, {4, 2},
                    {Coordinate{0, {}}, Coordinate{1, {}}});
  });
  expect_numbers(out, {6, 5, 2, 1, 6, 5, 4, 3});
}

TEST(InterpreterIndexing, GatherFromATurnedTensor) {
  auto x = counting(DType::kFloat32, {2, 3});
  auto index = integers(DType::kInt64, {3, 1}, {1, 0, 1});
  auto out = compute({x, index}, [](GraphBuilder& b, const Nodes& n) {
    return b.gather(b.permute(n[0], {1, 0}), {n[1]}, {3, 1},
                    {Coordinate{-1, Expr::index(0)}, Coordinate{0, {}}});
  });
  expect_numbers(out, {3, 1, 5});
}

HostTensor scatter(ScatterMode mode, const HostTensor& base, const HostTensor& updates,
                   const HostTensor& index) {
  return compute({base, updates, index}, [mode](GraphBuilder& b, const Nodes& n) {
    return b.scatter(mode, n[0], n[1], {n[2]}, {Coordinate{0, {}}});
  });
}

TEST(InterpreterIndexing, ScatterModes) {
  auto base = tensor(DType::kFloat32, {4}, {1, 2, 3, 4});
  auto updates = tensor(DType::kFloat32, {5}, {10, 20, 30, 40, 50});
  auto index = integers(DType::kInt64, {5}, {1, 1, -1, 4, 3});
  expect_numbers(scatter(ScatterMode::kAssign, base, updates, index), {1, 20, 3, 50});
  expect_numbers(scatter(ScatterMode::kAdd, base, updates, index), {1, 32, 3, 54});
  expect_numbers(scatter(ScatterMode::kMul, base, updates, index), {1, 400, 3, 200});
  expect_numbers(scatter(ScatterMode::kMin, base, updates, index), {1, 2, 3, 4});
  expect_numbers(scatter(ScatterMode::kMax, base, updates, index), {1, 20, 3, 50});
  auto bytes = integers(DType::kUint8, {2}, {250, 1});
  expect_numbers(scatter(ScatterMode::kAdd, bytes, integers(DType::kUint8, {2}, {10, 1}),
                         integers(DType::kInt32, {2}, {0, 0})),
                 {5, 1});
}

TEST(InterpreterIndexing, ScatterBroadcastUpdates) {
  auto base = tensor(DType::kFloat32, {2, 3}, {0, 0, 0, 0, 0, 0});
  auto one = tensor(DType::kFloat32, {}, {1});
  auto rows = integers(DType::kInt64, {4, 1}, {1, 1, 0, 1});
  auto out = compute({base, one, rows}, [](GraphBuilder& b, const Nodes& n) {
    return b.scatter(ScatterMode::kAdd, n[0], b.expand(n[1], {4, 2}), {n[2]},
                     {Coordinate{0, {}}, Coordinate{-1, Expr::index(1) + 1}});
  });
  expect_numbers(out, {0, 1, 1, 0, 3, 3});
}

TEST(InterpreterGraphs, SymbolsAreReadOffTheInputs) {
  GraphBuilder b;
  Expr s = b.new_symbol({1, 100});
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {s, 2}, "x");
  NodeId flat = b.reshape(x, {s * 2});
  NodeId position = b.iota(DType::kInt64, s * 2);
  b.output(b.binary(BinaryOp::kAdd, flat, b.cast(position, DType::kFloat32)));
  b.output(b.size_scalar(DType::kInt64, s));
  b.output(b.concat({x, x}, 0));
  Graph g = b.finish();
  for (int64_t n : {1, 3, 7}) {
    auto out = run_graph(g, {counting(DType::kFloat32, {n, 2})});
    Numbers doubled;
    for (int64_t i = 0; i < 2 * n; ++i) doubled.push_back(2.0 * static_cast<double>(i));
    expect_numbers(out[0], doubled);
    expect_numbers(out[1], {static_cast<double>(n)});
    EXPECT_EQ(out[2].sizes(), (std::vector<int64_t>{2 * n, 2}));
    EXPECT_EQ(out[2].get(2 * n), 0);
    EXPECT_EQ(out[2].get(4 * n - 1), static_cast<double>(2 * n - 1));
  }
  auto bad = interpret(g, std::vector<HostTensor>{counting(DType::kFloat32, {101, 2})}, {});
  ASSERT_FALSE(bad.ok());
  auto wrong = interpret(g, std::vector<HostTensor>{counting(DType::kFloat64, {3, 2})}, {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("f64"), std::string::npos);
}

TEST(InterpreterGraphs, LoopsCarryInvariantAndPerIterationValues) {
  // carried' = carried * invariant + w[t]; outputs carried' + 1.
  GraphBuilder body;
  NodeId c = body.input(InputKind::kUser, DType::kFloat32, {2}, "c");
  NodeId v = body.input(InputKind::kUser, DType::kFloat32, {2}, "v");
  NodeId w = body.input(InputKind::kUser, DType::kFloat32, {2}, "w");
  NodeId next = body.binary(BinaryOp::kAdd, body.binary(BinaryOp::kMul, c, v), w);
  body.output(next);
  body.output(body.binary(BinaryOp::kAdd, next, body.scalar(DType::kFloat32, 1)));
  GraphBuilder b;
  Nodes in;
  std::vector<HostTensor> inputs;
  for (int k = 0; k < 5; ++k) {
    in.push_back(b.input(InputKind::kUser, DType::kFloat32, {2}, "x"));
    inputs.push_back(tensor(DType::kFloat32, {2}, {k + 1.0, 10.0 * k}));
  }
  LoopAttr attribute;
  attribute.body = std::make_shared<Graph>(body.finish());
  attribute.trip_count = 3;
  attribute.carried = 1;
  attribute.invariant = 1;
  attribute.per_iteration = 1;
  attribute.outputs = 1;
  NodeId loop = b.raw({Op::kLoop, DType::kFloat32, {}, in, attribute});
  for (int r = 0; r < 4; ++r) b.output(b.raw({Op::kLoopResult, {}, {}, {loop}, LoopResultAttr{r}}));
  b.output(in[0]);
  auto out = run_graph(b.finish(), inputs);
  // c = (1, 0), v = (2, 10), w = (3, 20), (4, 30), (5, 40)
  expect_numbers(out[0], {33, 2340});
  expect_numbers(out[1], {6, 21});
  expect_numbers(out[2], {15, 231});
  expect_numbers(out[3], {34, 2341});
  expect_numbers(out[4], {1, 0});
}

TEST(InterpreterGraphs, WidePrecisionDoesNotRound) {
  auto x = tensor(DType::kFloat32, {1}, {0x1p-30});
  auto build = [](GraphBuilder& b, const Nodes& n) {
    NodeId one = b.scalar(DType::kFloat32, 1);
    NodeId sum = b.binary(BinaryOp::kAdd, n[0], one);
    NodeId half = b.cast(b.cast(sum, DType::kBfloat16), DType::kFloat32);
    return b.binary(BinaryOp::kSub, half, one);
  };
  expect_numbers(compute({x}, build), {0});
  auto wide = compute({x}, build, Precision::kWide);
  EXPECT_EQ(wide.dtype(), DType::kFloat64);
  EXPECT_EQ(wide.get(0), 0x1p-30);
}

TEST(InterpreterGraphs, WidePrecisionFillsBeyondTheStoredType) {
  // A fill that bfloat16 cannot hold, in a float32 tensor that came from bfloat16.
  auto x = tensor(DType::kBfloat16, {1}, {2});
  auto build = [](GraphBuilder& b, const Nodes& n) {
    return b.pad(b.cast(n[0], DType::kFloat32), 0, 1, 0, -3.4028234663852886e38);
  };
  expect_numbers(compute({x}, build, Precision::kWide), {-3.4028234663852886e38, 2});
  expect_numbers(compute({x}, build), {-3.4028234663852886e38, 2});
}

TEST(InterpreterGraphs, OutputsHaveTheirOwnMemory) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kState, DType::kFloat32, {2, 2}, "x");
  b.output(x);
  b.mutate(0, b.permute(x, {1, 0}));
  b.output(b.reshape(x, {4}));
  auto in = counting(DType::kFloat32, {2, 2});
  auto out = run_graph(b.finish(), {in});
  EXPECT_NE(out[0].data(), in.data());
  EXPECT_NE(out[0].data(), out[2].data());
  EXPECT_NE(out[2].data(), in.data());
  expect_numbers(out[1], {0, 2, 1, 3});
  EXPECT_EQ(out[2].sizes(), (std::vector<int64_t>{4}));
}

TEST(InterpreterGraphs, HugeTensorsAreRefused) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {1000}, "x");
  NodeId column = b.unsqueeze(x, 1);
  b.output(b.binary(BinaryOp::kAdd, column, x));
  InterpretOptions options;
  options.max_tensor_bytes = 1 << 20;
  auto out =
      interpret(b.finish(), std::vector<HostTensor>{counting(DType::kFloat32, {1000})}, options);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message.find("larger"), std::string::npos);
}

TEST(InterpreterGraphs, ComplexAndUnalignedInputs) {
  Bytes storage(2 * 8 + 1);
  float parts[4] = {1, 2, 3, 4};
  std::memcpy(storage.data() + 1, parts, sizeof parts);
  auto x = HostTensor::wrap(DType::kComplex64, {2}, ByteView(storage).subspan(1)).value();
  auto out =
      compute({x}, [](GraphBuilder& b, const Nodes& n) { return b.slice(n[0], 0, 1, 2, -1); });
  float got[4];
  std::memcpy(got, out.data(), sizeof got);
  EXPECT_EQ(got[0], 3);
  EXPECT_EQ(got[1], 4);
  EXPECT_EQ(got[3], 2);
}

TEST(HostTensors, StridedCopies) {
  auto x = counting(DType::kInt16, {12});
  auto turned = contiguous_copy(DType::kInt16, {4, 3}, std::vector<int64_t>{1, 4}, 0, x.bytes());
  expect_numbers(*turned, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  auto reversed = contiguous_copy(DType::kInt16, {3}, std::vector<int64_t>{-2}, 5, x.bytes());
  expect_numbers(*reversed, {5, 3, 1});
  auto repeated = contiguous_copy(DType::kInt16, {2, 2}, std::vector<int64_t>{0, 0}, 7, x.bytes());
  expect_numbers(*repeated, {7, 7, 7, 7});
  expect_numbers(*contiguous_copy(DType::kInt16, {}, {}, 11, x.bytes()), {11});
  EXPECT_EQ(contiguous_copy(DType::kInt16, {0}, std::vector<int64_t>{1}, 99, x.bytes())->elements(),
            0);
  EXPECT_FALSE(contiguous_copy(DType::kInt16, {4}, std::vector<int64_t>{4}, 0, x.bytes()).ok());
  EXPECT_FALSE(contiguous_copy(DType::kInt16, {4}, std::vector<int64_t>{-1}, 2, x.bytes()).ok());
  EXPECT_FALSE(
      contiguous_copy(DType::kInt16, {3}, std::vector<int64_t>{INT64_MAX}, 0, x.bytes()).ok());
}

TEST(HostTensors, SizesAreBounded) {
  EXPECT_FALSE(HostTensor::zeros(DType::kFloat32, {-1}).ok());
  EXPECT_FALSE(HostTensor::zeros(DType::kFloat32, {int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_EQ(HostTensor::zeros(DType::kFloat32, {int64_t{1} << 40, int64_t{1} << 40, 0})->elements(),
            0);
  Bytes bytes(7);
  EXPECT_FALSE(HostTensor::wrap(DType::kFloat32, {2}, bytes).ok());
  auto x = HostTensor::zeros(DType::kFloat32, {3}).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % kTensorAlignment, 0u);
  HostTensor copy = x;
  copy.set(1, 5);
  EXPECT_EQ(x.get(1), 5);
  HostTensor clone = x.clone().value();
  clone.set(1, 6);
  EXPECT_EQ(x.get(1), 5);
}

// Small integers, whose sums are exact in every order and type.
Numbers small_integers(int64_t count, uint64_t seed) {
  Random random(seed);
  Numbers values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(random.below(7)) - 3);
  return values;
}

TEST(InterpreterProducts, RowsOfEveryLengthAndType) {
  for (int64_t length : {1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 70}) {
    for (DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32}) {
      const Numbers rows = small_integers(3 * length, 1), x = small_integers(length, 2);
      auto build = [&](GraphBuilder& b, const Nodes& n) {
        NodeId matrix = b.cast(n[0], DType::kFloat32);
        NodeId vector = b.expand(b.cast(n[1], DType::kFloat32), {3, length});
        return b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, matrix, vector), {1});
      };
      Numbers expected(3, 0.0);
      for (int64_t i = 0; i < 3 * length; ++i) {
        expected[static_cast<size_t>(i / length)] +=
            rows[static_cast<size_t>(i)] * x[static_cast<size_t>(i % length)];
      }
      for (Precision precision : {Precision::kModel, Precision::kPlain, Precision::kWide}) {
        SCOPED_TRACE(cat(dtype_name(dtype), " ", length));
        expect_numbers(compute({tensor(dtype, {3, length}, rows), tensor(dtype, {length}, x)},
                               build, precision),
                       expected);
      }
    }
  }
}

TEST(InterpreterProducts, CastsThatOthersReadTooAreCast) {
  // The same cast is read by a product, by a view of a product, and by an addition, and given out.
  GraphBuilder b;
  NodeId w = b.input(InputKind::kWeight, DType::kBfloat16, {2, 4}, "w");
  NodeId wide = b.cast(w, DType::kFloat32);
  NodeId turned = b.view(wide, view_permute({2, 4}, std::vector<int>{1, 0}));
  b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, wide, wide), {1}));
  b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, turned, turned), {0}));
  b.output(b.binary(BinaryOp::kAdd, wide, wide));
  b.output(wide);
  const Graph graph = b.finish();
  const Numbers values = {1, 2, 3, 4, 5, 6, 7, 8};
  for (Precision precision : {Precision::kModel, Precision::kPlain, Precision::kWide}) {
    auto outputs = run_graph(graph, {tensor(DType::kBfloat16, {2, 4}, values)}, precision);
    expect_numbers(outputs[0], {30, 174});
    expect_numbers(outputs[1], {30, 174});
    expect_numbers(outputs[2], {2, 4, 6, 8, 10, 12, 14, 16});
    expect_numbers(outputs[3], values);
  }
}

}  // namespace
}  // namespace common::testing
