#include "tests/golden/gpu_static_kernels.h"

#include <limits>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"

namespace golden {
namespace {

using namespace common;  // NOLINT: a test's own vocabulary

constexpr DType kWide = DType::kFloat32, kHalf = DType::kBfloat16;

NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "x");
}

// x of so many rows times the weights' transpose, summed in float32.
NodeId product(GraphBuilder& b, NodeId x, int64_t columns) {
  NodeId weights = input(b, kHalf, {columns, b.shape(x)[1]});
  return b.raw({Op::kContract,
                kWide,
                {b.shape(x)[0], columns},
                {x, weights},
                ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
}

Graph row_product(int64_t rows, int64_t columns, int64_t depth) {
  GraphBuilder b;
  b.output(b.cast(product(b, input(b, kHalf, {rows, depth}), columns), kHalf));
  return b.finish();
}

Graph gate_and_up() {
  GraphBuilder b;
  NodeId x = input(b, kHalf, {1, 4096});
  NodeId gate = product(b, x, 14336), up = product(b, x, 14336);
  NodeId silu = b.binary(BinaryOp::kMul, gate, b.unary(UnaryOp::kSigmoid, gate));
  b.output(b.cast(b.binary(BinaryOp::kMul, silu, up), kHalf));
  return b.finish();
}

Graph rms_rows() {
  GraphBuilder b;
  NodeId x = b.cast(input(b, kHalf, {4096, 4096}), kWide);
  NodeId weight = b.cast(input(b, kHalf, {4096}), kWide);
  NodeId sum = b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, x, x), {1}, true);
  NodeId mean = b.binary(BinaryOp::kMul, sum, b.scalar(kWide, 1.0 / 4096));
  NodeId scale = b.unary(UnaryOp::kRsqrt, b.binary(BinaryOp::kAdd, mean, b.scalar(kWide, 1e-5)));
  NodeId y = b.binary(BinaryOp::kMul, b.binary(BinaryOp::kMul, x, scale), weight);
  b.output(b.cast(y, kHalf));
  return b.finish();
}

Graph softmax_rows() {
  GraphBuilder b;
  NodeId x = b.cast(input(b, kHalf, {4096, 4096}), kWide);
  NodeId y = b.raw({Op::kSoftmax, kWide, {4096, 4096}, {x}, SoftmaxAttr{1, false}});
  b.output(b.cast(y, kHalf));
  return b.finish();
}

Graph transpose(DType dtype) {
  GraphBuilder b;
  NodeId x = input(b, dtype, {4096, 4096});
  b.output(b.permute(x, {1, 0}));
  return b.finish();
}

Graph gelu() {
  GraphBuilder b;
  NodeId x = b.cast(input(b, kHalf, {4096, 16384}), kWide);
  NodeId e = b.unary(UnaryOp::kErf, b.binary(BinaryOp::kMul, x, b.scalar(kWide, 0.70710678)));
  NodeId half = b.binary(BinaryOp::kMul, x, b.scalar(kWide, 0.5));
  NodeId y = b.binary(BinaryOp::kMul, half, b.binary(BinaryOp::kAdd, e, b.scalar(kWide, 1)));
  b.output(b.cast(y, kHalf));
  return b.finish();
}

Graph reduced(ReduceOp op, DType dtype, int64_t rows, int64_t columns, int axis = 1) {
  GraphBuilder b;
  NodeId x = b.cast(input(b, dtype, {rows, columns}), kWide);
  b.output(b.reduce(op, x, {axis}));
  return b.finish();
}

Graph sum_of_two() {
  GraphBuilder b;
  Shape shape{4096, 4096};
  b.output(b.binary(BinaryOp::kAdd, input(b, kWide, shape), input(b, kWide, shape)));
  return b.finish();
}

