// Training graphs: losses with their gradients, and what their operators become. If these fail,
// models train on wrong gradients or steps, or callers cannot tell one gradient from another.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "clients/pt2/translate.h"
#include "tests/paths/paths.h"
#include "tests/unit/pt2/pt2_case.h"
#include "tests/unit/pt2/pt2_program.h"

namespace clients {
namespace {

using common::HostTensor;
using pt2_test::floats;
using pt2_test::line;
using pt2_test::Program;
using pt2_test::run;
using pt2_test::self;

TensorListArgument list(std::vector<std::string> names) { return {std::move(names)}; }
NamedArgument tensor(const std::string& name, const std::string& value) {
  return {name, TensorArgument{value}};
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-6) << k;
}

TEST(Training, GradientsAreOutputsThatSayWhatTheyAreOf) {
  Program p;
  p.input("x", {2}).tensor("loss", {}).tensor("g", {2});
  p.node("aten.sum.default", {self("x")}, "loss");
  p.node("aten.ones_like.default", {self("x")}, "g").output("loss").output("g").output("g");
  ExportedProgram program = p.get();
  program.outputs[0].kind = ExportOutputKind::kLoss;
  program.outputs[1].kind = program.outputs[2].kind = ExportOutputKind::kGradient;
  program.outputs[1].target = "layer.weight";
  program.outputs[2].target = "x";
  program.graph.outputs.insert(program.graph.outputs.begin(), NoneArgument{});
  program.outputs.insert(program.outputs.begin(),
                         OutputSpec{ExportOutputKind::kToken, NoneArgument{}, ""});
  auto model = translate(program);
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->user_outputs.size(), 3u);
  EXPECT_EQ(model->user_outputs[0].gradient_of, "");
  EXPECT_EQ(model->user_outputs[1].gradient_of, "layer.weight");
  EXPECT_EQ(model->user_outputs[2].gradient_of, "x");
  auto results = run(*model, {line({2, 3})});
  EXPECT_EQ(floats(results[1]), (std::vector<float>{1, 1}));
}

// A stride of two and a dilation leave gaps that gradients must step over.
TEST(Training, GradientsOfConvolutionsAreProductsAndNoScatters) {
  for (bool transposed : {false, true}) {
    Program p;
    p.input("g", {1, 2, transposed ? 9 : 2}).input("x", {1, 2, transposed ? 3 : 7});
    p.input("w", {2, 1, 3}).tensor("gx", {1, 2, transposed ? 3 : 7}).tensor("gw", {2, 1, 3});
    std::vector<int64_t> two = {2}, none = {0};
    p.node("aten.convolution_backward.default",
           {tensor("grad_output", "g"),
            tensor("input", "x"),
            tensor("weight", "w"),
            {"bias_sizes", std::vector<int64_t>{2}},
            {"stride", two},
            {"padding", none},
            {"dilation", two},
            {"transposed", transposed},
            {"output_padding", none},
            {"groups", int64_t{2}},
            {"output_mask", std::vector<bool>{true, true, false}}},
           "gx");
    p.second_output("gw").output("gx").output("gw");
    auto model = translate(p.get());
    ASSERT_TRUE(model.ok()) << model.error().message;
    for (const common::Node& node : model->graph.nodes) {
      EXPECT_NE(node.op, common::Op::kScatter);
      EXPECT_NE(node.op, common::Op::kGather);
    }
    if (transposed) continue;
    auto results = run(*model, {line({1, 2, 3, 4}, {1, 2, 2}),
                                line({1, 2, 3, 4, 5, 6, 7, 1, 0, 1, 0, 1, 0, 1}, {1, 2, 7}),
                                line({1, 2, 3, -1, 0, 1}, {2, 1, 3})});
    EXPECT_EQ(floats(results[0]), (std::vector<float>{1, 0, 4, 0, 7, 0, 6, -3, 0, -4, 0, 3, 0, 4}));
    EXPECT_EQ(floats(results[1]), (std::vector<float>{7, 13, 19, 7, 7, 7}));
  }
}

