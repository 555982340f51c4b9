// Rules: if these fail, structure is not found, or a rewrite changes what a model computes.
#include <gtest/gtest.h>

#include <set>

#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "coordinator/rules/saturate.h"
#include "coordinator/search/space/region_space.h"
#include "tests/unit/ir/transformer.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::Op;
using common::ReduceOp;
using common::Shape;
using common::UnaryOp;
using IrNode = common::NodeId;

// The operations (with lowerings) in the class of the graph's first output.
std::set<std::string> root_forms(const Graph& graph) {
  common::SteadyClock clock;
  Saturated s = saturate(graph, RunLimits{}, clock);
  EXPECT_EQ(s.report.stop, StopReason::kSaturated);
  std::set<std::string> forms;
  s.graph->for_each_node(s.outputs[0], [&](coordinator::NodeId n) {
    std::string name = s.heads->name(s.graph->head(n));
    std::string operation = name.substr(0, name.find(' '));
    forms.insert(operation + name.substr(name.rfind('@')));
  });
  return forms;
}

// All e-nodes of a saturated graph.
class Forms {
 public:
  explicit Forms(const Graph& graph) : s_(saturate(graph, RunLimits{}, clock_)) {}
  int count(const std::string& form) const {
    int found = 0;
    for_each([&](const common::Node&, const std::string& name) { found += name == form; });
    return found;
  }
  // Sizes of 0 are left out.
  bool has_contraction_of(const std::vector<int>& sizes) const {
    Shape wanted;
    for (int size : sizes) {
      if (size != 0) wanted.emplace_back(size);
    }
    bool found = false;
    for_each([&](const common::Node& node, const std::string&) {
      found = found || (node.op == Op::kContract && node.shape == wanted);
    });
    return found;
  }

 private:
  template <class F>
  void for_each(F&& f) const {
    for (ClassId cls : s_.graph->classes()) {
      s_.graph->for_each_node(cls, [&](coordinator::NodeId n) {
        Head head = s_.graph->head(n);
        std::string name = s_.heads->name(head);
        f(s_.heads->node(head), name.substr(0, name.find(' ')) + name.substr(name.rfind('@')));
      });
    }
  }

  common::SteadyClock clock_;
  Saturated s_;
};

TEST(Rules, MatmulInEveryLayoutIsAContraction) {
  for (int layout = 0; layout < 4; ++layout) {
    GraphBuilder b({{1, 64}});
    Expr s0 = Expr::symbol(0);
    bool turn_a = (layout & 1) != 0;
    bool turn_b = (layout & 2) != 0;
    IrNode x =
        b.input(InputKind::kUser, DType::kFloat32, turn_a ? Shape{8, s0} : Shape{s0, 8}, "x");
    IrNode w =
        b.input(InputKind::kWeight, DType::kFloat32, turn_b ? Shape{4, 8} : Shape{8, 4}, "w");
    b.output(b.matmul(turn_a ? b.permute(x, {1, 0}) : x, turn_b ? b.permute(w, {1, 0}) : w));
    auto forms = root_forms(b.finish());
    EXPECT_TRUE(forms.count("contract@tile")) << layout;
    EXPECT_TRUE(forms.count("contract@gemm")) << layout;
  }
}

TEST(Rules, HalfPrecisionMatmulIsATileButNotALibraryCall) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kBfloat16, {4, 8}, "x");
  IrNode w = b.input(InputKind::kWeight, DType::kBfloat16, {8, 4}, "w");
  b.output(b.matmul(b.cast(x, DType::kFloat32), b.cast(w, DType::kFloat32)));
  auto forms = root_forms(b.finish());
  EXPECT_TRUE(forms.count("contract@tile"));
}

TEST(Rules, OneRowTimesAMatrixIsALibraryCallAndNotPacked) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {1, 1, 8}, "x");
  IrNode w = b.input(InputKind::kWeight, DType::kFloat32, {4, 8}, "w");
  b.output(b.matmul(x, b.permute(w, {1, 0})));
  Forms forms(b.finish());
  EXPECT_EQ(forms.count("contract@gemm"), 1);
  EXPECT_EQ(forms.count("contract@tile"), 0);
}

TEST(Rules, AConvolutionOfOneImageIsAContraction) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {1, 3, 8, 8}, "x");
  IrNode w = b.input(InputKind::kWeight, DType::kFloat32, {5, 3, 3, 3}, "w");
  Expr row = Expr::index(2) + Expr::index(5), column = Expr::index(3) + Expr::index(6);
  Shape product{1, 5, 6, 6, 3, 3, 3};
  IrNode windows = b.view(x, {product, {0, Expr::index(4), row, column}, {}, 0});
  IrNode kernel =
      b.view(w, {product, {Expr::index(1), Expr::index(4), Expr::index(5), Expr::index(6)}, {}, 0});
  b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, windows, kernel), {4, 5, 6}));
  EXPECT_EQ(Forms(b.finish()).count("contract@tile"), 1);
}

