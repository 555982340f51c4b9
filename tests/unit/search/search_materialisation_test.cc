// What is stored between kernels: if these fail, a genome's wishes make kernels that no template
// can be.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/clock.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/llir/horizontal.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/search/fusion/fusion.h"
#include "coordinator/search/fusion/launches.h"
#include "coordinator/search/fusion/multi_output.h"
#include "coordinator/search/genes/schedule_space.h"
#include "coordinator/search/partition/attention_memo.h"
#include "coordinator/search/space/region_space.h"
#include "program_interpreter.h"

namespace coordinator {
namespace {

using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::Op;
using common::Program;
using common::UnaryOp;
using IrNode = common::NodeId;

IrNode input(GraphBuilder& b, common::Shape shape) {
  return b.input(InputKind::kUser, DType::kFloat32, std::move(shape), "x");
}

// The stores that are left of a wish to store nothing.
Materialised repaired(const Selected& selected) {
  Materialised materialised(selected.graph.nodes.size(), 0);
  AttentionMemo attentions;
  repair_materialisation(selected, materialised, attentions);
  return materialised;
}

size_t only(const Graph& graph, Op op) {
  auto is_one = [op](const common::Node& node) { return node.op == op; };
  auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), is_one);
  EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(), is_one), 1);
  return static_cast<size_t>(found - graph.nodes.begin());
}

TEST(Materialised, WhatHasATemplateOfItsOwnIsStored) {
  GraphBuilder b;
  IrNode x = input(b, {4, 8});
  IrNode sums = b.scan(common::ScanOp::kSum, x, 1);
  b.output(b.unary(UnaryOp::kExp, sums));
  Selected selected = select_all(b.finish());
  EXPECT_TRUE(repaired(selected)[only(selected.graph, Op::kScan)]);
  KernelMemo memo;
  FusedProgram fused = fuse(selected, repaired(selected), memo);
  ASSERT_EQ(fused.kernels.size(), 2u);
  EXPECT_EQ(fused.kernels[0]->kernel.form, common::Template::kScan);
}

// A bfloat16 activation that several float32 computations read: stored wide it would take twice the
// bytes, and no product could see what it is.
TEST(Materialised, WhatWasRoundedIsStoredShort) {
  GraphBuilder b;
  IrNode x = b.unary(UnaryOp::kExp, input(b, {4, 8}));
  IrNode rounded = b.cast(x, DType::kBfloat16);
  IrNode wide = b.cast(rounded, DType::kFloat32);
  b.output(b.unary(UnaryOp::kSin, wide));
  b.output(b.reduce(common::ReduceOp::kSum, wide, {0}));
  Selected selected = select_all(b.finish());
  AttentionMemo attentions;
  Materialised materialised = default_materialisation(selected, attentions);
  EXPECT_TRUE(is_materialised(selected, materialised, rounded));
  EXPECT_FALSE(is_materialised(selected, materialised, wide));
  EXPECT_FALSE(is_materialised(selected, materialised, x));
}