// The step of Adam written out: m = (1 - b1) g, v = (1 - b2) g^2 after one step from zero.
TEST(Training, AFusedStepChangesParametersAndStates) {
  for (bool decoupled : {false, true}) {
    Program p;
    p.stored(ExportInputKind::kBuffer, "w", {1, -2}).stored(ExportInputKind::kBuffer, "m", {0, 0});
    p.stored(ExportInputKind::kBuffer, "v", {0, 0}).input("g", {2}).input("step", {});
    p.tensor("y", {2});
    p.node(decoupled ? "aten._fused_adamw_.default" : "aten._fused_adam_.default",
           {{"self", list({"w"})},
            {"grads", list({"g"})},
            {"exp_avgs", list({"m"})},
            {"exp_avg_sqs", list({"v"})},
            {"max_exp_avg_sqs", list({})},
            {"state_steps", list({"step"})},
            {"lr", 0.1},
            {"beta1", 0.9},
            {"beta2", 0.99},
            {"weight_decay", 0.5},
            {"eps", 0.0},
            {"amsgrad", false},
            {"maximize", false}},
           "nothing");
    ExportedProgram program = p.get();
    program.graph.nodes[0].outputs.clear();
    auto model = translate(program);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto results =
        run(*model, {line({1, -2}), line({0, 0}), line({0, 0}), line({0.5, 3}),
                     HostTensor::copy_of(common::DType::kFloat32, {},
                                         common::as_bytes(std::string("\0\0\x80\x3f", 4)))
                         .value()});
    ASSERT_EQ(results.size(), 3u);
    // With decoupled decay the gradient stays, and the parameter loses lr * decay of itself.
    double first = decoupled ? 0.5 : 0.5 + 0.5 * 1, second = decoupled ? 3 : 3 + 0.5 * -2;
    double kept = decoupled ? 0.95 : 1;
    expect_near(floats(results[0]), {1 * kept - 0.1, -2 * kept - 0.1});
    expect_near(floats(results[1]), {0.1 * first, 0.1 * second});
    expect_near(floats(results[2]), {0.01 * first * first, 0.01 * second * second});
  }
}

// A fused step of one parameter of one number: what parameter and first state are afterwards.
std::vector<float> stepped(const std::string& target, std::vector<NamedArgument> numbers,
                           float gradient, const std::vector<std::string>& lists,
                           const std::vector<float>& states, float steps) {
  Program p;
  p.stored(ExportInputKind::kBuffer, "w", {1});
  std::vector<HostTensor> given = {line({1})};
  std::vector<NamedArgument> arguments = {{"self", list({"w"})}, {"grads", list({"g"})}};
  for (size_t k = 0; k < lists.size(); ++k) {
    p.stored(ExportInputKind::kBuffer, lists[k], {states[k]});
    given.push_back(line({states[k]}));
    arguments.push_back({lists[k], list({lists[k]})});
  }
  p.input("g", {1}).input("step", {}).tensor("y", {1});
  given.push_back(line({gradient}));
  given.push_back(line({steps}).reshaped({}).value());
  arguments.push_back({"state_steps", list({"step"})});
  for (NamedArgument& number : numbers) arguments.push_back(std::move(number));
  p.node(target, std::move(arguments), "nothing");
  ExportedProgram program = p.get();
  program.graph.nodes[0].outputs.clear();
  auto model = translate(program);
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  if (!model.ok()) return {};
  // The step is no input of a model that does not read it.
  given.resize(model->graph.inputs.size());
  auto results = run(*model, given);
  return {floats(results[0])[0], floats(results[1])[0]};
}

