#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "clients/pt2/archive/archive.h"
#include "clients/pt2/aten/sympy_parser.h"
#include "clients/pt2/translate.h"
#include "common/ir/hlir/graph_hash.h"
#include "tests/paths/paths.h"
#include "tests/unit/pt2/pt2_case.h"
#include "tests/unit/pt2/pt2_program.h"

namespace clients {
namespace {

using common::DType;
using common::Expr;
using common::HostTensor;
using pt2_test::floats;
using pt2_test::line;
using pt2_test::Program;
using pt2_test::run;
using pt2_test::self;

// ---- Size expressions ------------------------------------------------------------------------

std::string parsed(std::string_view text) {
  auto value = parse_sympy(text, [](std::string_view name) -> std::optional<Expr> {
    if (name == "s0") return Expr::symbol(0);
    if (name == "s77") return Expr::symbol(1);
    return std::nullopt;
  });
  return value.ok() ? value->text() : "error: " + value.error().message;
}
Expr s0() { return Expr::symbol(0); }

TEST(Sympy, ReadsBothSpellings) {
  EXPECT_EQ(parsed("s77"), Expr::symbol(1).text());
  EXPECT_EQ(parsed("Symbol('s77', positive=True, integer=True)"), Expr::symbol(1).text());
  EXPECT_EQ(parsed("2*s0"), (Expr(2) * s0()).text());
  EXPECT_EQ(parsed("Mul(Integer(2), Symbol('s0', positive=True, integer=True))"),
            (Expr(2) * s0()).text());
  EXPECT_EQ(parsed("s0 + 1"), (s0() + 1).text());
  EXPECT_EQ(parsed("-s0 - 3"), (-s0() - 3).text());
  EXPECT_EQ(parsed("Pow(Symbol('s0', positive=True, integer=True), Integer(2))"),
            (s0() * s0()).text());
  EXPECT_EQ(parsed("s0**2"), (s0() * s0()).text());
  EXPECT_EQ(parsed("Max(1, s0)"), common::max(1, s0()).text());
  EXPECT_EQ(parsed("Min(s0, 4, s77)"), common::min(common::min(s0(), 4), Expr::symbol(1)).text());
  EXPECT_EQ(parsed("(s0//2)"), common::floor_div(s0(), 2).text());
  EXPECT_EQ(parsed("FloorDiv(s0, 2)"), common::floor_div(s0(), 2).text());
  EXPECT_EQ(parsed("Mod(s0, 2)"), common::mod(s0(), 2).text());
  EXPECT_EQ(parsed("PythonMod(s0 + 1, 2)"), common::mod(s0() + 1, 2).text());
  EXPECT_EQ(parsed("CeilDiv(s0, 2)"), (-common::floor_div(-s0(), 2)).text());
}

TEST(Sympy, KeepsQuotientsExactUntilTheEnd) {
  EXPECT_EQ(parsed("(s0/2)*4"), (Expr(2) * s0()).text());
  EXPECT_EQ(parsed("Mul(Rational(1, 2), Mul(Integer(4), s0))"), (Expr(2) * s0()).text());
  EXPECT_EQ(parsed("floor(s0/2)"), common::floor_div(s0(), 2).text());
  EXPECT_EQ(parsed("2*s0/s0"), "2");
}

TEST(Sympy, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(parsed("u0 + 1").find("'u0'"), std::string::npos) << parsed("u0 + 1");
  EXPECT_NE(parsed("Piecewise(s0, 1)").find("'Piecewise'"), std::string::npos);
  EXPECT_NE(parsed("s0**s77").find("power"), std::string::npos);
  for (const char* text :
       {"", "s0 +", "(s0", "Max(s0", "s0 s77", "Symbol('s0", "99999999999999999999"}) {
    EXPECT_EQ(parsed(text).rfind("error", 0), 0u) << text;
  }
  for (const char* text : {"s0//0", "s0 % 0", "s0/0", "Mod(s0, 0)", "FloorDiv(1, 0)", "0**-1"}) {
    EXPECT_NE(parsed(text).find("divides by zero"), std::string::npos) << text;
  }
  // Beyond 64 bits, which take 2 to the 64th for 0.
  for (const char* text :
       {"s0*16**-16", "16**16", "4294967296*4294967296", "s0/(65536**4*s0)",
        "1/(4294967296*s0)/(4294967296*s0)", "4294967296*s0*4294967296", "9223372036854775807 + 1",
        "s0/(-9223372036854775807 - 1)", "(4294967296*s0 + 1)*(4294967296*s0 + 1)"}) {
    EXPECT_NE(parsed(text).find("larger numbers"), std::string::npos) << text << parsed(text);
  }
  EXPECT_EQ(parsed("Min(s0, 9223372036854775807)"),
            common::min(s0(), std::numeric_limits<int64_t>::max()).text());
  EXPECT_EQ(parsed(std::string(100000, '(')).rfind("error", 0), 0u) << "deep nesting";
}

// ---- Hand-written programs -------------------------------------------------------------------

TEST(Translate, NamesTheUnsupportedOperatorItsNodeAndItsLine) {
  Program p;
  p.input("x", {2}).tensor("y", {2}).node("aten.frobnicate.default", {self("x")}, "y").output("y");
  auto model = translate(p.get());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, common::Code::kUnsupported);
  const std::string& message = model.error().message;
  EXPECT_NE(message.find("aten.frobnicate.default"), std::string::npos) << message;
  EXPECT_NE(message.find("node 'y'"), std::string::npos) << message;
  EXPECT_NE(message.find("net.py:12: return self.f(x)"), std::string::npos) << message;
  EXPECT_NE(message.find("run_decompositions()"), std::string::npos) << message;
}

TEST(Translate, RefusesAShapeThatTheOperatorDoesNotGive) {
  Program p;
  p.input("x", {2}).tensor("y", {3}).node("aten.neg.default", {self("x")}, "y").output("y");
  auto model = translate(p.get());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("derives the shape [2]"), std::string::npos)
      << model.error().message;
}