Graph attention(int64_t rows, int64_t keys, bool is_causal, int64_t depth = 128,
                bool is_rounded = false) {
  constexpr int64_t kGroups = 8, kMembers = 4;
  GraphBuilder b;
  NodeId q = input(b, kHalf, {kGroups, kMembers, rows, depth});
  NodeId k = input(b, kHalf, {kGroups, keys, depth});
  NodeId v = input(b, kHalf, {kGroups, keys, depth});
  Shape shape{kGroups, kMembers, rows, keys};
  // 0 group, 1 member, 2 row, 3 key, 4 depth
  NodeId scores = b.raw(
      {Op::kContract, kWide, shape, {q, k}, ContractAttr{{0, 1, 2, 4}, {0, 3, 4}, {0, 1, 2, 3}}});
  scores = b.binary(BinaryOp::kMul, scores, b.scalar(kWide, 0.088388));
  if (is_causal) {
    Shape square{rows, keys};
    NodeId row = b.view(b.iota(DType::kInt64, rows), View{square, {Expr::index(0)}, {}, 0});
    NodeId key = b.view(b.iota(DType::kInt64, keys), View{square, {Expr::index(1)}, {}, 0});
    NodeId hidden = b.scalar(kWide, -std::numeric_limits<double>::infinity());
    scores = b.select(b.binary(BinaryOp::kLessEqual, key, row), scores, hidden);
  }
  NodeId p = b.raw({Op::kSoftmax, kWide, shape, {scores}, SoftmaxAttr{3, false}});
  if (is_rounded) p = b.cast(b.cast(p, kHalf), kWide);
  NodeId out = b.raw({Op::kContract,
                      kWide,
                      {kGroups, kMembers, rows, depth},
                      {p, v},
                      ContractAttr{{0, 1, 2, 3}, {0, 3, 4}, {0, 1, 2, 4}}});
  b.output(b.cast(out, kHalf));
  return b.finish();
}

// One position of 8 heads into a cache of 4096.
Graph cache_update() {
  GraphBuilder b;
  NodeId cache = input(b, kHalf, {8, 4096, 128});
  NodeId updates = input(b, kHalf, {8, 1, 128});
  NodeId at = input(b, DType::kInt64, {1});
  NodeId spread = b.view(at, View{{8, 1, 128}, {Expr::index(1)}, {}, 0});
  b.output(b.scatter(ScatterMode::kAssign, cache, updates, {spread},
                     {{-1, Expr::index(0)}, {0, 0}, {-1, Expr::index(2)}}));
  return b.finish();
}

}  // namespace

// As a router orders its experts.
Graph expert_order() {
  GraphBuilder b;
  NodeId scores = b.cast(b.cast(input(b, kWide, {1, 128}), kHalf), kWide);
  NodeId shares = b.raw({Op::kSoftmax, kWide, {1, 128}, {scores}, SoftmaxAttr{1, false}});
  b.output(b.sort_indices(shares, 1, true));
  return b.finish();
}

Graph sort(DType dtype, int64_t lines, int64_t length) {
  GraphBuilder b;
  b.output(b.sort_indices(input(b, dtype, {lines, length}), 1, true));
  return b.finish();
}

// 32 images of `size` x `size` by 3 x 3 taps, with what follows a convolution of a residual
// network: a scale, a shift and a bound.
Graph convolution(int64_t size, int64_t channels, int64_t columns, int64_t stride) {
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  const int64_t places = size / stride;
  NodeId x = input(b, kHalf, {32, size, size, channels});
  NodeId w = input(b, kHalf, {columns, 3, 3, channels});
  Expr row = i(1) * Expr(stride) + i(3) - Expr(1), column = i(2) * Expr(stride) + i(4) - Expr(1);
  View windows{{32, places, places, 3, 3, channels},
               {i(0), row, column, i(5)},
               {{row, size}, {column, size}},
               0};
  NodeId y = b.raw({Op::kContract,
                    kWide,
                    {32, places, places, columns},
                    {b.view(x, windows), w},
                    ContractAttr{{0, 1, 2, 3, 4, 5}, {6, 3, 4, 5}, {0, 1, 2, 6}}});
  y = b.binary(BinaryOp::kMul, y, input(b, kWide, {columns}));
  y = b.binary(BinaryOp::kAdd, y, input(b, kWide, {columns}));
  b.output(b.cast(b.binary(BinaryOp::kMax, y, b.scalar(kWide, 0)), kHalf));
  return b.finish();
}

