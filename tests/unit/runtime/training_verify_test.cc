// Verification of training steps: if these fail, right steps are refused for elements that rounding
// alone decides, wrong ones pass, or candidates are tried on moments that no optimiser has.
#include <cmath>

#include "common/runtime/tensor/compare.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"
#include "tests/unit/runtime/interpreter_testing.h"

namespace common::testing {
namespace {

constexpr int64_t kRows = 64, kDepth = 48, kColumns = 24;

// What a candidate may do otherwise than the step that is asked for.
enum class Change {
  kNone,
  kOtherOrder,        // sums the gradient's products from the last to the first: right
  kWrongSign,         // adds the change
  kNoCorrection,      // of the moments' bias
  kStaleMoment,       // takes the first moment from before the step
  kNoDecay,           // leaves out weight decay
  kGradientRowTwice,  // sums one row's products twice
};

// One step of least squares, x w against y, by AdamW. `is_region`: inputs and outputs are all the
// user's, as of a part of a program.
struct Step {
  GraphBuilder b;
  bool is_region = false;
  InputKind kept() const { return is_region ? InputKind::kUser : InputKind::kState; }

  NodeId number(double value) { return b.scalar(DType::kFloat32, value); }
  NodeId mul(NodeId a, NodeId c) { return b.binary(BinaryOp::kMul, a, c); }
  NodeId add(NodeId a, NodeId c) { return b.binary(BinaryOp::kAdd, a, c); }
  NodeId sub(NodeId a, NodeId c) { return b.binary(BinaryOp::kSub, a, c); }
  NodeId div(NodeId a, NodeId c) { return b.binary(BinaryOp::kDiv, a, c); }
  NodeId reversed(NodeId x, int axis) {
    return b.slice(x, axis, b.shape(x)[static_cast<size_t>(axis)] - 1,
                   b.shape(x)[static_cast<size_t>(axis)], -1);
  }
  void write(int input, NodeId value) {
    if (is_region) {
      b.output(value);
    } else {
      b.mutate(input, value);
    }
  }

  Graph graph(Change change) {
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {kRows, kDepth}, "x");
    NodeId y = b.input(InputKind::kUser, DType::kFloat32, {kRows, kColumns}, "y");
    NodeId w = b.input(kept(), DType::kFloat32, {kDepth, kColumns}, "w");
    NodeId m = b.input(kept(), DType::kFloat32, {kDepth, kColumns}, "mean");
    NodeId v = b.input(kept(), DType::kFloat32, {kDepth, kColumns}, "square");
    NodeId t = b.input(kept(), DType::kFloat32, {}, "step");
    NodeId rate = b.input(InputKind::kUser, DType::kFloat32, {}, "rate");

    const bool turns = change == Change::kOtherOrder;
    NodeId away = sub(b.matmul(turns ? reversed(x, 1) : x, turns ? reversed(w, 0) : w), y);
    NodeId rows = b.permute(turns ? reversed(x, 0) : x, {1, 0});
    if (change == Change::kGradientRowTwice) {
      NodeId first = b.slice(away, 0, 0, 1);
      away = b.concat({add(first, first), b.slice(away, 0, 1, kRows - 1)}, 0);
    }
    NodeId g = mul(b.matmul(rows, turns ? reversed(away, 0) : away), number(2.0 / kRows));

