// Graphs, programs, plans, payloads and reports survive the wire; anything else is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/wire/capnp_support.h"
#include "common/wire/ir_codec.h"
#include "common/wire/limits.h"
#include "schemas/ir.capnp.h"
#include "wire_samples.h"

namespace common {
namespace {

namespace ir = schemas::ir;

// ---- Round trips -------------------------------------------------------------------------------

TEST(WireIr, GraphsSurvive) {
  Graph graph = sample_graph();
  ASSERT_TRUE(verify(graph).ok()) << verify(graph).error().message;
  Bytes bytes = encode_graph(graph);
  auto decoded = decode_graph(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, graph) << print(*decoded) << print(graph);
  EXPECT_EQ(graph_hash(*decoded), graph_hash(graph));
  EXPECT_EQ(encode_graph(*decoded), bytes);
}

TEST(WireIr, ChecksSurvive) {
  GraphBuilder b({{1, 64}});
  NodeId ids = b.input(InputKind::kUser, DType::kInt64, {Expr::symbol(0)}, "ids");
  NodeId least = b.reduce(ReduceOp::kMin, ids, {0});
  b.output(ids);
  b.check(0, least, Expr::symbol(0) * 2 + 1, true);
  b.check(-1, least, 256, false);
  Graph graph = b.finish();
  auto decoded = decode_graph(encode_graph(graph));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, graph) << print(*decoded) << print(graph);
  graph.outputs[1].limit = Expr::symbol(1);
  EXPECT_FALSE(decode_graph(encode_graph(graph)).ok()) << "a limit of a symbol that is not there";
}

// Reading follows every pointer once: what bounds the work has no room for twice.
TEST(WireIr, ManyNodesOfEveryKindSurvive) {
  Graph graph = sample_graph();
  const std::vector<Node> nodes = graph.nodes;
  for (int again = 0; again < 200; ++again) {
    graph.nodes.insert(graph.nodes.end(), nodes.begin(), nodes.end());
  }
  auto read = decode_graph(encode_graph(graph));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, graph);
}

TEST(WireIr, ProgramsSurvive) {
  Program program = sample_program();
  ASSERT_TRUE(verify(program).ok()) << verify(program).error().message;
  auto decoded = decode_program(encode_program(program));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, program);
  EXPECT_EQ(program_fingerprint(*decoded), program_fingerprint(program));
}

TEST(WireIr, ManyKernelsSurvive) {
  Program program = sample_program();
  const std::vector<Kernel> kernels = program.kernels;
  for (int again = 0; again < 200; ++again) {
    program.kernels.insert(program.kernels.end(), kernels.begin(), kernels.end());
  }
  auto read = decode_program(encode_program(program));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, program);
}

TEST(WireIr, PlansSurvive) {
  Plan plan = sample_plan();
  ASSERT_TRUE(verify(plan).ok()) << verify(plan).error().message;
  Bytes bytes = encode_plan(plan);
  auto decoded = decode_plan(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, plan);
  EXPECT_EQ(encode_plan(*decoded), bytes);
}

TEST(WireIr, SealedPlansSurviveAndForgeriesDoNot) {
  SigningKey key = make_signing_key();
  Sealed plan = sign_plan(key, encode_plan(sample_plan()));
  Bytes bytes = encode_sealed(plan);
  auto decoded = decode_sealed(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->bytes, plan.bytes);
  EXPECT_TRUE(check_signature(*decoded, key.public_key()).ok());
  Random random(3);
  for (int round = 0; round < 500; ++round) {
    Bytes damaged = bytes;
    damaged[random.below(damaged.size())] ^= static_cast<std::byte>(1 << random.below(8));
    auto forged = decode_sealed(damaged);
    if (!forged.ok()) continue;
    bool same = forged->bytes == plan.bytes && forged->signature == plan.signature &&
                forged->signer == plan.signer;
    EXPECT_TRUE(same || !check_signature(*forged, key.public_key()).ok()) << "round " << round;
  }
}

TEST(WireIr, PayloadsAndReportsSurvive) {
  TaskPayload payload = sample_payload();
  auto decoded = decode_task_payload(encode_task_payload(payload));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, payload);
  TaskReport report = sample_report();
  auto again = decode_task_report(encode_task_report(report));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, report);
}