// What ends a block of a residual network: few products an element, and the block's input added.
Graph product_and_residual(int64_t rows, int64_t columns, int64_t depth) {
  GraphBuilder b;
  NodeId y = product(b, input(b, kHalf, {rows, depth}), columns);
  y = b.cast(b.binary(BinaryOp::kMul, y, input(b, kWide, {columns})), kHalf);
  y = b.binary(BinaryOp::kAdd, b.cast(y, kWide), b.cast(input(b, kHalf, {rows, columns}), kWide));
  b.output(b.cast(b.binary(BinaryOp::kMax, y, b.scalar(kWide, 0)), kHalf));
  return b.finish();
}

// What ends the block of a residual network that halves 32 images: its last product and that of its
// shortcut, every second pixel of the block's input, each with a scale and rounded.
Graph paired_products(int64_t size, int64_t columns, int64_t depth, int64_t other_depth) {
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  auto scaled = [&](NodeId x, int64_t channels) {
    NodeId y = b.raw({Op::kContract,
                      kWide,
                      {32, size, size, columns},
                      {x, input(b, kHalf, {columns, channels})},
                      ContractAttr{{0, 1, 2, 3}, {4, 3}, {0, 1, 2, 4}}});
    y = b.cast(b.cast(y, kHalf), kWide);
    y = b.binary(BinaryOp::kMul, y, input(b, kWide, {columns}));
    y = b.binary(BinaryOp::kAdd, y, input(b, kWide, {columns}));
    return b.cast(b.cast(y, kHalf), kWide);
  };
  NodeId x = input(b, kHalf, {32, size, size, depth});
  NodeId images = input(b, kHalf, {32, 2 * size, 2 * size, other_depth});
  View every_second{
      {32, size, size, other_depth}, {i(0), i(1) * Expr(2), i(2) * Expr(2), i(3)}, {}, 0};
  NodeId y =
      b.binary(BinaryOp::kAdd, scaled(x, depth), scaled(b.view(images, every_second), other_depth));
  b.output(b.cast(b.binary(BinaryOp::kMax, y, b.scalar(kWide, 0)), kHalf));
  return b.finish();
}

// Of 32 images, the first pool of a residual network.
Graph max_pool(int64_t size, int64_t channels) {
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  NodeId x = b.cast(input(b, kHalf, {32, size, size, channels}), kWide);
  Expr row = i(1) * Expr(2) + i(3) - Expr(1), column = i(2) * Expr(2) + i(4) - Expr(1);
  View windows{{32, size / 2, size / 2, 3, 3, channels},
               {i(0), row, column, i(5)},
               {{row, size}, {column, size}},
               -std::numeric_limits<double>::infinity()};
  b.output(b.cast(b.reduce(ReduceOp::kMax, b.view(x, windows), {3, 4}), kHalf));
  return b.finish();
}

// Rows of tokens times the matrices of their experts, 8 of 128 a token. `members`: rows that share
// a row of x.
Graph experts(int64_t tokens, int64_t members, int64_t columns, int64_t depth) {
  constexpr int64_t kExperts = 128, kChosen = 8;
  const int64_t rows = tokens * kChosen;
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  NodeId x = input(b, kHalf, {rows / members, depth});
  NodeId w = input(b, kHalf, {kExperts, columns, depth});
  NodeId expert_of = input(b, DType::kInt64, {rows});
  NodeId order = input(b, DType::kInt64, {rows});
  NodeId left = b.view(x, {{rows, depth}, {floor_div(i(0), Expr(members)), i(1)}, {}, 0});
  NodeId places = b.view(expert_of, {{rows, columns, depth}, {i(0)}, {}, 0});
  NodeId chosen = b.gather(w, {places}, {rows, columns, depth}, {{0, {}}, {-1, i(1)}, {-1, i(2)}});
  NodeId y = b.raw({Op::kContract,
                    kWide,
                    {rows, columns},
                    {left, chosen, order},
                    ContractAttr{{0, 2}, {0, 1, 2}, {0, 1}}});
  b.output(b.cast(y, kHalf));
  return b.finish();
}

