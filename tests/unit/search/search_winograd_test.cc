// Convolutions by minimal filters: if these fail, plans give other values than the sums that they
// stand for, or let a pixel that is no number spoil its neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/fallback_form.h"
#include "common/runtime/interpreter/interpreter.h"
#include "coordinator/rules/matching/winograd_form.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/partition/attention_memo.h"
#include "coordinator/search/partition/materialisation.h"
#include "coordinator/search/partition/winograd_convolutions.h"
#include "coordinator/search/space/lowering_gate.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {
namespace {

using common::DType;
using common::Expr;
using common::Graph;
using common::GraphBuilder;
using common::HostTensor;
using common::InputKind;
using common::Node;
using common::Op;
using common::View;

constexpr int64_t kChannels = 16, kColumns = 24;

struct Convolution {
  int64_t rows, columns;  // of the image
  int64_t row_taps, column_taps;
  int64_t border = 1, row_step = 1, column_step = 1;
  int64_t dilation = 1;  // of columns
  InputKind filter = InputKind::kWeight;
};

// Of images [2, rows, columns, channels] by a weight [24, row taps, column taps, channels].
Graph graph_of(const Convolution& c) {
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  const int64_t rows = (c.rows + 2 * c.border - c.row_taps) / c.row_step + 1;
  const int64_t columns =
      (c.columns + 2 * c.border - c.dilation * (c.column_taps - 1) - 1) / c.column_step + 1;
  auto x = b.input(InputKind::kUser, DType::kFloat32, {2, c.rows, c.columns, kChannels}, "x");
  auto w =
      b.input(c.filter, DType::kFloat32, {kColumns, c.row_taps, c.column_taps, kChannels}, "w");
  Expr row = i(1) * Expr(c.row_step) + i(3) - Expr(c.border);
  Expr column = i(2) * Expr(c.column_step) + i(4) * Expr(c.dilation) - Expr(c.border);
  View windows{{2, rows, columns, c.row_taps, c.column_taps, kChannels},
               {i(0), row, column, i(5)},
               {{row, c.rows}, {column, c.columns}},
               0};
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {2, rows, columns, kColumns},
                  {b.view(x, windows), w},
                  common::ContractAttr{{0, 1, 2, 3, 4, 5}, {6, 3, 4, 5}, {0, 1, 2, 6}}}));
  return b.finish();
}

Graph written_out(const Graph& graph) {
  Selected selected = select_all(graph);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    if (graph.nodes[k].op == Op::kContract) selected.lowering[k] = Lowering::kWinograd;
  }
  Graph result = with_winograd_convolutions(std::move(selected)).graph;
  EXPECT_TRUE(common::verify(result).ok()) << common::print(result);
  return result;
}

int contractions(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op == Op::kContract;
  return count;
}

std::vector<HostTensor> inputs_of(const Graph& graph) {
  common::Random random(7);
  std::vector<HostTensor> inputs;
  for (const auto& input : graph.inputs) {
    inputs.push_back(
        HostTensor::zeros(input.dtype, common::evaluate_shape(input.shape, {})).value());
    for (int64_t k = 0; k < inputs.back().elements(); ++k) {
      inputs.back().set(k, random.unit() - 0.5);
    }
  }
  return inputs;
}

// The sum that the fallback keeps would hide a wrong product: what is chosen where all is finite.
void expect_same(const Graph& before, const Graph& after, const std::vector<HostTensor>& inputs) {
  auto expected = common::interpret(before, inputs, {});
  auto got = common::interpret(after, inputs, {});
  ASSERT_TRUE(expected.ok() && got.ok());
  for (int64_t k = 0; k < (*expected)[0].elements(); ++k) {
    const double e = (*expected)[0].get(k), g = (*got)[0].get(k);
    if (std::isfinite(e)) {
      ASSERT_NEAR(g, e, 1e-4) << k << common::print(after);
    } else {
      ASSERT_TRUE(std::isnan(e) ? std::isnan(g) : g == e) << k << ": " << g << " for " << e;
    }
  }
}