TEST(Translate, AWriteThroughAViewReachesItsBaseAndItsSiblings) {
  Program p;
  p.input("x", {2, 3}).tensor("x2", {2, 3}).tensor("row", {3}).tensor("flat", {6});
  p.tensor("one", {3}).tensor("sum", {6});
  p.node("aten.clone.default", {self("x")}, "x2");
  p.node("aten.view.default", {self("x2"), {"size", std::vector<int64_t>{6}}}, "flat");
  p.node("aten.select.int", {self("x2"), {"dim", int64_t{0}}, {"index", int64_t{1}}}, "row");
  p.node("aten.add_.Tensor", {self("row"), {"other", int64_t{10}}}, "one");
  p.node("aten.neg.default", {self("flat")}, "sum");
  p.output("sum").output("x").output("one");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto out = run(*model, {line({1, 2, 3, 4, 5, 6}, {2, 3})});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{-1, -2, -3, -14, -15, -16}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{1, 2, 3, 4, 5, 6})) << "the clone took the write";
  EXPECT_EQ(floats(out[2]), (std::vector<float>{14, 15, 16}));
  EXPECT_EQ(out.size(), 3u) << "no input was written to";
}

TEST(Translate, AWrittenInputIsAnExtraOutputAndABufferIsState) {
  Program p;
  p.stored(ExportInputKind::kBuffer, "count", {5}).input("x", {1});
  p.tensor("c", {1}).tensor("y", {1});
  p.node("aten.add_.Tensor", {self("count"), {"other", TensorArgument{"x"}}}, "c");
  p.node("aten.mul_.Tensor", {self("x"), {"other", TensorArgument{"c"}}}, "y");
  p.output("y");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->graph.outputs.size(), 3u);
  EXPECT_EQ(model->graph.inputs[0].kind, common::InputKind::kState);
  EXPECT_EQ(model->graph.inputs[1].kind, common::InputKind::kUser);
  EXPECT_EQ(model->user_outputs[0].graph_output, 0);
  EXPECT_EQ(model->graph.outputs[1].input, 0);
  EXPECT_EQ(model->graph.outputs[2].input, 1);
  auto out = run(*model, {line({5}), line({3})});
  EXPECT_EQ(floats(out[0]), std::vector<float>{24});
  EXPECT_EQ(floats(out[1]), std::vector<float>{8});
  EXPECT_EQ(floats(out[2]), std::vector<float>{24});
}