// As one product a group: the heads of a group are rows of one matrix.
TEST(Rules, GroupedHeadsShareTheirKeys) {
  for (int rows : {1, 16}) {
    GraphBuilder b;
    IrNode q = b.input(InputKind::kUser, DType::kFloat32, {1, 6, rows, 4}, "q");
    IrNode k = b.input(InputKind::kUser, DType::kFloat32, {1, 2, 9, 4}, "k");
    IrNode all = b.reshape(b.expand(b.unsqueeze(k, 2), {1, 2, 3, 9, 4}), {1, 6, 9, 4});
    b.output(b.matmul(q, b.permute(all, {0, 1, 3, 2})));
    Forms forms(b.finish());
    EXPECT_EQ(forms.count("contract@gemm"), 1) << "only the product a group is one to the library";
    EXPECT_TRUE(forms.has_contraction_of({2, 3, rows == 1 ? 0 : rows, 9})) << rows;
  }
}

// The sums may divide what the product makes of the exponentials; if they are of other rows, not.
TEST(Rules, ProductsThatAreNormalisedAfterwardsAreAttention) {
  for (bool own_rows : {true, false}) {
    GraphBuilder b;
    IrNode q = b.input(InputKind::kUser, DType::kFloat32, {1, 2, 6, 4}, "q");
    IrNode k = b.input(InputKind::kUser, DType::kFloat32, {1, 2, 6, 4}, "k");
    IrNode v = b.input(InputKind::kUser, DType::kFloat32, {1, 2, 6, 6}, "v");
    IrNode scores = b.matmul(q, b.permute(k, {0, 1, 3, 2}));
    IrNode top = b.reduce(ReduceOp::kMax, scores, {3}, true);
    IrNode e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, scores, top));
    IrNode sums = b.reduce(ReduceOp::kSum, e, {3}, true);
    if (!own_rows) sums = b.permute(sums, {0, 1, 3, 2});
    b.output(b.binary(BinaryOp::kDiv, b.matmul(e, v), sums));
    Forms forms(b.finish());
    EXPECT_EQ(forms.count("contract@attention") > 0, own_rows);
    EXPECT_EQ(forms.count("softmax@in_place") > 0, own_rows);
  }
}

// A scale moves into the weight only where nothing else needs what it scales.
TEST(Rules, AProductThatIsScaledInTwoWaysIsMadeOnce) {
  for (bool gelu : {false, true}) {
    GraphBuilder b;
    IrNode x = b.input(InputKind::kUser, DType::kFloat32, {16, 64}, "x");
    IrNode w = b.input(InputKind::kWeight, DType::kFloat32, {64, 96}, "w");
    IrNode bias = b.input(InputKind::kWeight, DType::kFloat32, {96}, "bias");
    IrNode h = b.binary(BinaryOp::kAdd, b.matmul(x, w), bias);
    auto scaled = [&](double scale) {
      return b.binary(BinaryOp::kMul, h, b.full(DType::kFloat32, b.shape(h), scale));
    };
    b.output(gelu ? b.binary(BinaryOp::kMul, scaled(0.5), b.unary(UnaryOp::kErf, scaled(0.7)))
                  : b.unary(UnaryOp::kErf, scaled(0.7)));
    Graph graph = b.finish();
    EXPECT_EQ(Forms(graph).count("contract@tile") == 1, gelu);
    common::SteadyClock clock;
    common::Program program = RegionSpace(graph, clock).decode({}).program;
    int contractions = 0;
    for (const common::Call& call : program.calls) {
      for (const common::Node& node :
           program.kernels[static_cast<size_t>(call.kernel)].body.nodes) {
        contractions += node.op == Op::kContract;
      }
    }
    EXPECT_EQ(contractions, 1);
  }
}

// Each token's expert would be copied.
TEST(Rules, GatheredExpertsAreNotStoredForTheLibrary) {
  GraphBuilder b({{1, 64}});
  Expr tokens = Expr::symbol(0);
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {tokens, 8}, "x");
  IrNode experts = b.input(InputKind::kWeight, DType::kFloat32, {4, 8, 6}, "experts");
  IrNode chosen = b.input(InputKind::kUser, DType::kInt64, {tokens, 1, 1}, "chosen");
  IrNode w = b.gather(experts, {chosen}, {tokens, 8, 6},
                      {{0, {}}, {-1, Expr::index(1)}, {-1, Expr::index(2)}});
  b.output(b.matmul(b.unsqueeze(x, 1), w));
  Forms forms(b.finish());
  EXPECT_EQ(forms.count("contract@abstract"), 1);
  EXPECT_EQ(forms.count("contract@gemm"), 0);
}