TEST(Winograd, ValuesStayForAllFiltersAndBorders) {
  const Convolution cases[] = {
      {9, 12, 3, 3},              // three tiles a row
      {9, 13, 3, 3},              // and a part of one
      {7, 7, 3, 3},               // tiles reach beyond the image
      {9, 12, 3, 3, 0},           // no border
      {4, 24, 2, 3, 0},           // two rows of taps
      {6, 24, 5, 5, 2},           // two results a tile
      {8, 15, 2, 2, 0},           // five
      {8, 16, 4, 4, 1},           // three
      {12, 6, 3, 3, 1, 1, 2},     // tiles along rows: columns are apart
      {3, 29, 3, 3, 1, 1, 1, 2},  // taps are apart: two rows of tiles
      {3, 40, 3, 3, 1, 1, 1, 5},
  };
  for (const Convolution& c : cases) {
    SCOPED_TRACE(testing::Message() << c.rows << "x" << c.columns << " by " << c.row_taps << "x"
                                    << c.column_taps << ", border " << c.border);
    const Graph graph = graph_of(c);
    const Graph after = written_out(graph);
    EXPECT_EQ(contractions(after), 2);  // products of tiles, and what falls back
    expect_same(graph, after, inputs_of(graph));
  }
}

// Every place around the pixel, and none beyond its windows.
TEST(Winograd, PixelsThatAreNotFiniteReachTheirOwnWindowsOnly) {
  const Graph graph = graph_of({9, 12, 3, 3});
  const Graph after = written_out(graph);
  const double inf = std::numeric_limits<double>::infinity();
  for (double value : {inf, -inf, std::nan(""), 3e38}) {
    for (int64_t pixel : {0, 5, 11, 4 * 12 + 6}) {
      std::vector<HostTensor> inputs = inputs_of(graph);
      inputs[0].set(pixel * kChannels + 3, value);
      if (value == 3e38) {
        // Large pixels round their neighbours' results away: where it overflows is what counts.
        auto expected = common::interpret(graph, inputs, {});
        auto got = common::interpret(after, inputs, {});
        ASSERT_TRUE(expected.ok() && got.ok());
        for (int64_t k = 0; k < (*expected)[0].elements(); ++k) {
          ASSERT_EQ(std::isfinite((*got)[0].get(k)), std::isfinite((*expected)[0].get(k))) << k;
        }
        continue;
      }
      expect_same(graph, after, inputs);
    }
  }
}

// Few channels, places that are apart along both axes, one tap, windows of something else.
TEST(Winograd, OthersAreTiles) {
  for (const Convolution& c : {Convolution{9, 12, 3, 3, 1, 2, 2}, Convolution{9, 12, 1, 1, 0},
                               Convolution{9, 12, 7, 7, 3}, Convolution{3, 3, 3, 3}}) {
    const Graph graph = graph_of(c);
    EXPECT_EQ(written_out(graph), graph);
  }
}

// [points] of products of tiles and filters give the sums of neighbouring products, exactly.
TEST(Winograd, MatricesMultiplyPolynomials) {
  for (int64_t taps = 2; taps <= 5; ++taps) {
    const MinimalFilter filter{taps, 7 - taps};
    const int64_t n = filter.points();
    const std::vector<float> pixels = filter.of_pixels(), filters = filter.of_filters(),
                             results = filter.of_results();
    ASSERT_EQ(static_cast<int64_t>(pixels.size()), n * n);
    for (int64_t r = 0; r < filter.outputs; ++r) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t pixel = 0; pixel < n; ++pixel) {
          double sum = 0;
          for (int64_t a = 0; a < n; ++a) {
            sum += static_cast<double>(results[static_cast<size_t>(r * n + a)]) *
                   static_cast<double>(filters[static_cast<size_t>(a * taps + tap)]) *
                   static_cast<double>(pixels[static_cast<size_t>(a * n + pixel)]);
          }
          EXPECT_NEAR(sum, pixel == r + tap ? 1 : 0, 1e-6) << taps << " " << r << " " << tap;
        }
      }
    }
  }
}