TEST(Translate, SmallConstantsArePartOfTheGraphUnlessWrittenTo) {
  auto build = [](float value, bool writes) {
    Program p;
    p.stored(ExportInputKind::kTensorConstant, "k", {value}).input("x", {1});
    p.tensor("alias", {1}).tensor("w", {1}).tensor("y", {1});
    p.node("aten.view.default", {self("k"), {"size", std::vector<int64_t>{1}}}, "alias");
    if (writes) p.node("aten.add_.Tensor", {self("alias"), {"other", int64_t{1}}}, "w");
    p.node("aten.mul.Tensor", {self("x"), {"other", TensorArgument{"k"}}}, "y").output("y");
    auto model = translate(p.get());
    EXPECT_TRUE(model.ok());
    return *model;
  };
  Model folded = build(2, false);
  EXPECT_EQ(folded.graph.inputs.size(), 1u);
  EXPECT_NE(common::graph_hash(folded.graph), common::graph_hash(build(3, false).graph));
  EXPECT_EQ(floats(run(folded, {line({4})})[0]), std::vector<float>{8});
  Model state = build(2, true);
  ASSERT_EQ(state.graph.inputs.size(), 2u);
  EXPECT_EQ(state.graph.inputs[0].kind, common::InputKind::kState);
  auto out = run(state, {line({2}), line({4})});
  EXPECT_EQ(floats(out[0]), std::vector<float>{12});
  EXPECT_EQ(floats(out[1]), std::vector<float>{3});
}

// Exported models detach, in place, the numbers that they were written with, such as the 0 of a
// mask.
TEST(Translate, ConstantsWhoseViewAloneChangesArePartOfTheGraph) {
  Program p;
  p.stored(ExportInputKind::kTensorConstant, "k", {2}).input("x", {1});
  p.tensor("detached", {1}).tensor("y", {1});
  p.node("aten.detach_.default", {self("k")}, "detached");
  p.node("aten.mul.Tensor", {self("x"), {"other", TensorArgument{"detached"}}}, "y").output("y");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->graph.inputs.size(), 1u);
  EXPECT_EQ(floats(run(*model, {line({4})})[0]), std::vector<float>{8});
}

TEST(Translate, WeightValuesDoNotEnterTheHash) {
  auto hash = [](float value) {
    Program p;
    p.stored(ExportInputKind::kParameter, "w", {value}).input("x", {1}).tensor("y", {1});
    p.node("aten.mul.Tensor", {self("x"), {"other", TensorArgument{"w"}}}, "y").output("y");
    return common::graph_hash(translate(p.get())->graph);
  };
  EXPECT_EQ(hash(1), hash(2));
}

TEST(Translate, AnAllFalseMaskChangesNothing) {
  Program p;
  p.input("x", {3}).input("mask", {3}, ScalarType::kBool).input("v", {}).tensor("y", {3});
  p.node("aten.index_put.default",
         {self("x"), {"indices", TensorListArgument{{"mask"}}}, {"values", TensorArgument{"v"}}},
         "y");
  p.output("y");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  HostTensor mask = HostTensor::zeros(DType::kBool, {3}).value();
  HostTensor seven = HostTensor::zeros(DType::kFloat32, {}).value();
  seven.set(0, 7);
  EXPECT_EQ(floats(run(*model, {line({1, 2, 3}), mask, seven})[0]), (std::vector<float>{1, 2, 3}));
  HostTensor some = HostTensor::zeros(DType::kBool, {3}).value();
  some.set(1, 1);
  EXPECT_EQ(floats(run(*model, {line({1, 2, 3}), some, seven})[0]), (std::vector<float>{1, 7, 3}));
}

