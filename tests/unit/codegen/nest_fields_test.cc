// If these fail, a nest says something that its code does not do, or the same nest gives other
// code.
#include <gtest/gtest.h>

#include <functional>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/lowering/loops/cpu_loops.h"
#include "common/lowering/loops/gpu_loops.h"
#include "common/schedule/kernels/kernel_nest.h"

namespace common {
namespace {

using Change = std::function<void(LoopNest&)>;

NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "");
}

// Bodies whose nests use every field: rows, columns, a permutation, two groups of outputs, a long
// sum, a dot product of bfloat16.
std::vector<Graph> bodies() {
  std::vector<Graph> all;
  auto add = [&](const std::function<void(GraphBuilder&)>& build) {
    GraphBuilder b({{1, 4096}});
    build(b);
    all.push_back(canonical(b.finish()));
  };
  add([](GraphBuilder& b) {
    b.output(b.unary(UnaryOp::kExp, input(b, DType::kFloat32, {Expr::symbol(0), 768})));
  });
  add([](GraphBuilder& b) {
    NodeId x = input(b, DType::kFloat32, {12, 128, 96});
    b.output(b.raw({Op::kSoftmax, DType::kFloat32, b.shape(x), {x}, SoftmaxAttr{2, false}}));
  });
  add([](GraphBuilder& b) {
    b.output(b.reduce(ReduceOp::kSum, input(b, DType::kFloat32, {1000, 300}), {0}));
  });
  add([](GraphBuilder& b) {
    b.output(b.permute(input(b, DType::kFloat32, {4, 512, 640}), {0, 2, 1}));
  });
  add([](GraphBuilder& b) {
    NodeId x = b.unary(UnaryOp::kTanh, input(b, DType::kFloat32, {64, 16, 8}));
    b.output(x);
    b.output(b.reduce(ReduceOp::kSum, x, {1, 2}));
    b.output(b.reduce(ReduceOp::kMax, x, {1, 2}));
  });
  add([](GraphBuilder& b) {
    b.output(b.reduce(ReduceOp::kSum, input(b, DType::kFloat32, {2, 1 << 20}), {1}));
  });
  add([](GraphBuilder& b) {
    NodeId x = b.cast(input(b, DType::kBfloat16, {64, 256}), DType::kFloat32);
    NodeId y = b.cast(input(b, DType::kBfloat16, {64, 256}), DType::kFloat32);
    b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, x, y), {1}));
  });
  add([](GraphBuilder& b) {
    NodeId x = input(b, DType::kFloat32, {12, 96});
    NodeId norm = b.raw({Op::kNorm, DType::kFloat32, b.shape(x), {x}, NormAttr{1, false, 1e-6}});
    NodeId weights = b.expand(input(b, DType::kFloat32, {96}), b.shape(x));
    b.output(b.binary(BinaryOp::kMul, norm, weights));
  });
  add([](GraphBuilder& b) {
    NodeId products = b.reduce(ReduceOp::kSum, input(b, DType::kFloat32, {8, 64, 768}), {2});
    b.output(b.reduce(ReduceOp::kSum, b.unary(UnaryOp::kTanh, products), {0}));
  });
  return all;
}

