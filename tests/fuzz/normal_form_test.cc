// Goal: a graph's normal form computes what the graph computes, bit for bit, because models of one
// normal form share their plans; and graphs that differ in more than writing have another.
// Method: random graphs (random_graph.h) and their normal forms are interpreted with the same
// inputs, special values among them. Pairs that people write are named one by one.
// LFARM_FUZZ_SEED=n begins at graph n, LFARM_FUZZ_GRAPHS=n tries that many.
#include "coordinator/search/partition/normal_form.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/runtime/interpreter/interpreter.h"
#include "tests/fuzz/graphs/random_graph.h"

namespace fuzz {
namespace {

using common::BinaryOp;
using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::HostTensor;
using common::NodeId;
using common::UnaryOp;
using coordinator::normal_form;

constexpr uint64_t kGraphs = 1'500;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  for (int64_t i = 0; i < a.elements(); ++i) {
    if (!common::is_float(a.dtype())) {
      if (a.get_int(i) != b.get_int(i)) return false;
      continue;
    }
    double x = a.get(i), y = b.get(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x != y || std::signbit(x) != std::signbit(y)) return false;
  }
  return true;
}

TEST(NormalForm, ComputesTheSameBits) {
  uint64_t seed = from_environment("LFARM_FUZZ_SEED", 1);
  uint64_t count = from_environment("LFARM_FUZZ_GRAPHS", kGraphs);
  uint64_t changed = 0;
  for (uint64_t end = seed + count; seed < end; ++seed) {
    RandomGraph random = random_graph(seed);
    Graph normal = normal_form(random.graph);
    ASSERT_TRUE(common::verify(normal).ok()) << "repeat with LFARM_FUZZ_SEED=" << seed;
    ASSERT_EQ(common::graph_hash(normal_form(normal)), common::graph_hash(normal))
        << "repeat with LFARM_FUZZ_SEED=" << seed;
    changed += common::graph_hash(normal) != common::graph_hash(random.graph);
    for (size_t binding = 0; binding < random.bindings.size(); ++binding) {
      std::vector<HostTensor> inputs = random_inputs(random, binding, seed);
      auto expected = common::interpret(random.graph, inputs, {});
      auto got = common::interpret(normal, inputs, {});
      ASSERT_EQ(got.ok(), expected.ok()) << "repeat with LFARM_FUZZ_SEED=" << seed;
      if (!expected.ok()) continue;
      for (size_t k = 0; k < expected->size(); ++k) {
        ASSERT_TRUE(same_bits((*got)[k], (*expected)[k]))
            << "output " << k << "; repeat with LFARM_FUZZ_SEED=" << seed << "\n"
            << common::print(random.graph) << "---\n"
            << common::print(normal);
      }
    }
  }
  EXPECT_GT(changed, count / 10);
}

// Over x and y, floats of one shape, and a truth of that shape.
using Writing = std::function<NodeId(GraphBuilder&, NodeId x, NodeId y, NodeId truth)>;

common::Digest hash_of(const Writing& writing) {
  GraphBuilder b;
  NodeId x = b.input(common::InputKind::kUser, DType::kFloat32, {4, 8}, "x");
  NodeId y = b.input(common::InputKind::kUser, DType::kFloat32, {4, 8}, "y");
  NodeId truth = b.input(common::InputKind::kUser, DType::kBool, {4, 8}, "truth");
  b.output(writing(b, x, y, truth));
  return common::graph_hash(normal_form(b.finish()));
}

NodeId add(GraphBuilder& b, NodeId x, NodeId y) { return b.binary(BinaryOp::kAdd, x, y); }
NodeId scaled(GraphBuilder& b, NodeId x, BinaryOp op, double by) {
  return b.binary(op, x, b.full(DType::kFloat32, {4, 8}, by));
}

struct Pair {
  const char* name;
  Writing one, other;
};