TEST(Translate, ANumberOnlyTheDataKnowsIsAScalarTensor) {
  Program p;
  p.input("x", {3}).input("k", {}, ScalarType::kInt64).tensor("y", {3}).tensor("z", {});
  p.number("aten.item.default", "k", "n");
  p.node("aten.mul.Tensor", {self("x"), {"other", SymIntArgument{"n", 0}}}, "y");
  p.node("aten.select.int", {self("y"), {"dim", int64_t{0}}, {"index", SymIntArgument{"n", 0}}},
         "z");
  p.output("y").output("z");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  HostTensor two = HostTensor::zeros(DType::kInt64, {}).value();
  two.set_int(0, 2);
  auto out = run(*model, {line({1, 2, 3}), two});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{6}));
}

TEST(Translate, WrappersRunTheirGraphInPlace) {
  Program body;
  body.input("a", {2}).tensor("b", {2});
  body.node("aten.add_.Tensor", {self("a"), {"other", int64_t{1}}}, "b").output("b");
  Program p;
  p.input("x", {2}).tensor("y", {2}).tensor("z", {2});
  auto nested = std::make_shared<const ExportGraph>(body.get().graph);
  p.node("higher_order.wrap_with_set_grad_enabled",
         {{"", false}, {"", GraphArgument{"g", nested}}, {"", TensorArgument{"x"}}}, "y");
  p.node("aten.neg.default", {self("x")}, "z").output("y").output("z");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto out = run(*model, {line({1, 2})});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{2, 3}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{-2, -3})) << "the write inside was lost";
}

std::shared_ptr<const ExportGraph> branch(const std::string& target) {
  Program body;
  body.input("a", {2}).tensor("b", {2});
  body.node(target, {self("a")}, "b").output("b");
  return std::make_shared<const ExportGraph>(body.get().graph);
}

TEST(Translate, AConditionChoosesBetweenItsBranches) {
  Program p;
  p.input("x", {2}).input("positive", {}, ScalarType::kBool).tensor("y", {2});
  p.node("higher_order.cond",
         {{"", TensorArgument{"positive"}},
          {"", GraphArgument{"yes", branch("aten.neg.default")}},
          {"", GraphArgument{"no", branch("aten.abs.default")}},
          {"", TensorListArgument{{"x"}}}},
         "y");
  p.output("y");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  HostTensor yes = HostTensor::zeros(DType::kBool, {}).value();
  yes.set_int(0, 1);
  EXPECT_EQ(floats(run(*model, {line({1, -2}), yes})[0]), (std::vector<float>{-1, 2}));
  HostTensor no = HostTensor::zeros(DType::kBool, {}).value();
  EXPECT_EQ(floats(run(*model, {line({1, -2}), no})[0]), (std::vector<float>{1, 2}));
}

TEST(Translate, OtherOperatorsOnGraphsAreRefused) {
  Program p;
  p.input("x", {2}).tensor("y", {2});
  p.node("higher_order.associative_scan",
         {{"", GraphArgument{"g", branch("aten.neg.default")}}, {"", TensorListArgument{{"x"}}}},
         "y");
  p.output("y");
  auto model = translate(p.get());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("higher_order.associative_scan"), std::string::npos);
  EXPECT_NE(model.error().message.find("write its steps out"), std::string::npos)
      << model.error().message;
}