// A random canonical expression over s0 and, where allowed, i0 and i1.
Expr random_expr(Random& random, int depth, bool with_indices) {
  auto leaf = [&]() -> Expr {
    switch (random.below(with_indices ? 4 : 3)) {
      case 0:
        return static_cast<int64_t>(random.next()) >> random.below(63);
      case 3:
        return Expr::index(static_cast<int>(random.below(2)));
      default:
        return Expr::symbol(0);
    }
  };
  if (depth == 0) return leaf();
  Expr a = random_expr(random, depth - 1, with_indices);
  Expr b = random_expr(random, depth - 1, with_indices);
  Expr divisor = static_cast<int64_t>(1 + random.below(9));
  switch (random.below(7)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * leaf();
    case 3:
      return floor_div(a, random.chance(0.5) ? divisor : Expr::symbol(0));
    case 4:
      return mod(a, random.chance(0.5) ? divisor : Expr::symbol(0) * 2);
    case 5:
      return min(a, b);
    default:
      return max(a, b);
  }
}

TEST(WireIr, EveryExpressionSurvives) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    GraphBuilder b({{1, 64}});
    Expr s = Expr::symbol(0);
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {s, 4}, "x");
    View view;
    view.shape = {s, 4};
    for (int k = 0; k < 2; ++k) view.index.push_back(random_expr(random, 4, true));
    view.valid.push_back({random_expr(random, 3, true), random_expr(random, 3, false)});
    Graph graph;
    graph.symbols = {{1, 64}};
    graph.inputs = {{InputKind::kUser, DType::kFloat32, {s, 4}, "x"}};
    graph.nodes = {b.node(x), {Op::kView, DType::kFloat32, {s, 4}, {0}, ViewAttr{view}}};
    graph.outputs = {{OutputKind::kUser, 1, -1}};
    auto decoded = decode_graph(encode_graph(graph));
    ASSERT_TRUE(decoded.ok()) << "seed " << seed << ": " << decoded.error().message << "\n"
                              << print(graph);
    ASSERT_EQ(*decoded, graph) << "seed " << seed;
  }
}

// Chains of movement, whose composed views have the expressions that models really have.
TEST(WireIr, ComposedViewsSurvive) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    GraphBuilder b({{1, 64}});
    Expr s = Expr::symbol(0);
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {s, 4, 6}, "x");
    for (int step = 0; step < 6; ++step) {
      int axis = static_cast<int>(random.below(static_cast<uint64_t>(b.rank(x))));
      Expr size = b.shape(x)[static_cast<size_t>(axis)];
      switch (random.below(5)) {
        case 0: {
          std::vector<int> order(static_cast<size_t>(b.rank(x)));
          for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
          std::swap(order[0], order[static_cast<size_t>(axis)]);
          x = b.permute(x, order);
          break;
        }
        case 1:
          x = b.reshape(x, {element_count(b.shape(x))});
          break;
        case 2:
          x = b.pad(x, axis, 1, static_cast<int64_t>(random.below(3)), 0);
          break;
        case 3:
          x = b.slice(x, axis, size - 1, size, -1);
          break;
        default:
          x = b.reshape(x, {element_count(b.shape(x)), 1});
          break;
      }
    }
    b.output(x);
    Graph graph = b.finish();
    auto decoded = decode_graph(encode_graph(graph));
    ASSERT_TRUE(decoded.ok()) << "seed " << seed << ": " << decoded.error().message << "\n"
                              << print(graph);
    ASSERT_EQ(*decoded, graph) << "seed " << seed;
  }
}

// ---- Damage ------------------------------------------------------------------------------------

// Goal: no bytes make a decoder crash, and what it accepts encodes and decodes to itself.
// Method: every truncation, then random bit flips in a valid document.
template <class Decode, class Encode>
void damage(const Bytes& bytes, uint64_t rounds, Decode decode, Encode encode) {
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_FALSE(decode(ByteView(bytes).first(length)).ok()) << "cut to " << length;
  }
  uint64_t accepted = 0;
  Random random(bytes.size());
  for (uint64_t round = 0; round < rounds; ++round) {
    Bytes damaged = bytes;
    for (uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      damaged[random.below(damaged.size())] ^= static_cast<std::byte>(1 << random.below(8));
    }
    auto decoded = decode(ByteView(damaged));
    if (!decoded.ok()) continue;
    ++accepted;
    Bytes once = encode(*decoded);
    auto again = decode(ByteView(once));
    ASSERT_TRUE(again.ok()) << "round " << round << ": " << again.error().message;
    ASSERT_EQ(encode(*again), once) << "round " << round;
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, rounds);
}