// Work, not time: matches, e-nodes and iterations of unrolled layers.
TEST(Rules, SaturationGrowsWithTheLayersAndNoFaster) {
  common::SteadyClock clock;
  auto work = [&](int layers) {
    Saturated s = saturate(common::testing::Transformer(layers).finish(), RunLimits{}, clock);
    EXPECT_EQ(s.report.stop, StopReason::kSaturated);
    uint64_t matches = 0;
    for (const RuleReport& rule : s.report.rules) matches += rule.matches;
    return std::pair<uint64_t, uint64_t>(matches, s.report.nodes);
  };
  auto one = work(1), many = work(24);
  EXPECT_LE(many.first, 25 * one.first);
  EXPECT_LE(many.second, 25 * one.second);
}

TEST(Rules, ASumOfSquaresIsNoContraction) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {4, 8}, "x");
  b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, x, x), {1}));
  EXPECT_FALSE(root_forms(b.finish()).count("contract@tile"));
}

IrNode softmax_parts(GraphBuilder& b, IrNode x, int sum_axis) {
  IrNode top = b.reduce(ReduceOp::kMax, x, {1}, true);
  IrNode e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, x, top));
  return b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {sum_axis}, true));
}

TEST(Rules, SoftmaxIsFoundFromItsParts) {
  GraphBuilder b({{1, 64}});
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0), 7}, "x");
  b.output(softmax_parts(b, x, 1));
  EXPECT_TRUE(root_forms(b.finish()).count("softmax@in_place"));
}

TEST(Rules, ASumOverAnotherAxisIsNoSoftmax) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {7, 7}, "x");
  b.output(softmax_parts(b, x, 0));
  EXPECT_FALSE(root_forms(b.finish()).count("softmax@in_place"));
}

// x * rsqrt(mean(x^2) + eps), with what is squared and the divisor as given.
Graph rms(double divisor, bool centre) {
  GraphBuilder b({{1, 64}});
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {Expr::symbol(0), 3, 16}, "x");
  auto mean = [&](IrNode v) {
    return b.binary(BinaryOp::kDiv, b.reduce(ReduceOp::kSum, v, {2}, true),
                    b.scalar(DType::kFloat32, divisor));
  };
  IrNode d = centre ? b.binary(BinaryOp::kSub, x, mean(x)) : x;
  IrNode square = b.binary(BinaryOp::kPow, d, b.scalar(DType::kFloat32, 2));
  IrNode variance = b.binary(BinaryOp::kAdd, mean(square), b.scalar(DType::kFloat32, 1e-5));
  b.output(b.binary(BinaryOp::kMul, d, b.unary(UnaryOp::kRsqrt, variance)));
  return b.finish();
}

TEST(Rules, NormsAreFoundFromTheirParts) {
  EXPECT_TRUE(root_forms(rms(16, false)).count("norm@in_place"));
  EXPECT_TRUE(root_forms(rms(16, true)).count("norm@in_place"));
}

// As one of the rows that lie across, which is offered and not the default: sums side by side are
// faster on a processor.
TEST(Rules, ANormOverTheLeadingAxisIsOneOfColumns) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {16, 40}, "x");
  auto mean = [&](IrNode y) {
    return b.binary(BinaryOp::kDiv, b.reduce(ReduceOp::kSum, y, {0}, true),
                    b.scalar(DType::kFloat32, 16));
  };
  IrNode d = b.binary(BinaryOp::kSub, x, mean(x));
  IrNode v = b.binary(BinaryOp::kAdd, mean(b.binary(BinaryOp::kMul, d, d)),
                      b.scalar(DType::kFloat32, 1e-5));
  b.output(b.binary(BinaryOp::kMul, d, b.unary(UnaryOp::kRsqrt, v)));
  Graph graph = b.finish();
  EXPECT_EQ(Forms(graph).count("norm@in_place"), 1);
  common::SteadyClock clock;
  for (const common::Kernel& kernel : RegionSpace(graph, clock).decode({}).program.kernels) {
    for (const common::Node& node : kernel.body.nodes) EXPECT_NE(node.op, Op::kNorm);
  }
}

TEST(Rules, ASumScaledByAnotherNumberIsNoNorm) {
  EXPECT_FALSE(root_forms(rms(17, false)).count("norm@in_place"));
}

TEST(Rules, NeutralElementsVanish) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  IrNode y = b.binary(BinaryOp::kAdd, b.binary(BinaryOp::kMul, x, b.scalar(DType::kFloat32, 1)),
                      b.scalar(DType::kFloat32, 0));
  b.output(b.unary(UnaryOp::kNeg, b.unary(UnaryOp::kNeg, y)));
  EXPECT_TRUE(root_forms(b.finish()).count("input@in_place"));
}

TEST(Rules, LossyCastsStay) {
  auto through = [](DType from, DType via) {
    GraphBuilder b;
    IrNode x = b.input(InputKind::kUser, from, {4}, "x");
    b.output(b.cast(b.cast(x, via), from));
    return root_forms(b.finish()).count("input@in_place") != 0;
  };
  EXPECT_TRUE(through(DType::kBfloat16, DType::kFloat32));
  EXPECT_FALSE(through(DType::kFloat32, DType::kBfloat16));
  EXPECT_FALSE(through(DType::kInt64, DType::kFloat64));
}

}  // namespace
}  // namespace coordinator