TEST(Translate, LevelsOfVmapAreAxes) {
  const std::string functorch = "torch._functorch.predispatch.";
  Program p;
  p.input("x", {3, 2}).input("y", {2});
  p.tensor("row", {2}).tensor("sum", {2}).tensor("out", {2, 3});
  p.node(functorch + "_vmap_increment_nesting", {{"", int64_t{3}}, {"", std::string("error")}}, "");
  p.node(functorch + "_add_batch_dim",
         {{"", TensorArgument{"x"}}, {"", int64_t{0}}, {"", int64_t{1}}}, "row");
  p.node("aten.add.Tensor", {self("row"), {"other", TensorArgument{"y"}}}, "sum");
  p.node(functorch + "_remove_batch_dim",
         {{"", TensorArgument{"sum"}}, {"", int64_t{1}}, {"", int64_t{3}}, {"", int64_t{1}}},
         "out");
  p.node(functorch + "_vmap_decrement_nesting", {}, "").output("out");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto x = line({1, 2, 3, 4, 5, 6}).reshaped({3, 2}).value();
  EXPECT_EQ(floats(run(*model, {x, line({10, 20})})[0]),
            (std::vector<float>{11, 13, 15, 22, 24, 26}));
}

TEST(Translate, RefusedOperatorsAreLeftOutWhereNothingReadsThem) {
  Program p;
  p.input("x", {2}).tensor("counts", {2}).tensor("y", {2});
  p.node("aten.bincount.default", {self("x")}, "counts");
  p.node("aten.neg.default", {self("x")}, "y").output("y");
  EXPECT_TRUE(translate(p.get()).ok());
  p.output("counts");
  auto model = translate(p.get());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, common::Code::kUnsupported);
  EXPECT_NE(model.error().message.find("known only from the data"), std::string::npos);
}

TEST(Translate, StridedWeightsAreReadInRowMajorOrder) {
  StoredTensor turned;
  turned.dtype = ScalarType::kInt8;
  turned.sizes = {2, 3};
  turned.strides = {1, 2};
  auto owner = std::make_shared<std::string>("abcdef");
  turned.storage = common::as_bytes(*owner);
  turned.owner = owner;
  EXPECT_FALSE(is_contiguous(turned));
  EXPECT_EQ(common::as_text(contiguous_bytes(turned)), "acebdf");
  turned.strides = {0, 0};
  EXPECT_EQ(common::as_text(contiguous_bytes(turned)), "aaaaaa");
  turned.strides = {3, 1};
  ASSERT_TRUE(is_contiguous(turned));
  EXPECT_EQ(common::as_text(contiguous_view(turned)), "abcdef");
}

// ---- Options of operators --------------------------------------------------------------------

HostTensor whole_numbers(std::vector<int64_t> values) {
  auto tensor = HostTensor::zeros(DType::kInt64, {static_cast<int64_t>(values.size())}).value();
  for (size_t i = 0; i < values.size(); ++i) tensor.set_int(static_cast<int64_t>(i), values[i]);
  return tensor;
}
HostTensor truths(const std::vector<int64_t>& values) {
  auto tensor = HostTensor::zeros(DType::kBool, {static_cast<int64_t>(values.size())}).value();
  for (size_t i = 0; i < values.size(); ++i) tensor.set_int(static_cast<int64_t>(i), values[i]);
  return tensor;
}

// What the program gives for the inputs.
std::vector<HostTensor> results(const Program& p, const std::vector<HostTensor>& inputs) {
  auto model = translate(p.get());
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? run(*model, inputs) : std::vector<HostTensor>(1);
}

TEST(Translate, TheSmallestElementsAreFoundToo) {
  Program p;
  p.input("x", {4}).tensor("y", {2}).tensor("i", {2}, ScalarType::kInt64);
  p.node("aten.topk.default", {self("x"), {"k", int64_t{2}}, {"largest", false}}, "y");
  p.second_output("i").output("y").output("i");
  auto out = results(p, {line({3, 1, 4, 2})});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(floats(out[1]), (std::vector<float>{1, 3}));
}

TEST(Translate, LogarithmsOfSumsTakeInfinities) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Program p;
  p.input("x", {2, 2}).tensor("y", {2});
  p.node("aten.logsumexp.default", {self("x"), {"dim", std::vector<int64_t>{1}}}, "y").output("y");
  auto out = results(p, {line({kInfinity, 0, -kInfinity, -kInfinity}, {2, 2})});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{kInfinity, -kInfinity}));
}

