// Which operators check the indices that a model's author gave, and what the checks find. If these
// fail, indices that PyTorch refuses read clamped places in silence, or right ones are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "common/ir/roll/roll.h"
#include "tests/unit/pt2/pt2_program.h"

namespace {

using clients::ExportInputKind;
using clients::NamedArgument;
using clients::ScalarType;
using clients::TensorArgument;
using clients::TensorListArgument;
using common::DType;
using common::GraphOutput;
using common::HostTensor;
using common::OutputKind;
using pt2_test::line;
using pt2_test::Program;
using pt2_test::self;

constexpr int64_t kNone = common::kNoPosition;

HostTensor integers(std::vector<int64_t> values, std::vector<int64_t> sizes = {},
                    DType dtype = DType::kInt64) {
  if (sizes.empty()) sizes = {static_cast<int64_t>(values.size())};
  HostTensor out = HostTensor::zeros(dtype, sizes).value();
  for (size_t i = 0; i < values.size(); ++i) {
    out.set_int(static_cast<int64_t>(i), values[i]);
  }
  return out;
}

clients::Model translated(const Program& program) {
  auto model = clients::translate(program.get());
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? *model : clients::Model();
}

std::vector<GraphOutput> checks_of(const clients::Model& model) {
  std::vector<GraphOutput> checks;
  for (const GraphOutput& output : model.graph.outputs) {
    if (output.kind == OutputKind::kCheck) checks.push_back(output);
  }
  return checks;
}

// What the model's checks say of these inputs.
std::vector<int64_t> found(const clients::Model& model, const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> results = pt2_test::run(model, inputs);
  std::vector<int64_t> values;
  for (size_t k = 0; k < results.size(); ++k) {
    if (model.graph.outputs[k].kind == OutputKind::kCheck) values.push_back(results[k].get_int(0));
  }
  return values;
}

NamedArgument tensor(const std::string& name, const std::string& value) {
  return {name, TensorArgument{value}};
}
NamedArgument axis(int64_t dim) { return {"dim", dim}; }

// An operator over a table t and an index i, and whether PyTorch takes -1 and -limit.
struct Case {
  const char* target;
  std::vector<int64_t> table;
  std::vector<int64_t> index;
  std::vector<NamedArgument> arguments;
  std::vector<int64_t> out;
  int64_t limit;
  bool wraps;
};

class Operators : public testing::TestWithParam<Case> {};

TEST_P(Operators, RefuseWhatPyTorchRefuses) {
  const Case& c = GetParam();
  Program p;
  p.input("t", c.table).input("i", c.index, ScalarType::kInt64).input("u", c.index);
  p.tensor("y", c.out).node(c.target, c.arguments, "y").output("y");
  clients::Model model = translated(p);
  ASSERT_EQ(checks_of(model).size(), 1u);
  GraphOutput check = checks_of(model)[0];
  EXPECT_EQ(check.input, model.user_inputs[1]);
  EXPECT_TRUE(check.limit.is_constant(c.limit)) << check.limit.text();
  EXPECT_EQ(check.wraps, c.wraps);
  int64_t count = 1;
  for (int64_t size : c.index) count *= size;
  auto with = [&](int64_t value) {
    std::vector<int64_t> values(static_cast<size_t>(count), 0);
    values.back() = value;
    HostTensor table = HostTensor::zeros(DType::kFloat32, c.table).value();
    HostTensor updates = HostTensor::zeros(DType::kFloat32, c.index).value();
    return found(model, {table, integers(values, c.index), updates})[0];
  };
  EXPECT_EQ(with(c.limit - 1), kNone);
  EXPECT_EQ(with(c.limit), count - 1);
  EXPECT_EQ(with(INT64_MAX), count - 1);
  EXPECT_EQ(with(-1), c.wraps ? kNone : count - 1);
  EXPECT_EQ(with(-c.limit), c.wraps ? kNone : count - 1);
  EXPECT_EQ(with(-c.limit - 1), count - 1);
  EXPECT_EQ(with(INT64_MIN), count - 1);
}

const NamedArgument kValue = {"value", 1.0};
const NamedArgument kIndices = {"indices", TensorListArgument{{"i"}}};

INSTANTIATE_TEST_SUITE_P(
    All, Operators,
    testing::Values(
        Case{"aten.embedding.default",
             {5, 2},
             {3},
             {tensor("weight", "t"), tensor("indices", "i")},
             {3, 2},
             5,
             false},
        Case{"aten.index_select.default",
             {2, 6},
             {3},
             {self("t"), axis(1), tensor("index", "i")},
             {2, 3},
             6,
             false},
        Case{"aten.gather.default",
             {4, 3},
             {2, 3},
             {self("t"), axis(0), tensor("index", "i")},
             {2, 3},
             4,
             false},
        Case{"aten.index.Tensor", {4, 3}, {2}, {self("t"), kIndices}, {2, 3}, 4, true},
        Case{"aten.index_put.default",
             {4},
             {2},
             {self("t"), kIndices, tensor("values", "u")},
             {4},
             4,
             true},
        Case{"aten.index_copy.default",
             {4},
             {2},
             {self("t"), axis(0), tensor("index", "i"), tensor("source", "u")},
             {4},
             4,
             false},
        Case{"aten.index_add.default",
             {4},
             {2},
             {self("t"), axis(0), tensor("index", "i"), tensor("source", "u")},
             {4},
             4,
             false},
        Case{"aten.index_fill.int_Scalar",
             {4},
             {2},
             {self("t"), axis(0), tensor("index", "i"), kValue},
             {4},
             4,
             true},
        Case{"aten.scatter.src",
             {4, 3},
             {2, 3},
             {self("t"), axis(0), tensor("index", "i"), tensor("src", "u")},
             {4, 3},
             4,
             false},
        Case{"aten.scatter_add.default",
             {4, 3},
             {2, 3},
             {self("t"), axis(0), tensor("index", "i"), tensor("src", "u")},
             {4, 3},
             4,
             false},
        Case{"aten.scatter_reduce.two",
             {4, 3},
             {2, 3},
             {self("t"),
              axis(0),
              tensor("index", "i"),
              tensor("src", "u"),
              {"reduce", std::string("amax")}},
             {4, 3},
             4,
             false},
        Case{"aten.take.default", {2, 3}, {2}, {self("t"), tensor("index", "i")}, {2}, 6, true},
        Case{"aten.put.default",
             {2, 3},
             {2},
             {self("t"), tensor("index", "i"), tensor("source", "u")},
             {2, 3},
             6,
             true}),
    [](const auto& info) {
      std::string name = info.param.target;
      std::string letters;
      for (char c : name.substr(5))
        letters += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return letters;
    });

TEST(IndexChecks, UnsafeOperatorsAndMasksAreNotChecked) {
  Program p;
  p.input("t", {4}).input("i", {2}, ScalarType::kInt64).tensor("y", {2}).tensor("z", {4});
  p.input("m", {4}, ScalarType::kBool).input("v", {});
  p.node("aten._unsafe_index.Tensor", {self("t"), kIndices}, "y");
  p.node("aten.index_put.default",
         {self("t"), {"indices", TensorListArgument{{"m"}}}, tensor("values", "v")}, "z");
  p.output("y").output("z");
  EXPECT_TRUE(checks_of(translated(p)).empty());
}

TEST(IndexChecks, LabelsThatAreToBeIgnoredAreRight) {
  Program p;
  p.input("x", {3, 4}).input("i", {3}, ScalarType::kInt64).tensor("y", {}).tensor("w", {});
  p.node("aten.nll_loss_forward.default",
         {self("x"),
          tensor("target", "i"),
          {"reduction", int64_t{1}},
          {"ignore_index", int64_t{-100}}},
         "y");
  p.second_output("w").output("y");
  clients::Model model = translated(p);
  HostTensor x = HostTensor::zeros(DType::kFloat32, {3, 4}).value();
  EXPECT_EQ(found(model, {x, integers({0, -100, 3})}), std::vector<int64_t>{kNone});
  EXPECT_EQ(found(model, {x, integers({0, -100, 4})}), std::vector<int64_t>{2});
  EXPECT_EQ(found(model, {x, integers({0, -1, 4})}), std::vector<int64_t>{1});
}

TEST(IndexChecks, LabelsOfALossesGradientAreChecked) {
  Program p;
  p.input("g", {}).input("x", {3, 4}).input("i", {3}, ScalarType::kInt64).input("w", {});
  p.tensor("y", {3, 4});
  p.node("aten.nll_loss_backward.default",
         {tensor("grad_output", "g"),
          tensor("self", "x"),
          tensor("target", "i"),
          {"reduction", int64_t{2}},
          {"ignore_index", int64_t{-100}},
          tensor("total_weight", "w")},
         "y");
  clients::Model model = translated(p.output("y"));
  HostTensor one = HostTensor::zeros(DType::kFloat32, {}).value();
  HostTensor x = HostTensor::zeros(DType::kFloat32, {3, 4}).value();
  EXPECT_EQ(found(model, {one, x, integers({0, -100, 3}), one}), std::vector<int64_t>{kNone});
  EXPECT_EQ(found(model, {one, x, integers({0, -100, 4}), one}), std::vector<int64_t>{2});
}

// t[f(i)] for an f that keeps its results in range.
class Provable : public testing::Test {
 protected:
  size_t checks_after(const std::string& target, std::vector<NamedArgument> arguments,
                      int64_t table = 8) {
    Program p;
    p.input("t", {table, 2}).input("i", {8}, ScalarType::kInt64).input("x", {8});
    p.input("b", {8}, ScalarType::kBool);
    p.tensor("k", {8}, ScalarType::kInt64).tensor("y", {8, 2}).tensor("v", {8});
    p.node(target, std::move(arguments), "k");
    p.node("aten.embedding.default", {tensor("weight", "t"), tensor("indices", "k")}, "y");
    p.output("y");
    return checks_of(translated(p)).size();
  }
};

TEST_F(Provable, WhatTheGraphItselfSaysNeedsNoCheck) {
  EXPECT_EQ(checks_after("aten.arange.default", {{"end", int64_t{8}}}), 0u);
  EXPECT_EQ(checks_after("aten.arange.default", {{"end", int64_t{8}}}, 7), 1u);
  EXPECT_EQ(
      checks_after("aten.clamp.default", {self("i"), {"min", int64_t{0}}, {"max", int64_t{7}}}),
      0u);
  EXPECT_EQ(
      checks_after("aten.clamp.default", {self("i"), {"min", int64_t{-1}}, {"max", int64_t{7}}}),
      1u);
  EXPECT_EQ(
      checks_after("aten.clamp.default", {self("i"), {"min", int64_t{0}}, {"max", int64_t{8}}}),
      1u);
  EXPECT_EQ(checks_after("aten.remainder.Scalar", {self("i"), {"other", int64_t{8}}}), 0u);
  EXPECT_EQ(checks_after("aten.remainder.Scalar", {self("i"), {"other", int64_t{9}}}), 1u);
  EXPECT_EQ(checks_after("aten.argsort.default", {self("x"), axis(0)}), 0u);
  EXPECT_EQ(checks_after("aten.argsort.default", {self("x"), axis(0)}, 7), 1u);
  EXPECT_EQ(checks_after("aten.cumsum.default", {self("b"), axis(0)}, 9), 0u);
  EXPECT_EQ(checks_after("aten.cumsum.default", {self("b"), axis(0)}, 8), 1u);
  EXPECT_EQ(checks_after("aten.add.Tensor", {self("i"), {"other", int64_t{0}}}), 1u);
}

TEST(IndexChecks, AGreatestPositionIsInRange) {
  Program p;
  p.input("x", {3, 8}).input("t", {8, 2}).tensor("k", {3}, ScalarType::kInt64).tensor("y", {3, 2});
  p.node("aten.argmax.default", {self("x"), axis(1)}, "k");
  p.node("aten.embedding.default", {tensor("weight", "t"), tensor("indices", "k")}, "y");
  p.output("y");
  EXPECT_TRUE(checks_of(translated(p)).empty());
}

// As the layers of a model do: one check, and a loop over the layers.
TEST(IndexChecks, LayersShareAnIndexAndItsCheck) {
  Program p;
  p.input("x", {4, 2}).input("i", {4}, ScalarType::kInt64);
  std::string before = "x";
  for (int layer = 0; layer < 6; ++layer) {
    std::string weight = "w" + std::to_string(layer), y = "y" + std::to_string(layer);
    p.stored(ExportInputKind::kParameter, weight, {1, 2});
    p.tensor("s" + y, {4, 2}).tensor(y, {4, 2}).tensor("r" + y, {4, 2});
    p.node("aten.mul.Tensor", {self(before), tensor("other", weight)}, "s" + y);
    p.node("aten.sin.default", {self("s" + y)}, "r" + y);
    p.node("aten.index.Tensor", {self("r" + y), kIndices}, y);
    before = y;
  }
  p.output(before);
  clients::Model model = translated(p);
  EXPECT_EQ(checks_of(model).size(), 1u);
  common::Graph rolled = common::roll(model.graph);
  EXPECT_TRUE(std::any_of(rolled.nodes.begin(), rolled.nodes.end(),
                          [](const auto& node) { return node.op == common::Op::kLoop; }));
  EXPECT_EQ(rolled.outputs.back().kind, OutputKind::kCheck);
}

TEST(IndexChecks, ATighterCheckStandsForALooserOne) {
  Program p;
  p.input("a", {4}).input("b", {9}).input("i", {2}, ScalarType::kInt64);
  p.tensor("y", {2}).tensor("z", {2});
  p.node("aten.gather.default", {self("a"), axis(0), tensor("index", "i")}, "y");
  p.node("aten.index.Tensor", {self("b"), kIndices}, "z");
  p.output("y").output("z");
  std::vector<GraphOutput> checks = checks_of(translated(p));
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_TRUE(checks[0].limit.is_constant(4));
}

// Positions are those of the input, whatever the model makes of it first; repeats are read once.
TEST(IndexChecks, PositionsAreTheInputs) {
  Program p;
  p.input("t", {5, 2}).input("i", {2, 3}, ScalarType::kInt32);
  p.tensor("c", {2, 3}, ScalarType::kInt64).tensor("s", {2, 2}, ScalarType::kInt64);
  p.tensor("y", {2, 2, 2});
  p.node("aten._to_copy.default", {self("i"), {"dtype", ScalarType::kInt64}}, "c");
  p.node("aten.slice.Tensor", {self("c"), axis(1), {"start", int64_t{1}}, {"end", int64_t{3}}},
         "s");
  p.node("aten.embedding.default", {tensor("weight", "t"), tensor("indices", "s")}, "y");
  p.output("y");
  clients::Model model = translated(p);
  HostTensor table = HostTensor::zeros(DType::kFloat32, {5, 2}).value();
  auto with = [&](std::vector<int64_t> values) {
    return found(model, {table, integers(std::move(values), {2, 3}, DType::kInt32)});
  };
  EXPECT_EQ(checks_of(model).at(0).input, model.user_inputs[1]);
  EXPECT_EQ(with({0, 1, 2, 3, 4, 4}), std::vector<int64_t>{kNone});
  EXPECT_EQ(with({99, 1, 2, 99, 4, 4}), std::vector<int64_t>{kNone});  // the slice leaves them out
  EXPECT_EQ(with({0, 1, 2, 3, 5, 9}), std::vector<int64_t>{4});
}

TEST(IndexChecks, WhatTheModelComputesIsNamedByItsOperator) {
  Program p;
  p.input("t", {5, 2}).input("i", {3}, ScalarType::kInt64);
  p.tensor("k", {3}, ScalarType::kInt64).tensor("y", {3, 2});
  p.node("aten.add.Tensor", {self("i"), {"other", int64_t{1}}}, "k");
  p.node("aten.embedding.default", {tensor("weight", "t"), tensor("indices", "k")}, "y");
  p.output("y");
  clients::Model model = translated(p);
  ASSERT_EQ(checks_of(model).size(), 1u);
  EXPECT_EQ(checks_of(model)[0].input, -1);
  ASSERT_EQ(model.check_sources.size(), 1u);
  const auto& [output, source] = *model.check_sources.begin();
  EXPECT_EQ(model.graph.outputs[static_cast<size_t>(output)].kind, OutputKind::kCheck);
  EXPECT_EQ(source.rfind("aten.embedding.default (node 'y') at net.py:12", 0), 0u) << source;
}

TEST(IndexChecks, NoIndexIsRight) {
  Program p;
  p.input("t", {5, 2}).input("i", {0}, ScalarType::kInt64).tensor("y", {0, 2});
  p.node("aten.embedding.default", {tensor("weight", "t"), tensor("indices", "i")}, "y");
  p.output("y");
  clients::Model model = translated(p);
  HostTensor table = HostTensor::zeros(DType::kFloat32, {5, 2}).value();
  for (int64_t value : found(model, {table, integers({}, {0})})) EXPECT_EQ(value, kNone);
}

// The program states that three are true: another number is reported.
TEST(StatedSelections, AreCheckedAgainstTheirNumber) {
  Program p;
  p.input("t", {2, 3}).input("m", {2, 3}, ScalarType::kBool);
  p.tensor("y", {3}).tensor("i", {3, 2}, ScalarType::kInt64).tensor("z", {3});
  p.node("aten.masked_select.default", {self("t"), tensor("mask", "m")}, "y").output("y");
  p.node("aten.nonzero.default", {self("m")}, "i").output("i");
  p.node("aten.index.Tensor", {self("t"), {"indices", TensorListArgument{{"m"}}}}, "z");
  p.output("z");
  clients::Model model = translated(p);
  HostTensor table = line({1, 2, 3, 4, 5, 6}, {2, 3});
  HostTensor mask = integers({0, 1, 1, 0, 1, 0}, {2, 3}, DType::kBool);
  std::vector<HostTensor> results = pt2_test::run(model, {table, mask});
  EXPECT_EQ(pt2_test::floats(results[0]), (std::vector<float>{2, 3, 5}));
  EXPECT_EQ(pt2_test::floats(results[1]), (std::vector<float>{0, 1, 0, 2, 1, 1}));
  EXPECT_EQ(pt2_test::floats(results[2]), (std::vector<float>{2, 3, 5}));
  ASSERT_FALSE(checks_of(model).empty());
  for (int64_t value : found(model, {table, mask})) EXPECT_EQ(value, kNone);
  HostTensor more = integers({1, 1, 1, 0, 1, 0}, {2, 3}, DType::kBool);
  for (int64_t value : found(model, {table, more})) EXPECT_EQ(value, 0);
  HostTensor none = integers({0, 0, 0, 0, 0, 0}, {2, 3}, DType::kBool);
  for (int64_t value : found(model, {table, none})) EXPECT_EQ(value, 0);
}

}  // namespace