// By hand, from PyTorch's description of each optimizer.
TEST(Training, FusedStepsOfOtherOptimizers) {
  auto sgd = [](bool nesterov, bool first) {
    return stepped("aten._fused_sgd_.default",
                   {{"weight_decay", 0.1},
                    {"momentum", 0.9},
                    {"lr", 0.1},
                    {"dampening", 0.0},
                    {"nesterov", nesterov},
                    {"maximize", false},
                    {"is_first_step", first}},
                   0.5F, {"momentum_buffer_list"}, {2}, 1);
  };
  expect_near(sgd(false, false), {1 - 0.1 * 2.4, 2.4});
  expect_near(sgd(true, false), {1 - 0.1 * (0.6 + 0.9 * 2.4), 2.4});
  expect_near(sgd(false, true), {1 - 0.1 * 0.6, 0.6});
  auto adagrad = stepped(
      "aten._fused_adagrad_.default",
      {{"lr", 0.3}, {"lr_decay", 0.5}, {"weight_decay", 0.0}, {"eps", 0.0}, {"maximize", false}}, 2,
      {"state_sums"}, {5}, 3);
  expect_near(adagrad, {1 - 0.15 * 2 / 3, 9});
  auto amsgrad = stepped("aten._fused_adam_.default",
                         {{"lr", 0.1},
                          {"beta1", 0.9},
                          {"beta2", 0.99},
                          {"weight_decay", 0.0},
                          {"eps", 0.0},
                          {"amsgrad", true},
                          {"maximize", false}},
                         1, {"exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"}, {0, 0, 1}, 1);
  expect_near(amsgrad, {0.99, 0.1});
}

TEST(Training, GradientsAreUnscaledAndOverflowIsFound) {
  for (float last : {8.0F, INFINITY, NAN}) {
    Program p;
    p.stored(ExportInputKind::kBuffer, "a", {2, 4}).stored(ExportInputKind::kBuffer, "b", {6, 8});
    p.stored(ExportInputKind::kBuffer, "found", {0}).input("inverse", {1});
    p.node(
        "aten._amp_foreach_non_finite_check_and_unscale_.default",
        {{"self", list({"a", "b"})}, tensor("found_inf", "found"), tensor("inv_scale", "inverse")},
        "nothing");
    ExportedProgram program = p.get();
    program.graph.nodes[0].outputs.clear();
    auto model = translate(program);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto results = run(*model, {line({2, 4}), line({6, last}), line({0}), line({0.5})});
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(floats(results[0]), (std::vector<float>{1, 2}));
    EXPECT_EQ(floats(results[1])[0], 3);
    EXPECT_EQ(floats(results[2]), (std::vector<float>{last == 8 ? 0.0F : 1.0F}));
  }
}

// The scale and the count of steps without overflow after a step.
std::vector<float> scale_after(float scale, float count, float found) {
  Program p;
  p.stored(ExportInputKind::kBuffer, "scale", {1}).input("found", {1});
  p.input("count", {1}, ScalarType::kInt32);
  p.tensor("y", {1}).tensor("n", {1}, ScalarType::kInt32);
  p.node("aten._amp_update_scale.default",
         {tensor("self", "scale"),
          tensor("growth_tracker", "count"),
          tensor("found_inf", "found"),
          {"scale_growth_factor", 2.0},
          {"scale_backoff_factor", 0.5},
          {"growth_interval", int64_t{3}}},
         "y");
  auto model = translate(p.second_output("n").output("y").output("n").get());
  EXPECT_TRUE(model.ok()) << model.error().message;
  HostTensor steps = HostTensor::zeros(common::DType::kInt32, {1}).value();
  steps.set(0, count);
  auto results = run(*model, {line({scale}), line({found}), steps});
  return {floats(results[0])[0], static_cast<float>(results[1].get(0))};
}

TEST(Training, ScalesGrowWithoutOverflowAndShrinkWithIt) {
  EXPECT_EQ(scale_after(8, 1, 0), (std::vector<float>{8, 2}));
  EXPECT_EQ(scale_after(8, 2, 0), (std::vector<float>{16, 0}));
  EXPECT_EQ(scale_after(8, 2, 1), (std::vector<float>{4, 0}));
  EXPECT_EQ(scale_after(3e38F, 2, 0), (std::vector<float>{3e38F, 0})) << "twice that is infinite";
}