// A change of every field, or several.
std::vector<std::pair<std::string, Change>> changes(const LoopNest& nest, const Graph& body) {
  std::vector<std::pair<std::string, Change>> all;
  auto bands = [&](const std::string& name, auto band) {
    for (size_t k = 0; k < band(nest).extents.size(); ++k) {
      all.emplace_back(cat(name, " extent ", k),
                       [=](LoopNest& n) { band(n).extents[k] += Expr(1); });
    }
    for (size_t d = 0; d < band(nest).position.size(); ++d) {
      all.emplace_back(cat(name, " axis ", d),
                       [=](LoopNest& n) { band(n).position[d] += Expr(1); });
    }
    if (band(nest).extents.size() > 1) {
      all.emplace_back(cat(name, " order"), [=](LoopNest& n) {
        band(n) = *reorder_loops(band(n), [&] {
          std::vector<size_t> order;
          for (size_t k = band(n).extents.size(); k-- > 0;) order.push_back(k);
          return order;
        }());
      });
      all.emplace_back(cat(name, " fused"),
                       [=](LoopNest& n) { band(n) = *fuse_loops(band(n), 0); });
    }
  };
  bands(
      "shared", [](auto& n) -> auto& { return n.shared; });
  for (size_t g = 0; g < nest.groups.size(); ++g) {
    bands(
        cat("group ", g), [g](auto& n) -> auto& { return n.groups[g].own; });
    all.emplace_back(cat("accumulators of ", g), [=](LoopNest& n) {
      auto& block = n.groups[g].accumulators;
      block = block ? std::nullopt : std::optional(AccumulatorBlock{0, 64});
    });
    if (!nest.groups[g].accumulators) continue;
    all.emplace_back("accumulators' width",
                     [=](LoopNest& n) { n.groups[g].accumulators->width += 1; });
    all.emplace_back("accumulators' place",
                     [=](LoopNest& n) { n.groups[g].accumulators->before += 1; });
  }
  all.emplace_back("larger grid", [](LoopNest& n) { ++n.grid; });
  if (nest.grid > 0) all.emplace_back("smaller grid", [](LoopNest& n) { --n.grid; });
  all.emplace_back("blocks in grid", [](LoopNest& n) { n.blocks_in_grid = !n.blocks_in_grid; });
  all.emplace_back("transposed", [](LoopNest& n) { n.transposed = !n.transposed; });
  all.emplace_back("simd", [](LoopNest& n) { n.simd += 8; });
  all.emplace_back("unroll", [](LoopNest& n) { n.unroll *= 2; });
  all.emplace_back("dot products", [](LoopNest& n) { n.dot_products = !n.dot_products; });
  all.emplace_back("threads", [](LoopNest& n) { n.threads.threads *= 2; });
  all.emplace_back("side", [](LoopNest& n) { n.threads.side *= 4; });
  all.emplace_back("blocks", [](LoopNest& n) { n.threads.blocks += 1; });
  all.emplace_back("access", [](LoopNest& n) { n.threads.access *= 2; });
  all.emplace_back("rows", [](LoopNest& n) { n.threads.rows += 2; });
  all.emplace_back("ahead", [](LoopNest& n) { n.threads.ahead = !n.threads.ahead; });
  all.emplace_back("prefetch", [](LoopNest& n) {
    n.prefetch = n.prefetch ? std::nullopt : std::optional(common::BlockPrefetch{0, 128});
  });
  all.emplace_back("less access", [](LoopNest& n) { n.threads.access = 1; });
  for (NodeId id = 0; id < static_cast<NodeId>(body.nodes.size()); ++id) {
    auto flip = [id](std::set<NodeId>& ids) {
      if (ids.erase(id) == 0) ids.insert(id);
    };
    all.emplace_back(cat("flat ", id), [=](LoopNest& n) { flip(n.reductions.flat); });
    all.emplace_back(cat("staged ", id), [=](LoopNest& n) { flip(n.reductions.staged); });
    all.emplace_back(cat("walked ", id), [=](LoopNest& n) { flip(n.reductions.walked); });
    for (NodeId other = 0; other < static_cast<NodeId>(body.nodes.size()); ++other) {
      all.emplace_back(cat("fused ", id, " ", other), [=](LoopNest& n) {
        auto& fused = n.reductions.fused;
        if (fused.erase(id) == 0) fused[id] = {other};
      });
    }
  }
  return all;
}

std::optional<std::string> printed(const LoopNest& nest, const Graph& body, bool on_gpu) {
  if (!verify(nest, body).ok()) return std::nullopt;
  if (on_gpu) {
    auto function = lower_gpu_loops(body, nest);
    if (!function.ok()) return std::nullopt;
    return cat(function->block.threads, " threads, ", function->block.units, " units of ",
               function->body.units.text(), "\n", function->early, function->body.text);
  }
  auto function = lower_cpu_loops(body, nest);
  if (!function.ok()) return std::nullopt;
  return cat("units ", function->units.text(), "\n", function->text);
}

class NestFields : public ::testing::TestWithParam<Machine> {};

TEST_P(NestFields, EachChangesTheTextOrIsRefused) {
  size_t printed_again = 0;
  for (const Graph& kernel_body : bodies()) {
    auto nest = kernel_nest({Template::kLoops, {}, kernel_body, {}}, GetParam());
    ASSERT_TRUE(nest.ok()) << nest.error().message;
    Graph body = nest_body(kernel_body, **nest);
    auto text = printed(**nest, body, is_gpu(GetParam()));
    ASSERT_TRUE(text) << print(**nest);
    EXPECT_EQ(printed(**nest, body, is_gpu(GetParam())), text);
    for (const auto& [name, change] : changes(**nest, body)) {
      LoopNest changed = **nest;
      change(changed);
      if (changed == **nest) continue;
      auto other = printed(changed, body, is_gpu(GetParam()));
      printed_again += other ? 1 : 0;
      EXPECT_NE(other, text) << name << "\n" << print(**nest) << "became\n" << print(changed);
    }
  }
  EXPECT_GT(printed_again, 20u) << "nearly all changes were refused";
}

INSTANTIATE_TEST_SUITE_P(Machines, NestFields,
                         ::testing::Values(Machine::kCpu, Machine::kCpuPairs, Machine::kGpu));

// Nests that are wrong on a GPU, though each part of them is right.
TEST(NestFields, BlocksShareNoReductionThatNeedsAnother) {
  GraphBuilder b;
  NodeId x = input(b, DType::kFloat32, {1 << 16});
  b.output(b.raw({Op::kSoftmax, DType::kFloat32, b.shape(x), {x}, SoftmaxAttr{0, false}}));
  Graph kernel_body = canonical(b.finish());
  LoopNest nest;
  nest.shared = plain_band({1 << 16});
  nest.groups.resize(1);
  nest.threads = {256, 1, 1, 1};
  Graph body = nest_body(kernel_body, nest);
  EXPECT_TRUE(lower_gpu_loops(body, nest).ok());
  // The sum of exponentials needs the maximum.
  nest.threads.blocks = 4;
  auto split = lower_gpu_loops(body, nest);
  ASSERT_FALSE(split.ok());
  EXPECT_EQ(split.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace common