std::vector<NamedKernel> gpu_kernels() {
  std::vector<NamedKernel> kernels;
  auto add = [&](const char* name, Template form, const Graph& body) {
    kernels.push_back({name, Kernel{form, {}, canonical(body), {}}});
  };
  add("row_product", Template::kLoops, row_product(1, 4096, 4096));
  add("gate_and_up", Template::kLoops, gate_and_up());
  add("rms_rows", Template::kLoops, rms_rows());
  add("softmax_rows", Template::kLoops, softmax_rows());
  add("transpose", Template::kLoops, transpose(kHalf));
  add("transpose_wide", Template::kLoops, transpose(kWide));
  add("sum_of_two", Template::kLoops, sum_of_two());
  add("gelu", Template::kLoops, gelu());
  add("row_sums", Template::kLoops, reduced(ReduceOp::kSum, kHalf, 4096, 4096));
  add("column_sums", Template::kLoops, reduced(ReduceOp::kSum, kHalf, 4096, 4096, 0));
  add("arg_max_rows", Template::kLoops, reduced(ReduceOp::kArgmax, kHalf, 4096, 4096));
  add("arg_max", Template::kLoops, reduced(ReduceOp::kArgmax, kWide, 64, 128256));
  add("arg_max_of_a_row", Template::kLoops, reduced(ReduceOp::kArgmax, kHalf, 1, 151936));
  add("tile_of_2_rows", Template::kTile, row_product(2, 4096, 4096));
  add("tile_of_4_rows", Template::kTile, row_product(4, 4096, 4096));
  add("tile_of_8_rows", Template::kTile, row_product(8, 4096, 4096));
  add("tile_of_16_rows", Template::kTile, row_product(16, 4096, 4096));
  add("tile_of_128_rows", Template::kTile, row_product(128, 4096, 4096));
  add("square_product", Template::kTile, row_product(4096, 4096, 4096));
  // Of a prompt of 2,048 tokens to Llama 3 8B: queries, keys and values; their output; the MLP.
  add("prompt_queries", Template::kTile, row_product(2048, 6144, 4096));
  add("prompt_output", Template::kTile, row_product(2048, 4096, 4096));
  add("prompt_gate_and_up", Template::kTile, row_product(2048, 28672, 4096));
  add("prompt_down", Template::kTile, row_product(2048, 4096, 14336));
  add("decode_attention", Template::kAttention, attention(1, 4096, false));
  add("wide_decode_attention", Template::kAttention, attention(1, 8192, false, 256));
  add("short_decode_attention", Template::kAttention, attention(1, 1024, false));
  add("causal_attention", Template::kAttention, attention(1024, 1024, true));
  add("expert_order", Template::kSort, expert_order());
  add("sort_of_100", Template::kSort, sort(kWide, 1, 100));
  add("sort_of_1024", Template::kSort, sort(kHalf, 132, 1024));
  add("sort_of_4096", Template::kSort, sort(kWide, 1, 4096));
  add("wide_sort_of_2048", Template::kSort, sort(DType::kInt64, 1, 2048));
  add("long_causal_attention", Template::kAttention, attention(2048, 2048, true));
  add("rounded_causal_attention", Template::kAttention, attention(2048, 2048, true, 128, true));
  add("wide_prompt_attention", Template::kAttention, attention(1024, 1024, false, 256, true));
  add("narrow_prompt_attention", Template::kAttention, attention(2048, 2048, true, 64, true));
  // Of ResNet-50's stages.
  add("convolution_of_64", Template::kTile, convolution(56, 64, 64, 1));
  add("convolution_of_128", Template::kTile, convolution(28, 128, 128, 1));
  add("convolution_of_256", Template::kTile, convolution(14, 256, 256, 1));
  add("convolution_of_512", Template::kTile, convolution(7, 512, 512, 1));
  add("convolution_two_apart", Template::kTile, convolution(28, 256, 256, 2));
  add("product_and_residual", Template::kTile, product_and_residual(25088, 512, 128));
  add("paired_products", Template::kTile, paired_products(28, 512, 128, 256));
  add("first_pool", Template::kLoops, max_pool(112, 64));
  // Of a prompt of 2,048 tokens to Qwen3 30B-A3B.
  add("experts_gate_and_up", Template::kTile, experts(2048, 8, 1536, 2048));
  add("experts_down", Template::kTile, experts(2048, 1, 2048, 768));
  add("cache_update", Template::kScatter, cache_update());
  return kernels;
}

}  // namespace golden
