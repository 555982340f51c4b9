// Why plans are not shared: if these fail, `lfarm plan explain` names the wrong reason, or none.
#include "clients/cli/plans/key_difference.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"

namespace clients {
namespace {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;

struct Sample {
  int64_t low = 2, high = 128;
  DType dtype = DType::kFloat32;
  int64_t width = 16;
  BinaryOp op = BinaryOp::kAdd;
  double scalar = 1;
  bool second_input = false;
  std::string name = "x";
};

Graph graph_of(const Sample& sample) {
  GraphBuilder b;
  Expr rows = b.new_symbol({sample.low, sample.high});
  auto x = b.input(common::InputKind::kUser, sample.dtype, {rows, sample.width}, sample.name);
  if (sample.second_input) {
    b.input(common::InputKind::kWeight, DType::kFloat32, {Expr(4)}, "w");
  }
  b.output(b.binary(sample.op, x, b.scalar(sample.dtype, sample.scalar)));
  return b.finish();
}

KeyParts parts(const Sample& sample, const std::string& target = "cpu") {
  Graph graph = graph_of(sample);
  return parts_of("model", {common::graph_hash(graph), {target}, "strict", "1"}, graph);
}

// "field: a against b" of the first difference.
std::string difference(const KeyParts& a, const KeyParts& b) {
  auto found = first_difference(a, b);
  if (!found) return "";
  EXPECT_NE(found->why, "");
  return found->field + ": " + found->a + " against " + found->b;
}

TEST(KeyDifference, NamesTheFirstFieldThatDiffers) {
  Sample base;
  Sample other = base;
  other.name = "another name";
  EXPECT_EQ(difference(parts(base), parts(other)), "");
  other = base;
  other.high = 256;
  EXPECT_EQ(difference(parts(base), parts(other)), "dim 0 of input 0 (x): 2..128 against 2..256");
  other.high = INT64_MAX;
  EXPECT_EQ(difference(parts(base), parts(other)), "dim 0 of input 0 (x): 2..128 against 2..");
  other = base;
  other.width = 17;
  EXPECT_EQ(difference(parts(base), parts(other)), "dim 1 of input 0 (x): 16 against 17");
  other = base;
  other.dtype = DType::kFloat64;
  EXPECT_EQ(difference(parts(base), parts(other)), "type of input 0 (x): f32 against f64");
  other = base;
  other.second_input = true;
  EXPECT_EQ(difference(parts(base), parts(other)), "number of inputs: 1 against 2");
  EXPECT_EQ(difference(parts(base), parts(base, "gpu")), "target: cpu against gpu");
  other = base;
  other.op = BinaryOp::kMul;
  EXPECT_NE(difference(parts(base), parts(other)).find("mul"), std::string::npos);
  other = base;
  other.scalar = 2;
  EXPECT_NE(difference(parts(base), parts(other)), "");
}

TEST(KeyDifference, OfAPlanTheHashStandsForItsOperations) {
  Sample base;
  KeyParts model = parts(base);
  common::Plan plan;
  plan.key = model.key;
  plan.symbols = model.symbols;
  plan.inputs = model.inputs;
  plan.outputs = model.outputs;
  EXPECT_EQ(difference(model, parts_of("plan", plan)), "");
  plan.key.graph_hash = common::digest_of("other");
  EXPECT_EQ(difference(model, parts_of("plan", plan)).rfind("operations: graph ", 0), 0u);
}

TEST(KeyDifference, TheNearestAgreesLongest) {
  Sample base, wider = base, typed = base;
  wider.width = 17;
  typed.dtype = DType::kFloat64;
  EXPECT_GT(agreement(parts(base), parts(wider)), agreement(parts(base), parts(typed)));
  EXPECT_GT(agreement(parts(base), parts(base)), agreement(parts(base), parts(wider)));
}

}  // namespace
}  // namespace clients