TEST(Winograd, TheDirectSumIsFoundAsAFallback) {
  const Graph after = written_out(graph_of({9, 12, 3, 3}));
  int found = 0;
  for (size_t k = 0; k < after.nodes.size(); ++k) {
    if (after.nodes[k].op != Op::kContract) continue;
    found += common::fallback_form(after, static_cast<common::NodeId>(k)).has_value();
  }
  EXPECT_EQ(found, 1);
}

// A part of a concatenation: no tile has such elements, so the kernel that reads it ends there. The
// direct sum by itself would be computed in every run.
TEST(Winograd, TheDirectSumIsStoredNowhereByItself) {
  GraphBuilder b;
  const Graph given = graph_of({9, 12, 3, 3});
  const std::vector<common::NodeId> inputs = b.inputs_like(given);
  common::NodeId y =
      b.raw({Op::kView, DType::kFloat32, given.nodes[2].shape, {inputs[0]}, given.nodes[2].attr});
  y = b.raw(
      {Op::kContract, DType::kFloat32, given.nodes[3].shape, {y, inputs[1]}, given.nodes[3].attr});
  const common::Shape shape = b.shape(y);
  const Expr column = Expr::index(3) - Expr(kColumns);
  View part{{shape[0], shape[1], shape[2], 2 * kColumns},
            {Expr::index(0), Expr::index(1), Expr::index(2), column},
            {{column, kColumns}},
            0};
  b.output(b.unary(common::UnaryOp::kTanh, b.view(y, part)));
  Selected selected = select_all(b.finish());
  for (size_t k = 0; k < selected.graph.nodes.size(); ++k) {
    if (selected.graph.nodes[k].op == Op::kContract) selected.lowering[k] = Lowering::kWinograd;
  }
  selected = with_winograd_convolutions(std::move(selected));
  AttentionMemo attentions;
  Materialised everything(selected.graph.nodes.size(), 1);
  repair_materialisation(selected, everything, attentions);
  for (const Materialised& stored : {default_materialisation(selected, attentions), everything}) {
    int found = 0;
    for (size_t k = 0; k < selected.graph.nodes.size(); ++k) {
      const auto id = static_cast<common::NodeId>(k);
      if (selected.graph.nodes[k].op != Op::kContract) continue;
      const auto form = common::fallback_form(selected.graph, id);
      if (!form) continue;
      ++found;
      EXPECT_FALSE(is_materialised(selected, stored, id));
      EXPECT_TRUE(is_materialised(selected, stored, form->choice));
      EXPECT_EQ(template_of(selected, stored, form->choice), common::Template::kTile);
    }
    EXPECT_EQ(found, 1);
  }
}

// The same as a sum of products, as front ends write it.
Graph as_sum_of_products(const Convolution& c) {
  const Graph given = graph_of(c);
  GraphBuilder b;
  const std::vector<common::NodeId> inputs = b.inputs_like(given);
  View windows = common::attr<common::ViewAttr>(given.nodes[2]).view;
  View filter{windows.shape, {}, {}, 0};
  windows.shape.insert(windows.shape.begin() + 3, Expr(kColumns));
  for (Expr* e : {&windows.index[1], &windows.index[2], &windows.index[3], &windows.valid[0].value,
                  &windows.valid[1].value}) {
    *e = e->substitute([](common::Var v) { return Expr::index(v.id < 3 ? v.id : v.id + 1); });
  }
  filter.shape = windows.shape;
  for (int axis : {3, 4, 5, 6}) filter.index.push_back(Expr::index(axis));
  b.output(b.reduce(
      common::ReduceOp::kSum,
      b.binary(common::BinaryOp::kMul, b.view(inputs[0], windows), b.view(inputs[1], filter)),
      {4, 5, 6}));
  return b.finish();
}

// How many kernels of the program that is chosen before anything is measured hold such a sum.
int fallbacks(const common::Program& program) {
  int found = 0;
  for (const common::Kernel& kernel : program.kernels) {
    for (size_t k = 0; k < kernel.body.nodes.size(); ++k) {
      if (kernel.body.nodes[k].op != Op::kContract) continue;
      found += common::fallback_form(kernel.body, static_cast<common::NodeId>(k)).has_value();
    }
  }
  return found;
}