TEST(Training, OperatorsOnListsWriteIntoEachTensor) {
  Program p;
  p.stored(ExportInputKind::kBuffer, "a", {1, 2}).stored(ExportInputKind::kBuffer, "b", {3, 4});
  p.input("x", {2}).tensor("y", {2}).tensor("z", {2});
  p.node("aten._foreach_mul_.Scalar", {{"self", list({"a", "b"})}, {"scalar", 2.0}}, "nothing");
  p.node("aten._foreach_addcmul.ScalarList",
         {{"self", list({"a", "b"})},
          {"tensor1", list({"x", "x"})},
          {"tensor2", list({"x", "b"})},
          {"scalars", std::vector<double>{1, -1}}},
         "nothing");
  ExportedProgram program = p.output("y").output("z").get();
  program.graph.nodes[0].outputs.clear();
  program.graph.nodes[1].outputs = {list({"y", "z"})};
  auto model = translate(program);
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto results = run(*model, {line({1, 2}), line({3, 4}), line({5, 6})});
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(floats(results[0]), (std::vector<float>{27, 40}));
  EXPECT_EQ(floats(results[1]), (std::vector<float>{-24, -40}));
  EXPECT_EQ(floats(results[2]), (std::vector<float>{2, 4}));
  EXPECT_EQ(floats(results[3]), (std::vector<float>{6, 8}));
}

std::vector<HostTensor> attention_gradients(const std::string& target, const std::string& gradient,
                                            const std::string& mask, bool masked) {
  Program p;
  std::vector<int64_t> sizes = {1, 1, 2, 2};
  for (const char* name : {"q", "k", "v", "o", "g", "m"}) p.input(name, sizes);
  p.input("lse", {1, 1, 2}).tensor("gq", sizes).tensor("gk", sizes).tensor("gv", sizes);
  std::vector<NamedArgument> arguments = {tensor(gradient, "g"), tensor("query", "q"),
                                          tensor("key", "k"),    tensor("value", "v"),
                                          tensor("out", "o"),    tensor("logsumexp", "lse"),
                                          {"dropout_p", 0.0},    {"is_causal", !masked}};
  if (masked) arguments.push_back(tensor(mask, "m"));
  p.node(target, arguments, "gq").second_output("gk").second_output("gv");
  p.output("gq").output("gk").output("gv");
  auto model = translate(p.get());
  EXPECT_TRUE(model.ok()) << model.error().message;
  if (!model.ok()) return {};
  // The second query sees both keys alike: weights of a half, and the mean of the values.
  std::vector<float> q = {1, 0, 0, 0}, k = {1, 2, 3, 4}, v = {1, 2, 3, 6};
  std::vector<float> mask_values = {0, -INFINITY, 0, 0};
  return run(*model, {line(q, sizes), line(k, sizes), line(v, sizes), line({1, 2, 2, 4}, sizes),
                      line({1, 1, 1, 1}, sizes), line(mask_values, sizes),
                      HostTensor::zeros(common::DType::kFloat32, {1, 1, 2}).value()});
}

TEST(Training, GradientsOfAttentionAreTheSameInTheFormsOfEveryDevice) {
  struct Form {
    const char* target;
    const char* gradient;
    const char* mask;
  };
  for (const Form& form :
       {Form{"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", "grad_out",
             "attn_mask"},
        Form{"aten._scaled_dot_product_efficient_attention_backward.default", "grad_out_",
             "attn_bias"},
        Form{"aten._scaled_dot_product_cudnn_attention_backward.default", "grad_out", "attn_bias"},
        Form{"aten._scaled_dot_product_flash_attention_backward.default", "grad_out", ""}}) {
    SCOPED_TRACE(form.target);
    for (bool masked : {false, true}) {
      if (masked && form.mask[0] == 0) continue;
      auto results = attention_gradients(form.target, form.gradient, form.mask, masked);
      ASSERT_EQ(results.size(), 3u);
      // Scores of the second row move by 1/2 (3 - 6) and 1/2 (9 - 6), over the root of two.
      double moved = 1.5 * std::sqrt(0.5);
      expect_near(floats(results[0]), {0, 0, -moved + 3 * moved, -2 * moved + 4 * moved});
      expect_near(floats(results[1]), {0, 0, 0, 0});
      expect_near(floats(results[2]), {1.5, 1.5, 0.5, 0.5});
    }
  }
}