// The old content does not count: all of nothing is true.
TEST(Translate, BooleansAreReducedIntoFreshPlaces) {
  Program p;
  p.input("x", {2}, ScalarType::kBool).input("at", {2}, ScalarType::kInt64);
  p.input("src", {2}, ScalarType::kBool).tensor("y", {2}, ScalarType::kBool);
  p.node("aten.scatter_reduce.two",
         {self("x"),
          {"dim", int64_t{0}},
          {"index", TensorArgument{"at"}},
          {"src", TensorArgument{"src"}},
          {"reduce", std::string("amin")},
          {"include_self", false}},
         "y");
  p.output("y");
  auto out = results(p, {truths({0, 0}), whole_numbers({0, 0}), truths({1, 1})});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{1, 0}));
}

// One head, one query, two keys of one element each.
std::vector<float> attended(std::vector<NamedArgument> options, const std::vector<int64_t>& mask) {
  Program p;
  p.input("q", {1, 4}).input("k", {2, 4}).input("v", {2, 1});
  p.input("mask", {2}, ScalarType::kBool).tensor("y", {1, 1});
  std::vector<NamedArgument> arguments{
      {"query", TensorArgument{"q"}}, {"key", TensorArgument{"k"}}, {"value", TensorArgument{"v"}}};
  if (!mask.empty()) arguments.push_back({"attn_mask", TensorArgument{"mask"}});
  arguments.insert(arguments.end(), options.begin(), options.end());
  p.node("aten.scaled_dot_product_attention.default", arguments, "y").output("y");
  HostTensor seen = mask.empty() ? truths({1, 1}) : truths(mask);
  return floats(results(p, {line({1, 0, 0, 0}, {1, 4}), line({4, 0, 0, 0, 0, 0, 0, 0}, {2, 4}),
                            line({1, 0}, {2, 1}), seen})[0]);
}

TEST(Translate, ScoresAreScaledAsAsked) {
  auto share = [](double difference) { return 1 / (1 + std::exp(-difference)); };
  EXPECT_NEAR(attended({}, {})[0], share(4 * 0.5), 1e-6);
  EXPECT_NEAR(attended({{"scale", 0.25}}, {})[0], share(4 * 0.25), 1e-6);
}

TEST(Translate, AQueryThatSeesNoKeyGivesZeros) {
  EXPECT_EQ(attended({}, {0, 0}), std::vector<float>{0});
  EXPECT_EQ(attended({}, {1, 0}), std::vector<float>{1});
}

// How many products the sums of a graph of known sizes take.
int64_t products_of(const common::Graph& graph) {
  int64_t products = 0;
  for (const common::Node& node : graph.nodes) {
    if (node.op != common::Op::kReduce) continue;
    int64_t elements = 1;
    for (const auto& size : graph.node(node.operands[0]).shape) elements *= size.constant();
    products += elements;
  }
  return products;
}

TEST(Translate, TransposedConvolutionsSpreadTheirTaps) {
  Program p;
  p.input("x", {1, 1, 2}).input("w", {1, 1, 2}).tensor("y", {1, 1, 4});
  p.node("aten.convolution.default",
         {{"input", TensorArgument{"x"}},
          {"weight", TensorArgument{"w"}},
          {"bias", NoneArgument{}},
          {"stride", std::vector<int64_t>{1}},
          {"padding", std::vector<int64_t>{0}},
          {"dilation", std::vector<int64_t>{2}},
          {"transposed", true},
          {"output_padding", std::vector<int64_t>{0}},
          {"groups", int64_t{1}}},
         "y");
  p.output("y");
  auto out = results(p, {line({1, 2}, {1, 1, 2}), line({3, 5}, {1, 1, 2})});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{3, 6, 5, 10}));
}

