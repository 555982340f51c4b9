// Decoding: if these fail, a genome gives a program that does not compute its region, or the parts
// of a model are put together wrongly.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/base/random.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/roll/roll.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/search/fusion/multi_output.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/attention_memo.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/region_space.h"
#include "program_interpreter.h"
#include "search_testing.h"
#include "tests/unit/ir/models.h"

namespace coordinator {
namespace {

using common::Graph;
using common::HostTensor;
using common::testing::interpret_program;
using common::testing::largest_difference;
using common::testing::sample_inputs;

class Programs : public ::testing::TestWithParam<std::string> {};

TEST_P(Programs, RandomGenomesComputeTheirRegion) {
  auto model = clients::load_model(GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  Cut cut = cut_into_regions(common::roll(model->graph));
  common::SteadyClock clock;
  for (size_t r = 0; r < cut.regions.size(); ++r) {
    const Graph& region = cut.regions[r].graph;
    RegionSpace space(region, clock);
    std::vector<int64_t> sizes = representative_sizes(region.symbols);
    std::vector<HostTensor> inputs = sample_inputs(region, sizes, 7 + r);
    auto expected = common::interpret(region, inputs, {});
    ASSERT_TRUE(expected.ok()) << expected.error().message << "\n" << common::print(region);
    auto plain = interpret_program(space.plain(), inputs, sizes);
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    EXPECT_LT(largest_difference(*plain, *expected), 2e-2) << "plain lowering of region " << r;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      common::Random random(seed);
      Genome genome = random_genome(space, random, seed * 4);
      Decoded decoded = space.decode(genome);
      auto actual = interpret_program(decoded.program, inputs, sizes);
      ASSERT_TRUE(actual.ok()) << actual.error().message << "\n" << common::print(decoded.program);
      EXPECT_LT(largest_difference(*actual, *expected), 2e-2)
          << "region " << r << " seed " << seed << "\n"
          << common::print(decoded.program);
    }
  }
}

TEST_P(Programs, AssembledProgramsComputeTheModel) {
  auto model = clients::load_model(GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  const Graph& graph = model->graph;
  Cut cut = cut_into_regions(common::roll(graph));
  common::SteadyClock clock;
  std::vector<std::unique_ptr<RegionSpace>> spaces;
  std::vector<common::Program> chosen;
  std::vector<const common::Program*> plain, best;
  for (const Region& region : cut.regions) {
    spaces.push_back(std::make_unique<RegionSpace>(region.graph, clock));
    chosen.push_back(spaces.back()->decode({}).program);
  }
  for (size_t r = 0; r < spaces.size(); ++r) {
    plain.push_back(&spaces[r]->plain());
    best.push_back(&chosen[r]);
  }
  std::vector<int64_t> sizes = representative_sizes(graph.symbols);
  std::vector<HostTensor> inputs = sample_inputs(graph, sizes, 3);
  auto expected = common::interpret(graph, inputs, {});
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (const auto* parts : {&plain, &best}) {
    common::Program program = assemble(cut, *parts);
    ASSERT_TRUE(common::verify(program).ok()) << common::verify(program).error().message;
    auto actual = interpret_program(program, inputs, sizes);
    ASSERT_TRUE(actual.ok()) << actual.error().message;
    EXPECT_LT(largest_difference(*actual, *expected), 5e-2);
  }
}

size_t multi_output_calls(const common::Program& program) {
  size_t count = 0;
  for (const common::Call& call : program.calls) count += call.outputs.size() > 1;
  return count;
}

// Every value that can be written by another's kernel asks for it: the most multi-output kernels
// there are.
TEST_P(Programs, MultiOutputKernelsComputeTheirRegion) {
  auto model = clients::load_model(GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  Cut cut = cut_into_regions(common::roll(model->graph));
  common::SteadyClock clock;
  size_t joint = 0, stored = 0;
  for (size_t r = 0; r < cut.regions.size(); ++r) {
    const Graph& region = cut.regions[r].graph;
    RegionSpace space(region, clock);
    std::vector<int64_t> sizes = representative_sizes(region.symbols);
    std::vector<HostTensor> inputs = sample_inputs(region, sizes, 11 + r);
    auto expected = common::interpret(region, inputs, {});
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    for (int64_t wish : {kStoreWithUser, kStoreWithSibling}) {
      for (bool all : {false, true}) {
        Genome genome;
        for (const Site& site : space.structure({})->sites) {
          if (site.name.kind != GeneKind::kStore || (!all && site.current == 0)) continue;
          bool may = common::contains(site.values, wish);
          genome.set(site.name, may ? wish : 1);
        }
        common::Program program = space.decode(genome).program;
        joint += multi_output_calls(program);
        stored += program.calls.size();
        auto actual = interpret_program(program, inputs, sizes);
        ASSERT_TRUE(actual.ok()) << actual.error().message << "\n" << common::print(program);
        EXPECT_LT(largest_difference(*actual, *expected), 2e-2) << "region " << r << "\n"
                                                                << common::print(program);
      }
    }
  }
  EXPECT_TRUE(joint > 0 || stored < 40) << stored << " kernels, none of which writes two values";
}

// What plan_writers() makes of wishes, on a graph where every operation is chosen as it is.
struct Wishes {
  common::GraphBuilder b;
  std::map<common::NodeId, int64_t> wishes;

  common::NodeId input() {
    return b.input(common::InputKind::kUser, common::DType::kFloat32, {8, 16}, "x");
  }
  common::NodeId wish(common::NodeId node, int64_t gene) {
    wishes[node] = gene;
    return node;
  }
  // The program in which all else is stored by kernels of their own; it computes the graph.
  common::Program program() {
    std::map<common::NodeId, common::Node> named;
    for (const auto& [node, gene] : wishes) named[node] = b.node(node);
    Graph graph = b.finish();
    Selected selected = select_all(graph);
    Materialised materialised(graph.nodes.size(), 1);
    std::vector<int64_t> genes(graph.nodes.size(), kStoreAlone);
    // Numbers change when the dead are dropped; these graphs have none.
    for (const auto& [node, gene] : wishes) {
      EXPECT_TRUE(graph.node(node) == named[node]);
      genes[static_cast<size_t>(node)] = gene;
    }
    AttentionMemo attentions;
    repair_materialisation(selected, materialised, attentions);
    KernelMemo memo;
    common::Program program = whole_program(fuse(selected, materialised, memo, genes));
    EXPECT_TRUE(common::verify(program).ok()) << common::verify(program).error().message;
    std::vector<HostTensor> inputs = sample_inputs(graph, {}, 9);
    auto expected = common::interpret(graph, inputs, {});
    auto actual = interpret_program(program, inputs, {});
    EXPECT_TRUE(expected.ok() && actual.ok());
    if (expected.ok() && actual.ok()) {
      EXPECT_LT(largest_difference(*actual, *expected), 1e-5);
    }
    return program;
  }
};

TEST(MultiOutputKernels, StoreAResidualSumWithItsNorm) {
  Wishes w;
  auto x = w.input(), y = w.input();
  auto sum = w.wish(w.b.binary(common::BinaryOp::kAdd, x, y), kStoreWithUser);
  auto norm = w.b.raw({common::Op::kNorm,
                       common::DType::kFloat32,
                       w.b.shape(sum),
                       {sum},
                       common::NormAttr{1, false, 1e-5}});
  w.b.output(norm);
  w.b.output(w.b.binary(common::BinaryOp::kMul, sum, x));
  common::Program program = w.program();
  EXPECT_EQ(program.calls.size(), 2u) << common::print(program);
  EXPECT_EQ(multi_output_calls(program), 1u);
}

TEST(MultiOutputKernels, TakeSiblingsTogether) {
  Wishes w;
  auto x = w.input();
  w.b.output(w.b.unary(common::UnaryOp::kSin, x));
  w.b.output(w.wish(w.b.unary(common::UnaryOp::kCos, x), kStoreWithSibling));
  EXPECT_EQ(w.program().calls.size(), 1u);
}

TEST(MultiOutputKernels, LeaveOutWhatAThirdKernelLiesBetween) {
  Wishes w;
  auto a = w.wish(w.b.unary(common::UnaryOp::kSin, w.input()), kStoreWithUser);
  auto scan = w.b.scan(common::ScanOp::kSum, a, 1);  // has a kernel of its own
  w.b.output(w.b.binary(common::BinaryOp::kAdd, a, scan));
  common::Program program = w.program();
  EXPECT_EQ(program.calls.size(), 3u) << common::print(program);
  EXPECT_EQ(multi_output_calls(program), 0u);
}

// a goes to b, and c to d. With a and d in one kernel, b and c must not be in one.
TEST(MultiOutputKernels, NeverWaitForEachOther) {
  Wishes w;
  auto x = w.input();
  auto a = w.wish(w.b.unary(common::UnaryOp::kSin, x), kStoreWithSibling);
  auto c = w.wish(w.b.unary(common::UnaryOp::kCos, x), kStoreWithSibling);
  auto y = w.input();
  auto b = w.wish(w.b.binary(common::BinaryOp::kMul, w.b.scan(common::ScanOp::kSum, a, 1), y),
                  kStoreWithSibling);
  auto d = w.b.binary(common::BinaryOp::kAdd, w.b.scan(common::ScanOp::kSum, c, 0), y);
  w.b.output(b);
  w.b.output(d);
  w.program();
}

// Small graphs in which kernels that cannot be joined stand between such as can, with all wishes:
// programs stay in an order in which they can run, and compute the graph.
TEST(MultiOutputKernels, AnyWishesGiveAProgram) {
  size_t joint = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    common::Random random(seed);
    Wishes w;
    std::vector<common::NodeId> values{w.input(), w.input()};
    std::set<common::NodeId> used;
    auto pick = [&] {
      common::NodeId value = values[random.below(values.size())];
      used.insert(value);
      return value;
    };
    auto add = [&](common::NodeId node) {
      if (common::contains(values, node)) return;
      values.push_back(w.wish(node, static_cast<int64_t>(1 + random.below(3))));
    };
    for (int k = 0; k < 14; ++k) {
      switch (random.below(4)) {
        case 0:
          add(w.b.scan(common::ScanOp::kMax, pick(), static_cast<int>(random.below(2))));
          break;
        case 1:
          add(w.b.unary(common::UnaryOp::kSin, pick()));
          break;
        default: {
          common::NodeId first = pick();
          add(w.b.binary(random.chance(0.5) ? common::BinaryOp::kMax : common::BinaryOp::kSub,
                         first, pick()));
        }
      }
    }
    for (common::NodeId value : values) {
      if (used.count(value) == 0 || random.chance(0.2)) w.b.output(value);
    }
    joint += multi_output_calls(w.program());
  }
  EXPECT_GT(joint, 300u);
}

// What no kernel computes is chosen by no genome.
TEST(Genomes, AnAbstractChoiceIsNone) {
  common::GraphBuilder b;
  common::NodeId x = b.input(common::InputKind::kUser, common::DType::kFloat32, {8, 16}, "x");
  common::NodeId w = b.input(common::InputKind::kUser, common::DType::kFloat32, {16, 4}, "w");
  b.output(b.matmul(x, w));
  common::SteadyClock clock;
  RegionSpace space(b.finish(), clock);
  const EGraph& graph = *space.saturated().graph;
  const HeadTable& heads = *space.saturated().heads;
  std::string usual = common::print(space.decode({}).program);
  int abstract = 0;
  for (ClassId cls : graph.classes()) {
    for (NodeId node : graph.nodes(cls)) {
      if (heads.lowering(graph.head(node)) != Lowering::kAbstract) continue;
      ++abstract;
      Genome genome;
      genome.set({GeneKind::kChoice, cls, 0}, static_cast<int64_t>(node));
      EXPECT_EQ(common::print(space.decode(genome).program), usual);
    }
  }
  EXPECT_GT(abstract, 0);
}

// The regions' programs without any genes, put together, compute what the whole graph does.
void expect_assembled_right(const Graph& graph, const Cut& cut, const std::vector<int64_t>& sizes,
                            double tolerance) {
  common::SteadyClock clock;
  std::vector<common::Program> chosen;
  for (const Region& region : cut.regions) {
    chosen.push_back(RegionSpace(region.graph, clock).decode({}).program);
  }
  std::vector<const common::Program*> parts;
  for (const common::Program& program : chosen) parts.push_back(&program);
  common::Program program = assemble(cut, parts);
  ASSERT_TRUE(common::verify(program).ok()) << common::verify(program).error().message;
  std::vector<HostTensor> inputs = sample_inputs(graph, sizes, 5);
  auto expected = common::interpret(graph, inputs, {});
  auto actual = interpret_program(program, inputs, sizes);
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_LT(largest_difference(*actual, *expected), tolerance);
}

TEST(Assemble, AValueThatIsSeveralOutputsIsWrittenToEach) {
  common::GraphBuilder b;
  common::NodeId x = b.input(common::InputKind::kUser, common::DType::kFloat32, {3}, "x");
  common::NodeId y = b.unary(common::UnaryOp::kExp, x);
  for (common::NodeId value : {y, x, y}) b.output(value);
  Graph graph = b.finish();
  Cut cut = cut_into_regions(graph);
  expect_assembled_right(graph, cut, {}, 1e-6);
}

// Run alone, on a worker, a region knows no sizes but those that its inputs show.
TEST(Regions, ShowEverySizeThatTheyNeed) {
  common::GraphBuilder b({{2, 64}, {2, 64}});
  common::Expr rows = common::Expr::symbol(0), columns = common::Expr::symbol(1);
  common::NodeId h =
      b.input(common::InputKind::kUser, common::DType::kFloat32, {rows, columns}, "x");
  h = b.reshape(h, {rows * columns});
  for (int l = 0; l < 6; ++l) {
    auto w = b.input(common::InputKind::kWeight, common::DType::kFloat32, {1}, "w");
    h = b.unary(common::UnaryOp::kTanh, b.binary(common::BinaryOp::kMul, h, w));
  }
  b.output(b.reduce(common::ReduceOp::kSum, b.reshape(h, {rows, columns}), {1}));
  Graph graph = b.finish();
  Graph rolled = common::roll(graph);
  auto is_loop = [](const common::Node& node) { return node.op == common::Op::kLoop; };
  ASSERT_TRUE(std::any_of(rolled.nodes.begin(), rolled.nodes.end(), is_loop));
  Cut cut = cut_into_regions(rolled);
  for (const Region& region : cut.regions) {
    EXPECT_TRUE(common::hidden_symbols(region.graph).empty()) << common::print(region.graph);
  }
  expect_assembled_right(graph, cut, {5, 3}, 1e-4);
}

// Two streams that read each other's value of the block before: the loop hands a value on
// unchanged.
TEST(Assemble, LoopsThatCarrySeveralValues) {
  common::GraphBuilder b;
  common::NodeId x = b.input(common::InputKind::kUser, common::DType::kFloat32, {3, 16}, "x");
  common::NodeId y = b.input(common::InputKind::kUser, common::DType::kFloat32, {3, 16}, "y");
  for (int t = 0; t < 8; ++t) {
    auto dense = [&](common::NodeId value) {
      auto w = b.input(common::InputKind::kWeight, common::DType::kFloat32, {16, 16}, "w");
      return b.matmul(value, w);
    };
    auto next = b.binary(common::BinaryOp::kAdd, x, b.unary(common::UnaryOp::kTanh, dense(y)));
    y = b.binary(common::BinaryOp::kMul, y, b.unary(common::UnaryOp::kSin, dense(x)));
    x = next;
    b.output(x);
  }
  Graph graph = b.finish();
  Graph rolled = common::roll(graph);
  auto is_loop = [](const common::Node& node) { return node.op == common::Op::kLoop; };
  ASSERT_TRUE(std::any_of(rolled.nodes.begin(), rolled.nodes.end(), is_loop));
  Cut cut = cut_into_regions(rolled);
  expect_assembled_right(graph, cut, {}, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Programs,
    ::testing::ValuesIn(model_files({"mlp", "mlp_dynamic", "mlp_bf16", "attention_dynamic",
                                     "elementwise_dag", "deep_mlp_12_layers", "kv_step", "gpt2",
                                     "llama", "llama_dynamic_seq", "llama_decode"})),
    model_case_name<::testing::TestParamInfo<std::string>>);

// Processors that multiply bfloat16 differ from others in that alone.
TEST(DefaultPrograms, TransformsAreSplitOnEveryProcessor) {
  common::GraphBuilder b;
  auto x = b.input(common::InputKind::kUser, common::DType::kFloat32, {52, 400}, "x");
  b.output(b.fourier(x, std::nullopt, {.imaginary = false, .inverse = false, .count = 201}));
  Graph graph = b.finish();
  common::SteadyClock clock;
  for (common::Machine machine : {common::Machine::kCpu, common::Machine::kCpuPairs}) {
    RegionSpace space(graph, clock, Numerics::kStrict, machine);
    common::Program program = space.decode({}).program;
    bool is_split =
        std::any_of(program.kernels.begin(), program.kernels.end(),
                    [](const common::Kernel& k) { return k.form == common::Template::kFourier; });
    EXPECT_TRUE(is_split) << common::print(program);
  }
}

}  // namespace
}  // namespace coordinator