IrNode product(GraphBuilder& b, IrNode x, IrNode w) {
  return b.raw({Op::kContract,
                DType::kFloat32,
                {b.shape(x)[0], b.shape(w)[0]},
                {x, w},
                common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
}

// Fails when a product is stored and its epilogue computed by each block of the next product.
TEST(Materialised, AProductTakesItsEpilogue) {
  for (bool sums : {false, true}) {
    GraphBuilder b;
    IrNode first = product(b, input(b, {40, 16}), input(b, {24, 16}));
    IrNode bound = b.binary(common::BinaryOp::kMax, first, b.scalar(DType::kFloat32, 0));
    IrNode rounded = b.cast(bound, DType::kBfloat16);
    IrNode wide = b.cast(rounded, DType::kFloat32);
    b.output(sums ? b.reduce(common::ReduceOp::kMax, wide, {0})
                  : product(b, wide, input(b, {8, 24})));
    Selected selected = select_all(b.finish());
    AttentionMemo attentions;
    Materialised materialised = default_materialisation(selected, attentions);
    EXPECT_TRUE(is_materialised(selected, materialised, rounded)) << sums;
    EXPECT_FALSE(is_materialised(selected, materialised, first)) << sums;
    EXPECT_FALSE(is_materialised(selected, materialised, bound)) << sums;
  }
}

// Of two products that are added, the first one stored keeps what is done to it alone.
TEST(Materialised, WhereProductsMeetOneEndsAfterItsEpilogue) {
  GraphBuilder b;
  IrNode x = input(b, {40, 16});
  std::vector<IrNode> products, rounded, wide;
  for (int k = 0; k < 2; ++k) {
    products.push_back(product(b, x, input(b, {24, 16})));
    rounded.push_back(b.cast(b.unary(UnaryOp::kNeg, products.back()), DType::kBfloat16));
    wide.push_back(b.cast(rounded.back(), DType::kFloat32));
  }
  b.output(b.binary(common::BinaryOp::kAdd, wide[0], wide[1]));
  Selected selected = select_all(b.finish());
  AttentionMemo attentions;
  Materialised materialised = default_materialisation(selected, attentions);
  int stored = 0;
  for (int k = 0; k < 2; ++k) {
    stored += is_materialised(selected, materialised, rounded[static_cast<size_t>(k)]) ? 1 : 0;
    EXPECT_FALSE(is_materialised(selected, materialised, products[static_cast<size_t>(k)]));
  }
  EXPECT_EQ(stored, 1);
}

TEST(Materialised, ALibraryReadsStoredOperandsOnly) {
  GraphBuilder b;
  IrNode x = b.unary(UnaryOp::kExp, input(b, {4, 8}));
  IrNode w = input(b, {8, 5});
  b.output(b.raw(
      {Op::kContract, DType::kFloat32, {}, {x, w}, common::ContractAttr{{0, 1}, {1, 2}, {0, 2}}}));
  Selected selected = select_all(b.finish());
  size_t product = only(selected.graph, Op::kContract), operand = only(selected.graph, Op::kUnary);
  EXPECT_FALSE(repaired(selected)[operand]);
  selected.lowering[product] = Lowering::kGemm;
  EXPECT_TRUE(repaired(selected)[operand]);
  EXPECT_TRUE(repaired(selected)[product]);
}

// What follows from a product's elements in order is computed in its kernel, whatever axes of size
// 1 it has; not what turns them round or repeats them.
TEST(Materialised, AProductFlowsThroughAxesOfOne) {
  using common::Expr;
  auto is_stored = [](const common::Shape& shape, std::vector<Expr> index) {
    GraphBuilder b;
    IrNode x = input(b, {4, 8}), w = input(b, {8, 5});
    IrNode product = b.raw({Op::kContract,
                            DType::kFloat32,
                            {4, 5},
                            {x, w},
                            common::ContractAttr{{0, 1}, {1, 2}, {0, 2}}});
    IrNode seen = b.view(product, common::View{shape, std::move(index)});
    b.output(b.unary(UnaryOp::kExp, seen));
    Selected selected = select_all(b.finish());
    return repaired(selected)[only(selected.graph, Op::kContract)] != 0;
  };
  EXPECT_FALSE(is_stored({4, 5}, {Expr::index(0), Expr::index(1)}));
  EXPECT_FALSE(is_stored({1, 4, 5}, {Expr::index(1), Expr::index(2)}));
  EXPECT_FALSE(is_stored({4, 1, 5, 1}, {Expr::index(0), Expr::index(2)}));
  EXPECT_TRUE(is_stored({1, 5, 4}, {Expr::index(2), Expr::index(1)}));
  EXPECT_TRUE(is_stored({3, 4, 5}, {Expr::index(1), Expr::index(2)}));
}

TEST(Materialised, AValueThatIsSeveralOutputsIsWrittenToEach) {
  GraphBuilder b;
  IrNode y = b.unary(UnaryOp::kExp, input(b, {4}));
  b.output(y);
  b.output(y);
  Graph graph = b.finish();
  Selected selected = select_all(graph);
  KernelMemo memo;
  Program program = whole_program(fuse(selected, repaired(selected), memo));
  ASSERT_TRUE(common::verify(program).ok()) << common::verify(program).error().message;
  auto inputs = common::testing::sample_inputs(graph, {}, 3);
  auto actual = common::testing::interpret_program(program, inputs, {});
  auto expected = common::interpret(graph, inputs, {});
  ASSERT_TRUE(actual.ok() && expected.ok());
  EXPECT_LT(common::testing::largest_difference(*actual, *expected), 1e-6);
}

// Both read the weight, but one is computed once and the other in every run.
TEST(Materialised, WhatIsComputedAtLoadJoinsNoRun) {
  GraphBuilder b;
  IrNode w = b.input(InputKind::kWeight, DType::kFloat32, {4}, "w");
  IrNode x = input(b, {4});
  IrNode once = b.unary(UnaryOp::kExp, w);
  b.output(b.binary(common::BinaryOp::kMul, x, w));
  b.output(b.binary(common::BinaryOp::kMul, x, once));
  Selected selected = select_all(b.finish());
  const Graph& graph = selected.graph;
  Materialised materialised(graph.nodes.size(), 1);
  std::vector<int64_t> wishes(graph.nodes.size(), kStoreWithSibling);
  std::vector<IrNode> writers = plan_writers(selected, materialised, wishes);
  size_t at_load = only(graph, Op::kUnary);
  for (size_t i = 0; i < writers.size(); ++i) {
    EXPECT_EQ(writers[i] == static_cast<IrNode>(at_load), i == at_load) << common::print(graph);
  }
}

// Which nodes of the graph are stored by default.
Materialised stored_by_default(const Graph& graph) {
  AttentionMemo attentions;
  return default_materialisation(select_all(graph), attentions);
}

// y * sigmoid(y) is one kernel with what makes y, however dear y is; of two results each needs it.
TEST(Materialised, ASharedTailIsPartOfItsKernel) {
  for (bool is_joined : {true, false}) {
    GraphBuilder b;
    IrNode y = b.unary(UnaryOp::kExp, input(b, {8, 64}));
    IrNode gate = b.unary(UnaryOp::kSigmoid, y);
    if (is_joined) {
      b.output(b.binary(common::BinaryOp::kMul, y, gate));
    } else {
      b.output(b.reduce(common::ReduceOp::kSum, y, {1}));
      b.output(gate);
    }
    Graph graph = b.finish();
    Materialised stored = stored_by_default(graph);
    for (size_t id = 0; id < graph.nodes.size(); ++id) {
      const common::Node& node = graph.nodes[id];
      bool is_exp =
          node.op == Op::kUnary && common::attr<common::UnaryAttr>(node).op == UnaryOp::kExp;
      if (!is_exp) continue;
      EXPECT_EQ(stored[id] == 0, is_joined) << common::print(graph);
    }
  }
}

// A difference of two stored values that several kernels need is read instead of both, and
// computed where one of them is small.
TEST(Materialised, WhatIsMoreToReadIsStored) {
  for (bool is_small : {true, false}) {
    GraphBuilder b;
    IrNode x = b.scan(common::ScanOp::kSum, input(b, {16, 64}), 1);
    IrNode other = is_small ? b.scan(common::ScanOp::kSum, input(b, {64}), 0)
                            : b.scan(common::ScanOp::kMax, input(b, {16, 64}), 1);
    IrNode difference = b.binary(common::BinaryOp::kSub, x, other);
    b.output(b.reduce(common::ReduceOp::kSum, difference, {0}));
    b.output(b.unary(UnaryOp::kTanh, difference));
    Graph graph = b.finish();
    Materialised stored = stored_by_default(graph);
    size_t at = only(graph, Op::kBinary);
    EXPECT_EQ(stored[at] == 0, is_small) << common::print(graph);
  }
}

// A product reads its operands again for every block: many values side by side are stored once. The
// masks that choose between them follow from positions and are no steps.
TEST(Materialised, AProductsOperandTakesFewSteps) {
  for (int parts : {2, 6, 12}) {
    GraphBuilder b;
    std::vector<IrNode> rows;
    for (int k = 0; k < parts; ++k) rows.push_back(input(b, {1, 32}));
    IrNode stack = b.concat(rows, 0);
    b.output(b.matmul(stack, b.input(InputKind::kWeight, DType::kFloat32, {32, 48}, "w")));
    Graph graph = b.finish();
    common::SteadyClock clock;
    Program program = RegionSpace(graph, clock).decode({}).program;
    int64_t stacks = 0;
    for (const common::Buffer& buffer : program.buffers) {
      stacks +=
          buffer.kind == common::BufferKind::kTemporary && buffer.shape == common::Shape{parts, 32};
    }
    EXPECT_EQ(stacks, parts < 12 ? 0 : 1) << common::print(program);
  }
}

TEST(Schedules, ADigitTakesThePlaceOfTheOldOne) {
  common::Template form = common::Template::kTile;
  const auto& choices = common::schedule_parameters(form);
  for (size_t k = 0; k < choices.size(); ++k) {
    ScheduleCode code = 0;
    for (size_t digit = choices[k].values.size(); digit-- > 0;) {
      code = with_digit(form, code, k, digit);
      EXPECT_EQ(schedule_digit(form, code, k), digit);
      EXPECT_EQ(code_of(form, schedule_of(form, code)), code);
    }
    EXPECT_EQ(code, 0u);
  }
}

TEST(Launches, KernelsJoinTheFirstLaunchAfterAllTheyFollow) {
  using Launches = std::vector<std::vector<size_t>>;
  // 0 and 1 are small; 2 is large and follows 0; 3 follows 1; 4 follows nothing.
  std::vector<LaunchedKernel> kernels{
      {true, {}}, {true, {}}, {false, {0}}, {true, {1}}, {true, {}}};
  EXPECT_EQ(share_launches(kernels), (Launches{{0, 1, 4}, {2}, {3}}));
  // A chain shares nothing.
  EXPECT_EQ(share_launches({{true, {}}, {true, {0}}, {true, {1}}}), (Launches{{0}, {1}, {2}}));
  std::vector<LaunchedKernel> many(common::kHorizontalPartsMax + 1, {true, {}});
  EXPECT_EQ(share_launches(many).size(), 2U);
}

// Two products of one row, what is scattered of one of them, and a sum of the old state.
TEST(Launches, IndependentKernelsAreOneAndComputeTheSame) {
  GraphBuilder b;
  IrNode x = input(b, {16});
  IrNode state = input(b, {8, 4});
  std::vector<IrNode> sums;
  for (int64_t columns : {4, 6}) {
    IrNode row = b.expand(x, {columns, 16});
    IrNode w = input(b, {columns, 16});
    sums.push_back(b.reduce(common::ReduceOp::kSum, b.binary(common::BinaryOp::kMul, row, w), {1}));
  }
  IrNode at = b.input(InputKind::kUser, DType::kInt64, {1}, "at");
  IrNode spread = b.view(at, common::View{{1, 4}, {common::Expr::index(0)}, {}, 0});
  IrNode updates = b.reshape(sums[0], {1, 4});
  b.output(b.scatter(common::ScatterMode::kAssign, state, updates, {spread},
                     {{0, 0}, {-1, common::Expr::index(1)}}));
  b.output(sums[1]);
  b.output(b.reduce(common::ReduceOp::kSum, state, {0}));
  Selected selected = select_all(b.finish());
  Materialised materialised = plain_materialisation(selected);
  KernelMemo memo, shared_memo;
  Program apart = whole_program(fuse(selected, materialised, memo));
  Program shared =
      whole_program(fuse(selected, materialised, shared_memo, {}, LaunchSharing::kOnGpu));
  EXPECT_TRUE(common::verify(shared).ok()) << common::verify(shared).error().message;
  ASSERT_EQ(apart.calls.size(), 4U);
  ASSERT_EQ(shared.calls.size(), 2U) << common::print(shared);
  EXPECT_EQ(shared.kernels[0].form, common::Template::kHorizontal);
  EXPECT_EQ(shared.kernels[0].body.outputs.size(), 3U)
      << "the sum reads what the scatter overwrites";
  EXPECT_EQ(shared.kernels[1].form, common::Template::kScatter);
}

// Updates of three small parameters and one of four megabytes, each with what is kept for it.
TEST(Launches, OnAProcessorSmallUpdatesAreOne) {
  GraphBuilder b;
  for (int64_t size : {16, 32, 1 << 20, 16}) {
    IrNode kept = b.binary(common::BinaryOp::kAdd, input(b, {size}), input(b, {size}));
    b.output(kept);
    b.output(b.binary(common::BinaryOp::kSub, input(b, {size}), kept));
  }
  Selected selected = select_all(b.finish());
  Materialised materialised(selected.graph.nodes.size(), 0);
  std::vector<int64_t> wishes = default_wishes(selected, materialised);
  EXPECT_EQ(std::count(wishes.begin(), wishes.end(), kStoreWithUser), 4);
  KernelMemo memo, shared_memo;
  Program apart = whole_program(fuse(selected, materialised, memo, wishes));
  Program shared =
      whole_program(fuse(selected, materialised, shared_memo, wishes, LaunchSharing::kOnProcessor));
  EXPECT_TRUE(common::verify(shared).ok()) << common::verify(shared).error().message;
  EXPECT_EQ(apart.calls.size(), 4U);
  ASSERT_EQ(shared.calls.size(), 2U) << common::print(shared);
  EXPECT_EQ(shared.kernels[0].form, common::Template::kHorizontal);
  EXPECT_EQ(common::horizontal_parts(shared.kernels[0].body).size(), 3U);
  EXPECT_EQ(shared.kernels[1].form, common::Template::kLoops) << "it is large";
  // One launch less than each by itself, and the same work.
  auto predicted = [](const Program& program, size_t kernel) {
    return predict_ns(program.kernels[kernel], {}, common::device_terms({"cpu-x86_64-avx2"}));
  };
  double launch = common::device_terms({"cpu-x86_64-avx2"}).launch.kernel_ns;
  double alone = 2 * predicted(apart, 0) + predicted(apart, 1);
  EXPECT_NEAR(predicted(shared, 0), alone - 2 * launch, 0.05 * alone);
}

// A convolution of one tap by groups of channels, channels last, its result with a border around
// it. Gives whether the result's own value is stored besides.
struct Bordered {
  int64_t groups = 4, around = 1, beside = 0;  // rows and columns; channels
  bool may_place_rows = true;
};

bool stores_without_border(const Bordered& c) {
  constexpr int64_t kHeight = 6, kWidth = 5, kResults = 8, kSummed = 3;
  const auto i = [](int k) { return common::Expr::index(k); };
  GraphBuilder b;
  IrNode x = input(b, {c.groups, kHeight, kWidth, kSummed}),
         w = input(b, {c.groups, kSummed, kResults});
  IrNode y = b.raw({Op::kContract,
                    DType::kFloat32,
                    {c.groups, kHeight, kWidth, kResults},
                    {x, w},
                    common::ContractAttr{{0, 1, 2, 3}, {0, 3, 4}, {0, 1, 2, 4}}});
  const common::Expr n(kResults), channels(c.groups * kResults);
  IrNode merged = b.view(
      y, {{kHeight, kWidth, channels}, {floor_div(i(2), n), i(0), i(1), mod(i(2), n)}, {}, 0});
  IrNode bound = b.binary(common::BinaryOp::kMax, merged, b.scalar(DType::kFloat32, 0));
  common::View view = common::view_pad(b.shape(bound), 0, c.around, c.around, 0);
  view = *common::view_compose(common::view_pad(view.shape, 1, c.around, c.around, 0), view, {});
  if (c.beside != 0) {
    view = *common::view_compose(common::view_pad(view.shape, 2, c.beside, c.beside, 0), view, {});
  }
  IrNode bordered = b.view(bound, view);
  b.output(bordered);
  Selected selected = select_all(b.finish());
  selected.lowering[static_cast<size_t>(bordered)] = Lowering::kCopy;
  selected.may_place_rows = c.may_place_rows;
  AttentionMemo attentions;
  Materialised materialised = default_materialisation(selected, attentions);
  return is_materialised(selected, materialised, bound) ||
         is_materialised(selected, materialised, y);
}

// If this fails, images are copied for their border alone, or a tile is to store what it cannot.
TEST(Materialised, AProcessorsTileStoresItsRowsWithinABorder) {
  EXPECT_FALSE(stores_without_border({}));
  EXPECT_FALSE(stores_without_border({.groups = 1}));
  EXPECT_TRUE(stores_without_border({.beside = 1})) << "a row's elements do not lie side by side";
  EXPECT_TRUE(stores_without_border({.may_place_rows = false}));
}

}  // namespace
}  // namespace coordinator