int fallbacks(const Convolution& c, common::Machine machine) {
  const Graph graph = as_sum_of_products(c);
  common::SteadyClock clock;
  RegionSpace space(graph, clock, Numerics::kStrict, machine);
  return fallbacks(space.decode({}).program);
}

// Of 64 channels, where minimal filters are predicted to be the fastest way.
Graph wide_convolution() {
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  auto x = b.input(InputKind::kUser, DType::kFloat32, {56, 56, 64}, "x");
  auto w = b.input(InputKind::kWeight, DType::kFloat32, {64, 3, 3, 64}, "w");
  const Expr row = i(0) + i(3) - Expr(1), column = i(1) + i(4) - Expr(1);
  const common::Shape product{56, 56, 64, 3, 3, 64};
  auto windows = b.view(x, {product, {row, column, i(5)}, {{row, 56}, {column, 56}}, 0});
  auto filter = b.view(w, {product, {i(2), i(3), i(4), i(5)}, {}, 0});
  b.output(b.reduce(common::ReduceOp::kSum, b.binary(common::BinaryOp::kMul, windows, filter),
                    {3, 4, 5}));
  return b.finish();
}

// Minimal filters round more than the sums that they stand for. Where that is too much for the
// values that verification tries, the first clients still get what the cost model takes for the
// fastest of all else, and the graph as it is only if that is wrong as well.
TEST(Winograd, DirectSumsStandInForAFirstProgramThatIsWrong) {
  SearchOptions options;
  options.budget = 16;
  options.in_flight = 1;
  options.target.name = "cpu-x86_64-avx2";
  auto search = JobSearch::create(wide_convolution(), options, nullptr);
  ASSERT_TRUE(search.ok());
  std::vector<std::string> origins;
  for (int k = 0; k < 3; ++k) {
    std::vector<CandidateTask> tasks = (*search)->propose(1);
    ASSERT_EQ(tasks.size(), 1u);
    EXPECT_EQ(tasks[0].payload.kind, common::TaskKind::kBaseline);
    EXPECT_EQ(fallbacks(tasks[0].payload.program), k == 0 ? 1 : 0);
    const bool has_tile = std::ranges::any_of(
        tasks[0].payload.program.kernels,
        [](const common::Kernel& kernel) { return kernel.form == common::Template::kTile; });
    EXPECT_EQ(has_tile, k < 2);
    origins.emplace_back(tasks[0].origin);
    CandidateResult wrong;
    wrong.outcome = common::TaskOutcome::kWrong;
    (*search)->on_result(tasks[0].id, wrong);
  }
  EXPECT_EQ(origins, (std::vector<std::string>{"plain", "direct", "lowering"}));
}

TEST(Winograd, IsChosenOnProcessorsForFiltersThatAreWeights) {
  EXPECT_EQ(fallbacks({28, 28, 3, 3}, common::Machine::kCpu), 1);
  EXPECT_EQ(fallbacks({28, 28, 3, 3}, common::Machine::kGpu), 0);
  EXPECT_EQ(fallbacks({28, 28, 3, 3, 1, 2, 2}, common::Machine::kCpu), 0);
  Convolution computed{28, 28, 3, 3};
  computed.filter = InputKind::kUser;
  EXPECT_EQ(fallbacks(computed, common::Machine::kCpu), 0);
}

// A region and what its kernels take: those of one form a time of their own, the others
// `others_ns`.
class Priced {
 public:
  explicit Priced(const Graph& graph) : space_(graph, clock_) {}