TEST(NormalForm, WhatPeopleWriteInTwoWaysIsOne) {
  const std::vector<Pair> pairs = {
      {"sum", [](auto& b, NodeId x, NodeId y, NodeId) { return add(b, x, y); },
       [](auto& b, NodeId x, NodeId y, NodeId) { return add(b, y, x); }},
      {"sums within sums",
       [](auto& b, NodeId x, NodeId y, NodeId) {
         return add(b, add(b, x, y), b.unary(UnaryOp::kTanh, x));
       },
       [](auto& b, NodeId x, NodeId y, NodeId) {
         return add(b, b.unary(UnaryOp::kTanh, x), add(b, y, x));
       }},
      {"product",
       [](auto& b, NodeId x, NodeId y, NodeId) { return b.binary(BinaryOp::kMul, x, y); },
       [](auto& b, NodeId x, NodeId y, NodeId) { return b.binary(BinaryOp::kMul, y, x); }},
      {"double", [](auto& b, NodeId x, NodeId, NodeId) { return add(b, x, x); },
       [](auto& b, NodeId x, NodeId, NodeId) { return scaled(b, x, BinaryOp::kMul, 2); }},
      {"half", [](auto& b, NodeId x, NodeId, NodeId) { return scaled(b, x, BinaryOp::kDiv, 2); },
       [](auto& b, NodeId x, NodeId, NodeId) { return scaled(b, x, BinaryOp::kMul, 0.5); }},
      {"difference",
       [](auto& b, NodeId x, NodeId y, NodeId) { return b.binary(BinaryOp::kSub, x, y); },
       [](auto& b, NodeId x, NodeId y, NodeId) { return add(b, b.unary(UnaryOp::kNeg, y), x); }},
      {"choice", [](auto& b, NodeId x, NodeId y, NodeId t) { return b.select(t, x, y); },
       [](auto& b, NodeId x, NodeId y, NodeId t) {
         return b.select(b.unary(UnaryOp::kNot, t), y, x);
       }},
      {"wider and back", [](auto&, NodeId x, NodeId, NodeId) { return x; },
       [](auto& b, NodeId x, NodeId, NodeId) {
         return b.cast(b.cast(x, DType::kFloat64), DType::kFloat32);
       }},
  };
  for (const Pair& pair : pairs) EXPECT_EQ(hash_of(pair.one), hash_of(pair.other)) << pair.name;
}

TEST(NormalForm, WhatRoundsOtherwiseIsAnother) {
  const std::vector<Pair> pairs = {
      {"order of a sum",
       [](auto& b, NodeId x, NodeId y, NodeId) {
         return add(b, add(b, x, y), b.unary(UnaryOp::kTanh, x));
       },
       [](auto& b, NodeId x, NodeId y, NodeId) {
         return add(b, x, add(b, y, b.unary(UnaryOp::kTanh, x)));
       }},
      {"difference turned",
       [](auto& b, NodeId x, NodeId y, NodeId) { return b.binary(BinaryOp::kSub, x, y); },
       [](auto& b, NodeId x, NodeId y, NodeId) { return b.binary(BinaryOp::kSub, y, x); }},
      {"a third", [](auto& b, NodeId x, NodeId, NodeId) { return scaled(b, x, BinaryOp::kDiv, 3); },
       [](auto& b, NodeId x, NodeId, NodeId) { return scaled(b, x, BinaryOp::kMul, 1.0 / 3); }},
      {"the greater",
       [](auto& b, NodeId x, NodeId y, NodeId) { return b.binary(BinaryOp::kMax, x, y); },
       [](auto& b, NodeId x, NodeId y, NodeId) { return b.binary(BinaryOp::kMax, y, x); }},
      {"narrower and back", [](auto&, NodeId x, NodeId, NodeId) { return x; },
       [](auto& b, NodeId x, NodeId, NodeId) {
         return b.cast(b.cast(x, DType::kBfloat16), DType::kFloat32);
       }},
      {"choice turned", [](auto& b, NodeId x, NodeId y, NodeId t) { return b.select(t, x, y); },
       [](auto& b, NodeId x, NodeId y, NodeId t) { return b.select(t, y, x); }},
  };
  for (const Pair& pair : pairs) EXPECT_NE(hash_of(pair.one), hash_of(pair.other)) << pair.name;
}

}  // namespace
}  // namespace fuzz
