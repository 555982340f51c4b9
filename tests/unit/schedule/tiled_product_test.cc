// If these fail, the loops that a tiling stands for leave out elements of a product or steps of its
// sum, or merge the parts of a softmax wrongly.
#include "common/schedule/kernels/tiled_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/plan/plan.h"
#include "common/runtime/interpreter/nest_interpreter.h"
#include "common/schedule/kernels/kernel_tiling.h"

namespace common {
namespace {

constexpr int64_t kSymbol = 37;  // what s0 is

struct Case {
  std::string name;
  Kernel kernel;
};

NodeId operand(GraphBuilder& b, DType dtype, Shape shape) {
  NodeId x = b.input(InputKind::kUser, dtype, std::move(shape), "");
  return is_half(dtype) ? b.cast(x, DType::kFloat32) : x;
}

Case product(std::string name, DType dtype, const Expr& rows, const Expr& columns,
             const Expr& depth) {
  GraphBuilder b({{1, 4096}});
  const NodeId x = operand(b, dtype, {2, rows, depth}), w = operand(b, dtype, {columns, depth});
  const NodeId y = b.raw({Op::kContract,
                          DType::kFloat32,
                          {2, rows, columns},
                          {x, w},
                          ContractAttr{{0, 1, 3}, {2, 3}, {0, 1, 2}}});
  b.output(b.unary(UnaryOp::kTanh, y));
  b.output(b.unary(UnaryOp::kAbs, y));
  return {std::move(name), {Template::kTile, {}, canonical(b.finish()), {}}};
}

// `heads` groups of rows share keys and values. Scores of the first keys are hidden.
Case attention(std::string name, DType dtype, int64_t groups, const Expr& rows, const Expr& keys) {
  GraphBuilder b({{1, 4096}});
  constexpr int64_t kWidth = 64;
  const NodeId q = operand(b, dtype, {3, groups, rows, kWidth});
  const NodeId k = operand(b, dtype, {3, keys, kWidth}), v = operand(b, dtype, {3, keys, kWidth});
  const Shape shape = {3, groups, rows, keys};
  NodeId scores = b.raw({Op::kContract,
                         DType::kFloat32,
                         shape,
                         {q, k},
                         ContractAttr{{0, 1, 2, 4}, {0, 3, 4}, {0, 1, 2, 3}}});
  const NodeId key = b.expand(b.iota(DType::kInt64, keys), shape);
  const NodeId hidden = b.binary(BinaryOp::kLess, key, b.full_int(DType::kInt64, shape, 20));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  scores = b.select(hidden, b.full(DType::kFloat32, shape, -kInfinity), scores);
  const NodeId p = b.raw({Op::kSoftmax, DType::kFloat32, shape, {scores}, SoftmaxAttr{3, false}});
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {3, groups, rows, kWidth},
                  {p, v},
                  ContractAttr{{0, 1, 2, 4}, {0, 4, 3}, {0, 1, 2, 3}}}));
  return {std::move(name), {Template::kAttention, {}, canonical(b.finish()), {}}};
}

// Sizes that no block divides.
std::vector<Case> cases() {
  const Expr s = Expr::symbol(0);
  return {product("float32", DType::kFloat32, 75, 130, 333),
          product("symbolic rows", DType::kFloat32, s, 66, 100),
          product("bfloat16", DType::kBfloat16, 200, 136, 264),
          product("symbolic depth", DType::kBfloat16, 100, 72, s * 8),
          product("few rows", DType::kBfloat16, 3, 136, 264),
          product("few rows of float32", DType::kFloat32, 1, 250, 500),
          attention("float32", DType::kFloat32, 1, 70, 150),
          attention("one row", DType::kFloat32, 1, 1, s + 20),
          attention("bfloat16", DType::kBfloat16, 1, 70, 150),
          attention("groups", DType::kBfloat16, 2, 70, 150),
          attention("groups of one row", DType::kBfloat16, 4, 1, s * 5)};
}

std::vector<HostTensor> inputs_of(const Graph& body) {
  std::vector<HostTensor> inputs;
  const std::vector<int64_t> symbols(body.symbols.size(), kSymbol);
  for (const GraphInput& input : body.inputs) {
    inputs.push_back(HostTensor::zeros(input.dtype, evaluate_shape(input.shape, symbols)).value());
    HostTensor& x = inputs.back();
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i * 7 % 23 - 11) / 16);
  }
  return inputs;
}

void expect_equal(const Graph& body, const TiledProduct& tiled) {
  const std::vector<HostTensor> inputs = inputs_of(body);
  const InterpretOptions wide{.precision = Precision::kWide};
  auto expected = interpret(body, inputs, wide);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  auto got = interpret_loops(tiled.looped(), inputs, wide);
  ASSERT_TRUE(got.ok()) << got.error().message;
  ASSERT_EQ(got->size(), expected->size());
  for (size_t k = 0; k < got->size(); ++k) {
    ASSERT_EQ((*got)[k].sizes(), (*expected)[k].sizes());
    for (int64_t i = 0; i < (*got)[k].elements(); ++i) {
      const double want = (*expected)[k].get(i);
      ASSERT_NEAR((*got)[k].get(i), want, 1e-9 * (1 + std::abs(want))) << k << ", " << i;
    }
  }
}

// The tilings that each target gives the kernels by default.
TEST(TiledProduct, LoopsOfTilingsComputeTheirKernels) {
  const std::vector<std::string> targets = {
      "cpu-x86_64-avx2",    "cpu-x86_64-avx512", "cpu-x86_64-avx512bf16",
      "cpu-x86_64-amxbf16", "cuda-sm_80",        "cuda-sm_90a"};
  std::set<std::string> forms;
  for (const std::string& name : targets) {
    const Target target{name};
    const NestMachine machine(machine_of(target), target.name, {});
    for (const Case& c : cases()) {
      SCOPED_TRACE(name + ", " + c.name);
      Kernel kernel = c.kernel;
      kernel.tiling = kernel_tiling(kernel, machine);
      ASSERT_TRUE(kernel.tiling);
      SCOPED_TRACE(print(*kernel.tiling));
      auto tiled = tiled_product(kernel, machine);
      ASSERT_TRUE(tiled);
      forms.insert(kernel.tiling->form);
      expect_equal(kernel.body, *tiled);
      // Parts share sums of any length.
      tiled->loops.parts = 3;
      expect_equal(kernel.body, *tiled);
      if (HasFatalFailure()) return;
    }
  }
  for (const char* form :
       {"register_tile", "attention_tile", "thread_tile", "mma_tile", "warpgroup_tile", "skinny",
        "attention_decode", "attention_flash", "attention_threads", "attention_skinny"}) {
    EXPECT_TRUE(forms.count(form)) << form;
  }
}

TEST(TiledProduct, TilesThatABlockDoesNotDivideEndWithinIt) {
  const Case c = product("", DType::kFloat32, 75, 130, 333);
  expect_equal(c.kernel.body, {c.kernel.body, {2}, {{50, 16}, {100, 30, 7}, {64, 24}, 2}, {}});
}

}  // namespace
}  // namespace common