// By the definition: output place o sums tap t of input place o * stride + t * dilation - padding,
// which no output place has for some taps.
TEST(Translate, TapsThatLieInThePaddingEverywhereAreNotMultiplied) {
  struct Case {
    int64_t stride, dilation, padding, kernel, out, taps;
  };
  for (const Case& c : {Case{1, 5, 5, 3, 4, 1},  // the first and the last reach past both ends
                        {1, 3, 3, 3, 4, 3},      // each is read at one place at least
                        {1, 4, 0, 2, 1, 1},      // places are too few for the last
                        {2, 3, 6, 5, 2, 2},      // by steps of two places
                        {1, 1, 9, 2, 3, 1}}) {   // none is read: one of zeros stays
    constexpr int64_t kSize = 4;
    Program p;
    p.input("x", {1, 1, kSize}).input("w", {1, 1, c.kernel}).tensor("y", {1, 1, c.out});
    p.node("aten.convolution.default",
           {{"input", TensorArgument{"x"}},
            {"weight", TensorArgument{"w"}},
            {"bias", NoneArgument{}},
            {"stride", std::vector<int64_t>{c.stride}},
            {"padding", std::vector<int64_t>{c.padding}},
            {"dilation", std::vector<int64_t>{c.dilation}},
            {"transposed", false},
            {"output_padding", std::vector<int64_t>{0}},
            {"groups", int64_t{1}}},
           "y");
    p.output("y");
    std::vector<float> x{1, 2, -3, 5}, w{7, 11, -13, 17, 19}, right;
    w.resize(static_cast<size_t>(c.kernel));
    for (int64_t o = 0; o < c.out; ++o) {
      right.push_back(0);
      for (int64_t t = 0; t < c.kernel; ++t) {
        const int64_t i = o * c.stride + t * c.dilation - c.padding;
        if (i >= 0 && i < kSize)
          right.back() += x[static_cast<size_t>(i)] * w[static_cast<size_t>(t)];
      }
    }
    auto out = results(p, {line(x, {1, 1, kSize}), line(w, {1, 1, c.kernel})});
    EXPECT_EQ(floats(out[0]), right) << "dilation " << c.dilation;
    auto model = translate(p.get());
    ASSERT_TRUE(model.ok());
    EXPECT_EQ(products_of(model->graph), c.out * c.taps) << "dilation " << c.dilation;
  }
}

// Strides, with and without taps for every place, by the definition: input place i and tap t give
// to output place i * stride + t * dilation - padding.
TEST(Translate, StridesOfTransposedConvolutionsMultiplyNoZeros) {
  struct Case {
    int64_t stride, dilation, padding, kernel, out;
  };
  for (const Case& c : {Case{2, 1, 1, 3, 8}, {3, 2, 2, 4, 12}, {2, 2, 0, 2, 9}, {3, 1, 0, 2, 11}}) {
    constexpr int64_t kSize = 4;
    Program p;
    p.input("x", {1, 1, kSize}).input("w", {1, 1, c.kernel}).tensor("y", {1, 1, c.out});
    p.node("aten.convolution.default",
           {{"input", TensorArgument{"x"}},
            {"weight", TensorArgument{"w"}},
            {"bias", NoneArgument{}},
            {"stride", std::vector<int64_t>{c.stride}},
            {"padding", std::vector<int64_t>{c.padding}},
            {"dilation", std::vector<int64_t>{c.dilation}},
            {"transposed", true},
            {"output_padding", std::vector<int64_t>{0}},
            {"groups", int64_t{1}}},
           "y");
    p.output("y");
    std::vector<float> x{1, 2, -3, 5}, w{7, 11, -13, 17}, right(static_cast<size_t>(c.out), 0.0F);
    w.resize(static_cast<size_t>(c.kernel));
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t t = 0; t < w.size(); ++t) {
        int64_t o =
            static_cast<int64_t>(i) * c.stride + static_cast<int64_t>(t) * c.dilation - c.padding;
        if (o >= 0 && o < c.out) right[static_cast<size_t>(o)] += x[i] * w[t];
      }
    }
    auto out = results(p, {line(x, {1, 1, kSize}), line(w, {1, 1, c.kernel})});
    EXPECT_EQ(floats(out[0]), right) << "stride " << c.stride << ", dilation " << c.dilation;
    auto model = translate(p.get());
    ASSERT_TRUE(model.ok());
    EXPECT_LE(products_of(model->graph), (c.out + c.stride) / c.stride * c.kernel)
        << "one tap a place and phase";
  }
}