TEST(WireIr, DamagedGraphsNeverCrash) {
  damage(encode_graph(sample_graph()), 20000, decode_graph, encode_graph);
}
TEST(WireIr, DamagedProgramsNeverCrash) {
  damage(encode_program(sample_program()), 10000, decode_program, encode_program);
}
TEST(WireIr, DamagedPlansNeverCrash) {
  damage(encode_plan(sample_plan()), 10000, decode_plan, encode_plan);
}
TEST(WireIr, DamagedPayloadsNeverCrash) {
  damage(encode_task_payload(sample_payload()), 10000, decode_task_payload, encode_task_payload);
}
TEST(WireIr, DamagedReportsNeverCrash) {
  damage(encode_task_report(sample_report()), 10000, decode_task_report, encode_task_report);
}

// ---- Refusals ----------------------------------------------------------------------------------

template <class Value>
void expect_refused(const Result<Value>& result, const char* part) {
  ASSERT_FALSE(result.ok()) << part;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(WireIr, UnverifiedValuesAreRefused) {
  Graph graph = sample_graph();
  graph.nodes[4].shape[1] = 7;
  expect_refused(decode_graph(encode_graph(graph)), "node %");
  Program program = sample_program();
  program.calls[1].inputs[0] = 3;
  expect_refused(decode_program(encode_program(program)), "call 1");
  Plan plan = sample_plan();
  plan.calls[1].inputs[0] = 3;
  expect_refused(decode_plan(encode_plan(plan)), "call 1");
  plan = sample_plan();
  plan.kernels[0].object = 1;
  expect_refused(decode_plan(encode_plan(plan)), "without its code");
  plan = sample_plan();
  plan.kernels[0].entry.name = "../x";
  expect_refused(decode_plan(encode_plan(plan)), "no identifier");
  plan = sample_plan();
  plan.inputs[0].shape = {Expr::symbol(1)};
  expect_refused(decode_plan(encode_plan(plan)), "undeclared");
}

TEST(WireIr, ImpossibleCorrelationsAreRefused) {
  for (double value : {1.5, -2.0, std::nan("")}) {
    for (double PlanPrediction::*correlation :
         {&PlanPrediction::rank_correlation, &PlanPrediction::constants_correlation}) {
      Plan plan = sample_plan();
      plan.provenance.prediction.*correlation = value;
      expect_refused(decode_plan(encode_plan(plan)), "a correlation");
    }
  }
}

TEST(WireIr, ImpossibleTasksAreRefused) {
  auto refused = [](auto change, const char* part) {
    TaskPayload payload = sample_payload();
    change(payload);
    expect_refused(decode_task_payload(encode_task_payload(payload)), part);
  };
  refused([](TaskPayload& p) { p.graph = {}; }, "no graph");
  refused([](TaskPayload& p) { p.verify.sizes.clear(); }, "no sizes");
  refused([](TaskPayload& p) { p.verify.sizes = {{1, 2}}; }, "2 sizes for 1 symbols");
  refused([](TaskPayload& p) { p.verify.sizes = {{65}}; }, "outside its range");
  refused([](TaskPayload& p) { p.verify.seeds.clear(); }, "no seeds");
  refused([](TaskPayload& p) { p.measure.repetitions = 0; }, "repetitions");
  refused([](TaskPayload& p) { p.program.kernels[0].schedule[0].name = "magic"; }, "magic");
}

TEST(WireIr, ImpossibleReportsAreRefused) {
  auto refused = [](auto change, const char* part) {
    TaskReport report = sample_report();
    change(report);
    expect_refused(decode_task_report(encode_task_report(report)), part);
  };
  refused([](TaskReport& r) { r.kernel_ns.pop_back(); }, "2 times of 3 kernels");
  refused([](TaskReport& r) { r.total_ns = 0; }, "a run of 0 ns");
  refused([](TaskReport& r) { r.max_error = -1; }, "an error");
  refused([](TaskReport& r) { r.compile_ms = 1e308 * 10; }, "a compilation");
  refused([](TaskReport& r) { r.objects.pop_back(); }, "without its code");
  refused([](TaskReport& r) { r.kernels[0].entry.units = Expr::index(0); }, "undeclared");
}

TEST(WireIr, WhatWasOnlyCompiledTookNoTime) {
  TaskReport report = sample_report();
  report.total_ns = 0;
  auto read = decode_build_report(encode_task_report(report));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, report);
}