// ---- Loops -----------------------------------------------------------------------------------

std::shared_ptr<ExportGraph> graph_of(const Program& body) {
  return std::make_shared<ExportGraph>(body.get().graph);
}

TEST(Loops, AScanOfKnownLengthGivesTheLastCarryAndEveryOutput) {
  Program body;
  body.input("h", {2}).input("row", {2}).tensor("next", {2}).tensor("twice", {2});
  body.node("aten.add.Tensor", {self("h"), tensor("other", "row")}, "next");
  body.node("aten.mul.Tensor", {self("next"), {"other", 2.0}}, "twice");
  body.output("next").output("twice");
  Program p;
  p.input("h0", {2}).input("x", {3, 2}).tensor("h", {2}).tensor("ys", {3, 2});
  p.node("higher_order.scan",
         {{"", GraphArgument{"body", graph_of(body)}},
          {"", list({"h0"})},
          {"", list({"x"})},
          {"", list({})}},
         "h");
  p.second_output("ys").output("h").output("ys");
  auto model = translate(p.get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto results = run(*model, {line({1, 1}), line({1, 2, 3, 4, 5, 6}, {3, 2})});
  EXPECT_EQ(floats(results[0]), (std::vector<float>{10, 13}));
  EXPECT_EQ(floats(results[1]), (std::vector<float>{4, 6, 10, 14, 20, 26}));
}

Program while_loop(bool counts) {
  Program condition, body, p;
  condition.input("i", {}, ScalarType::kInt64).input("h", {2});
  condition.tensor("go", {}, ScalarType::kBool);
  condition.node("aten.lt.Scalar", {self("i"), {"other", int64_t{3}}}, "go").output("go");
  body.input("i", {}, ScalarType::kInt64).input("h", {2});
  body.tensor("j", {}, ScalarType::kInt64).tensor("k", {2});
  body.node("aten.add.Tensor", {self("i"), {"other", int64_t{1}}}, "j");
  body.node("aten.mul.Tensor", {self("h"), {"other", 2.0}}, "k").output("j").output("k");
  p.input("x", {2}).input("n", {}, ScalarType::kInt64).tensor("zero", {}, ScalarType::kInt64);
  p.tensor("i", {}, ScalarType::kInt64).tensor("y", {2});
  p.node("aten.full.default", {{"size", std::vector<int64_t>{}}, {"fill_value", int64_t{0}}},
         "zero");
  p.node("higher_order.while_loop",
         {{"", GraphArgument{"condition", graph_of(condition)}},
          {"", GraphArgument{"body", graph_of(body)}},
          {"", list({counts ? "zero" : "n", "x"})},
          {"", list({})}},
         "i");
  p.second_output("y").output("y");
  return p;
}

TEST(Loops, AWhileLoopThatCountsIsWrittenOut) {
  auto model = translate(while_loop(true).get());
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto x = line({1, 5});
  auto results = run(*model, {x, HostTensor::zeros(common::DType::kInt64, {}).value()});
  EXPECT_EQ(floats(results[0]), (std::vector<float>{8, 40}));
}

TEST(Loops, AWhileLoopOfTheDataIsRefusedByName) {
  auto model = translate(while_loop(false).get());
  ASSERT_FALSE(model.ok());
  const std::string& message = model.error().message;
  EXPECT_NE(message.find("higher_order.while_loop"), std::string::npos) << message;
  EXPECT_NE(message.find("the data decides how many steps"), std::string::npos) << message;
}

// ---- Whole graphs ----------------------------------------------------------------------------

// tests/fixtures/make_gradient_cases.py made them.
TEST(BundledGradients, AgreeWithEagerPyTorch) {
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(paths::fixtures("/gradients"))) {
    auto result = pt2_test::run_case(entry.path().string());
    EXPECT_TRUE(result.passed) << entry.path().filename() << ": " << result.message;
    ++cases;
  }
  EXPECT_GE(cases, 30U);
}

}  // namespace
}  // namespace clients