  bool holds(const Genome& genome, common::Template form) {
    const auto& kernels = space_.structure(genome)->fused.kernels;
    return std::any_of(kernels.begin(), kernels.end(),
                       [&](const auto& built) { return built->kernel.form == form; });
  }
  Genome gated(double tile_ns, double library_ns, size_t tries_max = 100) {
    tries_ = 0;
    return gate_lowerings(
        space_, {},
        [&](const Genome& genome) {
          ++tries_;
          KernelShares shares;
          for (const auto& built : space_.structure(genome)->fused.kernels) {
            auto [id, is_new] = ids_.emplace(built->body, static_cast<KernelId>(ids_.size()));
            const common::Template form = built->kernel.form;
            shares[id->second] += form == common::Template::kTile   ? tile_ns
                                  : form == common::Template::kGemm ? library_ns
                                                                    : 10;
          }
          return shares;
        },
        tries_max);
  }
  size_t tries() const { return tries_; }

 private:
  common::SteadyClock clock_;
  RegionSpace space_;
  std::map<common::Digest, KernelId> ids_;
  size_t tries_ = 0;
};

// Whatever extraction preferred. Windows that a library multiplies are copied first.
TEST(LoweringGate, TakesWhatIsPredictedToTakeLeast) {
  Priced priced(as_sum_of_products({28, 28, 3, 3}));
  ASSERT_FALSE(priced.holds({}, common::Template::kGemm));
  const Genome library = priced.gated(1000, 1);
  EXPECT_TRUE(priced.holds(library, common::Template::kGemm));
  EXPECT_FALSE(priced.holds(library, common::Template::kTile));
  const Genome tile = priced.gated(1000, 1e6);
  EXPECT_FALSE(priced.holds(tile, common::Template::kGemm));
}

// A norm of each channel over an image whose channels are last: one operation, or written out.
TEST(LoweringGate, DecidesAboutNormsAlongOuterAxes) {
  using common::BinaryOp;
  using common::ReduceOp;
  GraphBuilder b;
  auto mean = [&](common::NodeId of) {
    return b.binary(BinaryOp::kDiv, b.reduce(ReduceOp::kSum, of, {0, 1}, true),
                    b.scalar(DType::kFloat32, 128 * 128));
  };
  auto x = b.input(InputKind::kUser, DType::kFloat32, {128, 128, 16}, "x");
  auto centred = b.binary(BinaryOp::kSub, x, mean(x));
  auto variance = b.binary(BinaryOp::kAdd, mean(b.binary(BinaryOp::kMul, centred, centred)),
                           b.scalar(DType::kFloat32, 1e-5));
  b.output(b.binary(BinaryOp::kMul, centred, b.unary(common::UnaryOp::kRsqrt, variance)));
  common::SteadyClock clock;
  RegionSpace space(b.finish(), clock);
  auto has_norm = [&](const Genome& genome) {
    const auto& kernels = space.structure(genome)->fused.kernels;
    return std::ranges::any_of(kernels, [](const auto& built) {
      return std::ranges::any_of(built->kernel.body.nodes,
                                 [](const Node& node) { return node.op == Op::kNorm; });
    });
  };
  for (bool is_slow : {false, true}) {
    const Genome genome = gate_lowerings(
        space, {},
        [&](const Genome& tried) {
          const double norm_ns = is_slow ? 1000 : 10;
          return KernelShares{{has_norm(tried) ? 0 : 1, has_norm(tried) ? norm_ns : 100}};
        },
        100);
    EXPECT_EQ(has_norm(genome), !is_slow);
  }
}

TEST(LoweringGate, KeepsToItsTries) {
  Priced priced(as_sum_of_products({28, 28, 3, 3}));
  EXPECT_EQ(priced.gated(1000, 1, 0).size(), 0u);
  priced.gated(1000, 1, 3);
  EXPECT_EQ(priced.tries(), 4u);  // with the start
}

// Products of matrices are left to extraction: predictions hardly tell their ways apart.
TEST(LoweringGate, DecidesConvolutionsAlone) {
  GraphBuilder b;
  auto x = b.input(InputKind::kUser, DType::kFloat32, {64, 128}, "x");
  auto w = b.input(InputKind::kWeight, DType::kFloat32, {128, 96}, "w");
  b.output(b.matmul(x, w));
  Priced priced(b.finish());
  EXPECT_EQ(priced.gated(1000, 1).size(), 0u);
  EXPECT_EQ(priced.tries(), 1u);
}

}  // namespace
}  // namespace coordinator