// A graph document with a table of expressions that the writer never makes.
template <class Fill>
Bytes with_table(capnp::uint entries, Fill fill) {
  capnp::MallocMessageBuilder builder;
  auto root = builder.initRoot<ir::GraphDocument>();
  fill(root.initExprs(entries));
  return flatten(builder);
}

using Table = capnp::List<ir::ExprEntry>::Builder;

TEST(WireIr, HostileExpressionsAreRefused) {
  // Entry 0 is s0, whose reference is 1; the reference of the constant v is 2 * v.
  auto pair = [](ir::ExprEntry::Pair::Builder out, int64_t left, int64_t right) {
    out.setLeft(left);
    out.setRight(right);
  };
  expect_refused(decode_graph(with_table(2,
                                         [&](Table table) {
                                           table[0].setSymbol(0);
                                           pair(table[1].initFloorDiv(), 1, 0);
                                         })),
                 "divides by less than one");
  expect_refused(decode_graph(with_table(2,
                                         [&](Table table) {
                                           table[0].setSymbol(0);
                                           pair(table[1].initMod(), 1, -2);
                                         })),
                 "divides by less than one");
  expect_refused(decode_graph(with_table(1, [&](Table table) { pair(table[0].initMin(), 1, 2); })),
                 "not there");
  expect_refused(decode_graph(with_table(1, [](Table table) { table[0].setIndex(UINT32_MAX); })),
                 "variable number");
  expect_refused(decode_graph(with_table(2,
                                         [&](Table table) {
                                           table[0].setSymbol(0);
                                           pair(table[1].initMin(), 1, 1);
                                         })),
                 "not canonical");
}

TEST(WireIr, ExpressionsCannotExpand) {
  // Entries that each use the one before twice would double in size with every entry.
  Bytes doubling = with_table(60, [](Table table) {
    table[0].setSymbol(0);
    for (capnp::uint k = 1; k < 60; ++k) {
      auto sum = table[k].initSum();
      sum.setConstant(1);
      auto terms = sum.initTerms(1);
      terms[0].setCoefficient(3);
      auto factors = terms[0].initFactors(2);
      factors.set(0, 2 * (k - 1) + 1);
      factors.set(1, 2 * (k - 1) + 1);
    }
  });
  expect_refused(decode_graph(doubling), "not canonical");
  Bytes towers = with_table(60, [](Table table) {
    table[0].setSymbol(0);
    for (capnp::uint k = 1; k < 60; ++k) {
      auto quotient = table[k].initFloorDiv();
      quotient.setLeft(2 * (k - 1) + 1);
      quotient.setRight(2 * (k - 1) + 1);
    }
  });
  expect_refused(decode_graph(towers), "not canonical");
  Bytes deep = with_table(200, [](Table table) {
    table[0].setSymbol(0);
    for (capnp::uint k = 1; k < 200; ++k) {
      auto pair = k % 2 == 0 ? table[k].initMin() : table[k].initMax();
      pair.setLeft(2 * static_cast<int64_t>(k));
      pair.setRight(2 * static_cast<int64_t>(k - 1) + 1);
    }
  });
  EXPECT_FALSE(decode_graph(deep).ok());
}

TEST(WireIr, DeepLoopsAreRefused) {
  Graph graph;
  graph.outputs = {};
  for (int depth = 0; depth < 40; ++depth) {
    LoopAttr loop;
    loop.body = std::make_shared<const Graph>(graph);
    loop.trip_count = 1;
    Graph outer;
    outer.nodes = {{Op::kLoop, DType::kFloat32, {}, {}, loop}};
    graph = outer;
  }
  EXPECT_FALSE(decode_graph(encode_graph(graph)).ok());
}

// All that a list may hold comes through the bound on how often a message is followed.
TEST(WireIr, RevocationListsOfManyRulesComeThrough) {
  RevocationList list;
  for (int k = 0; k < 32; ++k) {
    list.plans.push_back(digest_of(std::to_string(k)));
    list.rules.push_back({std::string(60, 'w'), std::string(100, 't'), k, k + 1});
  }
  auto again = decode_revocations(encode_revocations(list));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->plans, list.plans);
  ASSERT_EQ(again->rules.size(), list.rules.size());
  EXPECT_EQ(again->rules[31].toolchain, list.rules[31].toolchain);
}

}  // namespace
}  // namespace common