    NodeId mean = add(mul(m, number(0.9)), mul(g, number(0.1)));
    NodeId square = add(mul(v, number(0.999)), mul(mul(number(0.001), g), g));
    NodeId next = add(t, number(1));
    auto corrected = [&](NodeId moment, double beta) {
      if (change == Change::kNoCorrection) return moment;
      NodeId power = b.binary(BinaryOp::kPow, number(beta), next);
      return div(moment, sub(number(1), power));
    };
    NodeId root = b.unary(UnaryOp::kSqrt, corrected(square, 0.999));
    NodeId first = corrected(change == Change::kStaleMoment ? m : mean, 0.9);
    NodeId quotient = div(first, add(root, number(1e-8)));
    NodeId decay = sub(number(1), mul(rate, number(0.01)));
    NodeId decayed = change == Change::kNoDecay ? w : mul(w, decay);
    NodeId step = mul(rate, quotient);
    write(2, change == Change::kWrongSign ? add(decayed, step) : sub(decayed, step));
    write(3, mean);
    write(4, square);
    write(5, next);
    return b.finish();
  }
};

Graph step_graph(Change change, bool is_region = false) {
  Step step;
  step.is_region = is_region;
  return step.graph(change);
}

std::vector<HostTensor> outputs_of(const Graph& graph, const std::vector<HostTensor>& inputs) {
  InterpretOptions options;
  options.precision = Precision::kPlain;
  return interpret(graph, inputs, options).value();
}

// Whether a candidate that does the step so passes on these inputs.
bool passes(Change change, const std::vector<HostTensor>& inputs, bool is_usual = true) {
  const Graph right = step_graph(Change::kNone);
  ReferenceOutputs reference = reference_outputs(right, inputs).value();
  const auto candidate = outputs_of(step_graph(change), inputs);
  auto judged = judge_outputs(right, inputs, candidate, is_usual, reference);
  if (change == Change::kOtherOrder && !judged.ok()) ADD_FAILURE() << judged.error().message;
  return judged.ok();
}

constexpr Change kWrong[] = {Change::kWrongSign, Change::kNoCorrection, Change::kStaleMoment,
                             Change::kNoDecay, Change::kGradientRowTwice};

TEST(Training, StepsPassInAnyOrderOfSumsAndWrongOnesDoNot) {
  const Graph right = step_graph(Change::kNone);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    auto inputs = synthetic_inputs(right, {}, seed, InputPattern::kNormal).value();
    EXPECT_TRUE(passes(Change::kOtherOrder, inputs));
    for (Change change : kWrong) {
      EXPECT_FALSE(passes(change, inputs)) << static_cast<int>(change) << " seed " << seed;
    }
  }
}

// The first step moves each element by the rate, whose sign is the gradient's. Columns that are
// fitted already have a gradient of rounding alone, as a bias in front of a softmax has.
TEST(Training, SignsOfRoundingPassInAFirstStepAndWrongStepsDoNot) {
  const Graph right = step_graph(Change::kNone);
  for (int64_t fitted : {1, 6}) {
    auto inputs = synthetic_inputs(right, {}, 5, InputPattern::kNormal).value();
    for (size_t kept : {3, 4, 5}) {
      inputs[kept] = HostTensor::zeros(DType::kFloat32, inputs[kept].sizes()).value();
    }
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < fitted; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < kDepth; ++k) {
          sum += inputs[0].get(row * kDepth + k) * inputs[2].get(k * kColumns + column);
        }
        inputs[1].set(row * kColumns + column, sum);
      }
    }
    EXPECT_TRUE(passes(Change::kOtherOrder, inputs)) << fitted;
    for (Change change :
         {Change::kWrongSign, Change::kNoCorrection, Change::kStaleMoment, Change::kNoDecay}) {
      EXPECT_FALSE(passes(change, inputs)) << static_cast<int>(change);
    }
  }
}

