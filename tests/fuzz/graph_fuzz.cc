// Goal: graphs from the wire and from text are verified values or errors; the two forms and the
// verifier agree.
// Method: a graph with views, a reduction, a gather and a symbol, as bytes and as text, damaged.
// What decodes must survive both forms unchanged.
#include "common/base/check.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/wire/ir_codec.h"
#include "tests/fuzz/fuzz.h"

namespace {

common::Graph sample() {
  common::GraphBuilder b;
  common::Expr rows = b.new_symbol({2, 64});
  common::NodeId x = b.input(common::InputKind::kUser, common::DType::kFloat32, {rows, 8}, "x");
  common::NodeId w = b.input(common::InputKind::kWeight, common::DType::kFloat32, {8, 4}, "w");
  common::NodeId ids = b.input(common::InputKind::kUser, common::DType::kInt64, {rows}, "ids");
  common::NodeId y = b.matmul(x, w);
  common::NodeId scaled = b.binary(common::BinaryOp::kMul, y, b.scalar(common::DType::kFloat32, 2));
  common::NodeId picked = b.gather(scaled, {ids}, {rows}, {{0, {}}, {-1, common::Expr(1)}});
  b.output(b.reduce(common::ReduceOp::kMax, b.pad(picked, 0, 1, 1), {0}));
  b.output(b.unary(common::UnaryOp::kTanh, scaled));
  return b.finish();
}

void check_forms(const common::Graph& graph) {
  common::Status verified = common::verify(graph);
  LFARM_CHECK(verified.ok(), verified.error().message);
  auto decoded = common::decode_graph(common::encode_graph(graph));
  LFARM_CHECK(decoded.ok(), decoded.error().message);
  LFARM_CHECK(common::print(*decoded) == common::print(graph), "the bytes lose something");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  common::Graph graph = sample();
  return {std::string(common::as_text(common::encode_graph(graph))), common::print(graph)};
}

size_t fuzz::heap_bytes_max() { return size_t{64} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto decoded = common::decode_graph(bytes);
  if (decoded.ok()) check_forms(*decoded);
  auto parsed = common::parse_graph(common::as_text(bytes));
  if (parsed.ok()) {
    // Text may hold names that the wire refuses; they are for people and no part of the graph.
    for (common::GraphInput& input : parsed->inputs) input.name = "x";
    check_forms(*parsed);
  }
}