TEST(Translate, PaddingIsCountedOnlyIfAskedFor) {
  for (bool counted : {true, false}) {
    Program p;
    p.input("x", {1, 1, 2}).tensor("y", {1, 1, 2});
    p.node("aten.avg_pool1d.default",
           {self("x"),
            {"kernel_size", std::vector<int64_t>{2}},
            {"stride", std::vector<int64_t>{2}},
            {"padding", std::vector<int64_t>{1}},
            {"ceil_mode", false},
            {"count_include_pad", counted}},
           "y");
    p.output("y");
    auto out = results(p, {line({4, 6}, {1, 1, 2})});
    EXPECT_EQ(floats(out[0]), counted ? (std::vector<float>{2, 3}) : (std::vector<float>{4, 6}));
  }
}

TEST(Translate, NumbersOfTheDataAreComparedInOrder) {
  Program p;
  p.input("k", {}, ScalarType::kInt64).tensor("y", {}, ScalarType::kBool);
  p.number("aten.item.default", "k", "n");
  p.comparison("_operator.gt", "n", 2, "more");
  p.node("aten.scalar_tensor.default",
         {{"s", SymBoolArgument{"more", false}}, {"dtype", ScalarType::kBool}}, "y");
  p.output("y");
  EXPECT_EQ(floats(results(p, {whole_numbers({3}).reshaped({}).value()})[0]),
            std::vector<float>{1});
  EXPECT_EQ(floats(results(p, {whole_numbers({1}).reshaped({}).value()})[0]),
            std::vector<float>{0});
}

// ---- Saved cases -----------------------------------------------------------------------------

class SavedCase : public testing::TestWithParam<const char*> {};
TEST_P(SavedCase, AgreesWithEagerPyTorch) {
  auto result = pt2_test::run_case(paths::fixtures("/pt2/cases/") + GetParam());
  EXPECT_TRUE(result.passed) << result.message;
}
INSTANTIATE_TEST_SUITE_P(Fixtures, SavedCase,
                         testing::Values("mlp_dynamic", "kv_step", "input_mutation", "indexing",
                                         "reductions", "welch_peaks"),
                         [](const auto& info) { return std::string(info.param); });

TEST(BundledOperators, AgreeWithEagerPyTorch) {
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(paths::fixtures("/operators"))) {
    auto result = pt2_test::run_case(entry.path().string());
    EXPECT_TRUE(result.passed) << entry.path().filename() << ": " << result.message;
    ++cases;
  }
  EXPECT_GT(cases, 500U);
}

// Unstable sorts order ties as they like, so their positions cannot be compared.
bool orders_ties(const std::string& name) {
  return name == "argsort.default.bool.0" || name == "argsort.default.bfloat16.0";
}

void run_folder(const char* folder) {
  std::filesystem::path shared = std::filesystem::path(paths::shared()) / folder;
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no folder of cases at " << shared;
  for (const auto& entry : std::filesystem::directory_iterator(shared)) {
    std::string name = entry.path().filename().string();
    if (!entry.is_directory() || orders_ties(name)) continue;
    auto result = pt2_test::run_case(entry.path().string());
    EXPECT_TRUE(result.passed) << name << ": " << result.message;
  }
}

TEST(SharedCases, ModelsAgreeWithEagerPyTorch) { run_folder("models"); }
TEST(SharedCases, OperatorsAgreeWithEagerPyTorch) { run_folder("ops"); }

}  // namespace
}  // namespace clients