TEST(Training, MomentsAreThoseOfAnOptimiser) {
  for (bool is_region : {false, true}) {
    const Graph graph = step_graph(Change::kNone, is_region);
    const std::vector<FloatUse> uses = float_uses(graph);
    EXPECT_EQ(uses[0], FloatUse{});
    EXPECT_EQ(uses[1], FloatUse{});
    EXPECT_TRUE(uses[2].trained);
    EXPECT_FALSE(uses[2].not_negative || uses[3].not_negative);
    EXPECT_TRUE(uses[4].not_negative);
    EXPECT_FALSE(uses[4].counts);
    EXPECT_TRUE(uses[5].counts);
    EXPECT_EQ(uses[6], FloatUse{}) << "the rate";
    for (InputPattern pattern : {InputPattern::kNormal, InputPattern::kMixed, InputPattern::kLarge,
                                 InputPattern::kNegative}) {
      auto inputs = synthetic_inputs(graph, {}, 3, pattern).value();
      for (double value : numbers(inputs[4])) EXPECT_GE(value, 0);
      const double steps = inputs[5].get(0);
      EXPECT_GE(steps, is_region && pattern == InputPattern::kMixed ? 0 : 1);
      EXPECT_EQ(steps, std::floor(steps));
      for (const HostTensor& output : outputs_of(graph, inputs)) {
        for (double value : numbers(output)) ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST(Training, TrainedParametersAreScaledAsWeights) {
  auto inputs = synthetic_inputs(step_graph(Change::kNone), {}, 1, InputPattern::kNormal).value();
  double squares = 0;
  for (double value : numbers(inputs[2])) squares += value * value;
  EXPECT_NEAR(std::sqrt(squares / (kDepth * kColumns)), 1 / std::sqrt(double{kColumns}), 0.02);
}

// As RMSprop's centred squares: a mean of squares is no less than the mean's square.
TEST(Training, CentredSquaresHaveARoot) {
  GraphBuilder b;
  NodeId square = b.input(InputKind::kUser, DType::kFloat32, {512}, "square");
  NodeId mean = b.input(InputKind::kUser, DType::kFloat32, {512}, "mean");
  NodeId squared = b.binary(BinaryOp::kMul, mean, mean);
  b.output(b.unary(UnaryOp::kSqrt, b.binary(BinaryOp::kSub, square, squared)));
  const Graph graph = b.finish();
  for (InputPattern pattern : {InputPattern::kNormal, InputPattern::kMixed, InputPattern::kLarge}) {
    auto inputs = synthetic_inputs(graph, {}, 1, pattern).value();
    for (double root : numbers(outputs_of(graph, inputs)[0])) ASSERT_GT(root, 1);
  }
}

TEST(Training, RootsOfInputsAloneSayNothingOfUsers) {
  auto use = [](InputKind kind, auto&& build) {
    GraphBuilder b;
    NodeId x = b.input(kind, DType::kFloat32, {8}, "x");
    NodeId y = b.input(InputKind::kUser, DType::kFloat32, {8}, "y");
    NodeId out = build(b, x, y);
    if (kind == InputKind::kState) b.mutate(0, x);
    b.output(out);
    return float_uses(b.finish())[0].not_negative;
  };
  auto root = [](GraphBuilder& b, NodeId x, NodeId) { return b.unary(UnaryOp::kSqrt, x); };
  auto moved = [](GraphBuilder& b, NodeId x, NodeId) {
    NodeId small = b.scalar(DType::kFloat32, 1e-5);
    return b.unary(UnaryOp::kRsqrt, b.binary(BinaryOp::kAdd, x, small));
  };
  auto summed = [](GraphBuilder& b, NodeId x, NodeId y) {
    return b.unary(UnaryOp::kLog, b.binary(BinaryOp::kAdd, x, b.binary(BinaryOp::kMul, y, y)));
  };
  auto variance = [](GraphBuilder& b, NodeId x, NodeId y) {
    return b.unary(UnaryOp::kSqrt, b.binary(BinaryOp::kSub, y, b.binary(BinaryOp::kMul, x, x)));
  };
  EXPECT_FALSE(use(InputKind::kUser, root)) << "NaN is what it gives";
  EXPECT_FALSE(use(InputKind::kUser, moved));
  EXPECT_TRUE(use(InputKind::kState, moved));
  EXPECT_TRUE(use(InputKind::kUser, summed));
  EXPECT_FALSE(use(InputKind::kUser, variance));
}

}  // namespace
}  // namespace common::testing
