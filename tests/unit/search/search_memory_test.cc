// Programs under a bound on memory: if these fail, a plan needs more memory than it was allowed, or
// computes something else than without a bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/load_time.h"
#include "common/plan/policy.h"
#include "common/plan/run_memory.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/memory/call_order.h"
#include "coordinator/search/memory/fit_memory.h"
#include "coordinator/search/memory/memory_bound.h"
#include "coordinator/search/memory/recompute.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/partition.h"
#include "coordinator/search/space/region_space.h"
#include "program_interpreter.h"
#include "tests/paths/paths.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::Program;
using common::UnaryOp;
using IrNode = common::NodeId;

size_t at(int index) { return static_cast<size_t>(index); }

std::vector<double> equal_times(const Program& program) {
  return std::vector<double>(program.kernels.size(), 1000);
}

size_t arena_of(const Program& program, const std::vector<int64_t>& sizes = {}) {
  return common::run_liveness(common::plan_of_buffers(program), sizes).arena_bytes();
}

int64_t repeats_of(const Program& program) {
  std::vector<int> repeated = common::repeated_calls(program.calls, program.buffers.size());
  return std::count_if(repeated.begin(), repeated.end(), [](int first) { return first >= 0; });
}

// Layers forward, and backward through what each one left.
Graph chain(int layers, int64_t width = 256) {
  GraphBuilder b;
  std::vector<IrNode> values{b.input(InputKind::kUser, DType::kFloat32, {width}, "x")};
  for (int k = 0; k < layers; ++k) values.push_back(b.unary(UnaryOp::kTanh, values.back()));
  IrNode gradient = values.back();
  for (int k = layers; k > 0; --k) {
    IrNode square = b.binary(BinaryOp::kMul, values[at(k)], values[at(k)]);
    IrNode slope = b.binary(BinaryOp::kSub, b.scalar(DType::kFloat32, 1), square);
    gradient = b.binary(BinaryOp::kMul, gradient, slope);
  }
  b.output(gradient);
  return b.finish();
}

// The same values, bit by bit, from either program.
void expect_equal(const Graph& graph, const Program& a, const Program& b,
                  const std::vector<int64_t>& sizes = {}) {
  auto inputs = common::testing::sample_inputs(graph, sizes, 7);
  auto one = common::testing::interpret_program(a, inputs, sizes);
  auto other = common::testing::interpret_program(b, inputs, sizes);
  ASSERT_TRUE(one.ok() && other.ok());
  ASSERT_EQ(one->size(), other->size());
  EXPECT_EQ(common::testing::largest_difference(*one, *other), 0);
}

TEST(FitMemory, RepeatsCallsUntilTheBoundIsKept) {
  Graph graph = chain(16);
  Program program = plain_program_of(graph);
  size_t free = arena_of(program);
  for (double share : {0.75, 0.5, 0.34}) {
    auto bound = static_cast<size_t>(static_cast<double>(free) * share);
    MemoryFit fit = fit_memory(program, bound, equal_times(program), {});
    ASSERT_FALSE(fit.programs.empty()) << share << ": " << fit.least_bytes << " of " << free;
    for (const FittedProgram& fitted : fit.programs) {
      EXPECT_LE(fitted.bytes, bound);
      EXPECT_EQ(fitted.bytes, arena_of(fitted.program));
      EXPECT_TRUE(common::verify(fitted.program).ok());
      EXPECT_GT(repeats_of(fitted.program), 0);
      EXPECT_EQ(fitted.added_ns,
                1000.0 * static_cast<double>(fitted.program.calls.size() - program.calls.size()));
      expect_equal(graph, program, fitted.program);
    }
    EXPECT_TRUE(
        std::is_sorted(fit.programs.begin(), fit.programs.end(),
                       [](const auto& a, const auto& b) { return a.added_ns < b.added_ns; }));
  }
}

TEST(FitMemory, LeavesAProgramWithinTheBoundAsItIs) {
  Program program = plain_program_of(chain(8));
  MemoryFit fit = fit_memory(program, arena_of(program), equal_times(program), {});
  ASSERT_EQ(fit.programs.size(), 1u);
  EXPECT_EQ(fit.programs[0].program, program);
  EXPECT_EQ(fit.programs[0].added_ns, 0);
}

TEST(FitMemory, TellsTheLeastThatWasReached) {
  Program program = plain_program_of(chain(8));
  MemoryFit fit = fit_memory(program, 64, equal_times(program), {});
  EXPECT_TRUE(fit.programs.empty());
  EXPECT_GE(fit.least_bytes, least_arena_bytes(program, {}));
  EXPECT_LT(fit.least_bytes, arena_of(program));
}

// The costly value is kept, the cheap one is computed again.
TEST(FitMemory, RepeatsWhatTakesTheLeastTime) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {64, 64}, "x");
  IrNode cheap = b.unary(UnaryOp::kTanh, x), costly = b.unary(UnaryOp::kExp, x);
  IrNode y = b.unary(UnaryOp::kSqrt, b.binary(BinaryOp::kAdd, cheap, costly));
  for (int k = 0; k < 3; ++k) y = b.unary(UnaryOp::kSin, y);
  b.output(b.binary(BinaryOp::kMul, b.binary(BinaryOp::kMul, y, costly), cheap));
  Graph graph = b.finish();
  Program program = plain_program_of(graph);
  std::vector<double> times = equal_times(program);
  int costly_kernel = -1;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    for (const common::Node& node : program.kernels[k].body.nodes) {
      bool is_exp = node.op == common::Op::kUnary &&
                    common::attr<common::UnaryAttr>(node).op == UnaryOp::kExp;
      if (is_exp) costly_kernel = static_cast<int>(k);
    }
  }
  ASSERT_GE(costly_kernel, 0);
  times[at(costly_kernel)] = 50'000;
  MemoryFit fit = fit_memory(program, arena_of(program) - 1, times, {});
  ASSERT_FALSE(fit.programs.empty());
  const Program& fitted = fit.programs[0].program;
  EXPECT_EQ(repeats_of(fitted), 1);
  EXPECT_EQ(std::count_if(fitted.calls.begin(), fitted.calls.end(),
                          [&](const auto& call) { return call.kernel == costly_kernel; }),
            1);
  expect_equal(graph, program, fitted);
}

// Eight states, gradients of all, and then an update of each.
Graph updates(int64_t width) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {width}, "x");
  std::vector<IrNode> states, gradients;
  for (int k = 0; k < 8; ++k) {
    states.push_back(b.input(InputKind::kState, DType::kFloat32, {width}, "w"));
  }
  for (IrNode state : states) {
    gradients.push_back(b.unary(UnaryOp::kTanh, b.binary(BinaryOp::kMul, x, state)));
  }
  IrNode sum = gradients[0];
  b.output(b.reduce(common::ReduceOp::kSum, sum, {0}));
  for (size_t k = 0; k < states.size(); ++k) {
    IrNode next = b.binary(BinaryOp::kSub, states[k], gradients[k]);
    b.mutate(static_cast<int>(k) + 1, next);
  }
  return b.finish();
}

// Optimiser updates move right behind their gradients, and nothing is computed twice.
TEST(CallOrder, UpdatesFollowTheirGradients) {
  Graph graph = updates(1024);
  Program program = plain_program_of(graph);
  size_t one = 1024 * 4;
  ASSERT_GE(arena_of(program), 8 * one);
  MemoryFit fit = fit_memory(program, 3 * one, equal_times(program), {});
  ASSERT_FALSE(fit.programs.empty());
  EXPECT_EQ(repeats_of(fit.programs[0].program), 0);
  EXPECT_EQ(fit.programs[0].program.calls.size(), program.calls.size());
  expect_equal(graph, program, fit.programs[0].program);
}

// Without a bound, too, where that saves something worth having.
TEST(CallOrder, ProgramsWithoutABoundTakeTheOrderThatNeedsLess) {
  Graph graph = updates(1 << 17);
  Program program = plain_program_of(graph);
  Program ordered = in_lower_order(program, {});
  EXPECT_LE(2 * arena_of(ordered), arena_of(program));
  EXPECT_EQ(ordered.calls.size(), program.calls.size());
  expect_equal(graph, program, ordered);
  Program small = plain_program_of(updates(1024));
  EXPECT_EQ(arena_of(in_lower_order(small, {})), arena_of(small));
}

// Whole programs of searches take it on processors. GPUs overlap calls as they come.
TEST(MemoryBound, OrdersProgramsOfProcessors) {
  Program program = plain_program_of(updates(1 << 17));
  for (const char* target : {"cpu-x86_64-avx2", "cuda-sm_90a"}) {
    SearchOptions options;
    options.target.name = target;
    KernelTimes times(nullptr, {{}});
    std::vector<Program> fitted = MemoryBound(options, times).fit(program);
    ASSERT_EQ(fitted.size(), 1U);
    bool is_lower = arena_of(fitted[0]) < arena_of(program);
    EXPECT_EQ(is_lower, options.target.name == "cpu-x86_64-avx2");
  }
}

// The state is read before it changes: later its old content is gone.
TEST(Recompute, DoesNotReadStatesThatWereOverwritten) {
  for (bool is_overwritten : {false, true}) {
    GraphBuilder b;
    IrNode state = b.input(InputKind::kState, DType::kFloat32, {1024}, "s");
    IrNode early = b.unary(UnaryOp::kTanh, state);
    IrNode next = b.unary(UnaryOp::kExp, state);
    IrNode y = b.unary(UnaryOp::kSin, early);
    if (is_overwritten) b.mutate(0, next);
    for (int k = 0; k < 4; ++k) {
      y = b.binary(BinaryOp::kAdd, b.unary(UnaryOp::kCos, y), b.unary(UnaryOp::kTanh, y));
    }
    b.output(b.binary(BinaryOp::kMul, y, early));
    Graph graph = b.finish();
    Program program = plain_program_of(graph);
    common::Plan plan = common::plan_of_buffers(program);
    std::vector<double> call_ns(plan.calls.size(), 1);
    size_t most = common::run_liveness(plan, {}).most();
    recompute_until(most - 1, RecomputeOrder::kTimePerByte, {}, &plan, &call_ns);
    EXPECT_EQ(call_ns.size(), plan.calls.size());
    if (is_overwritten) {
      EXPECT_EQ(plan.calls, program.calls);
    } else {
      EXPECT_LT(common::run_liveness(plan, {}).most(), most);
    }
  }
}

TEST(Recompute, RepeatedDrawsAreTheSameNumbers) {
  GraphBuilder b;
  IrNode seed = b.input(InputKind::kUser, DType::kInt64, {}, "seed");
  IrNode offset = b.input(InputKind::kUser, DType::kInt64, {}, "offset");
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {512}, "x");
  IrNode drawn = b.philox(DType::kFloat32, seed, offset, b.iota(DType::kInt64, 512),
                          b.scalar_int(DType::kInt64, 0));
  IrNode y = b.binary(BinaryOp::kMul, x, drawn);
  for (int k = 0; k < 4; ++k) {
    y = b.binary(BinaryOp::kAdd, b.unary(UnaryOp::kCos, y), b.unary(UnaryOp::kTanh, y));
  }
  b.output(b.binary(BinaryOp::kMul, y, drawn));
  Graph graph = b.finish();
  Program program = plain_program_of(graph);
  MemoryFit fit = fit_memory(program, arena_of(program) - 1, equal_times(program), {});
  ASSERT_FALSE(fit.programs.empty());
  const Program& fitted = fit.programs[0].program;
  int draws = 0;
  for (const common::Call& call : fitted.calls) {
    const auto& nodes = fitted.kernels[at(call.kernel)].body.nodes;
    draws += std::any_of(nodes.begin(), nodes.end(),
                         [](const auto& node) { return node.op == common::Op::kPhilox; });
  }
  EXPECT_EQ(draws, 2);
  expect_equal(graph, program, fitted);
}

// A training step of a small language model as torch exported it: forward, backward and loss.
TEST(FitMemory, ExportedStepComputesTheSameInLess) {
  auto model = clients::load_model(paths::fixtures("/gradients/text_training.float32.0/model.pt2"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  Cut cut = partition(model->graph, common::Machine::kCpu).cut;
  std::vector<Program> regions;
  for (const Region& region : cut.regions) regions.push_back(plain_program_of(region.graph));
  std::vector<const Program*> all;
  for (const Program& region : regions) all.push_back(&region);
  Program program = assemble(cut, all);
  std::vector<int64_t> sizes = common::representative_sizes(program.symbols);
  size_t free = arena_of(program, sizes);
  for (double share : {0.75, 0.5}) {
    auto bound = static_cast<size_t>(static_cast<double>(free) * share);
    MemoryFit fit = fit_memory(program, bound, equal_times(program), sizes);
    ASSERT_FALSE(fit.programs.empty()) << share << ": " << fit.least_bytes << " of " << free;
    EXPECT_LE(arena_of(fit.programs[0].program, sizes), bound);
    ASSERT_TRUE(common::verify(fit.programs[0].program).ok());
    expect_equal(model->graph, program, fit.programs[0].program, sizes);
  }
}

// ---- Searches ----------------------------------------------------------------------------------

CandidateResult measure(const CandidateTask& task, int64_t scratch = 0) {
  CandidateResult result;
  result.worker = "simulated";
  for (size_t k = 0; k < task.payload.program.kernels.size(); ++k) {
    result.report.kernel_ns.push_back(1000);
    result.report.kernels.emplace_back().entry.scratch_bytes = scratch;
  }
  result.report.total_ns = 1000 * task.payload.program.calls.size();
  result.report.runs = 10;
  return result;
}

struct Course {
  std::vector<CandidateTask> whole;  // without comparisons
  common::Result<SearchOutcome> outcome = common::internal_error("not run");
};

Course run(const Graph& graph, uint64_t bound, int64_t scratch = 0) {
  SearchOptions options;
  options.budget = 24;
  options.target.name = "cpu-test";
  options.machine = "a processor, 2 threads";
  options.policy = common::PlanPolicy{"strict", bound}.text();
  auto search = JobSearch::create(graph, options, nullptr);
  EXPECT_TRUE(search.ok());
  Course course;
  while (!(*search)->done()) {
    std::vector<CandidateTask> tasks = (*search)->propose(4);
    if (tasks.empty() && !(*search)->done()) ADD_FAILURE() << "neither proposes nor ends";
    if (tasks.empty()) break;
    for (CandidateTask& task : tasks) {
      (*search)->on_result(task.id, measure(task, scratch));
      bool is_candidate = task.payload.kind != common::TaskKind::kComparison;
      if (task.region < 0 && is_candidate) course.whole.push_back(std::move(task));
    }
  }
  course.outcome = (*search)->outcome();
  return course;
}

// Products, whose results no kernel computes in place.
Graph products(int layers) {
  GraphBuilder b;
  IrNode x = b.input(InputKind::kUser, DType::kFloat32, {64, 64}, "x");
  IrNode w = b.input(InputKind::kUser, DType::kFloat32, {64, 64}, "w");
  std::vector<IrNode> values{x};
  for (int k = 0; k < layers; ++k) values.push_back(b.matmul(values.back(), w));
  IrNode gradient = values.back();
  for (int k = layers; k > 0; --k) {
    gradient = b.matmul(gradient, b.binary(BinaryOp::kAdd, values[at(k)], w));
  }
  b.output(gradient);
  return b.finish();
}

TEST(MemoryBound, EveryWholeProgramKeepsIt) {
  Graph graph = products(12);
  Course free = run(graph, 0);
  ASSERT_TRUE(free.outcome.ok());
  EXPECT_EQ(free.outcome->plan.key.policy, "strict");
  size_t most = common::run_liveness(free.outcome->plan, {}).arena_bytes();
  auto bound = static_cast<uint64_t>(most) / 2;
  Course course = run(graph, bound);
  ASSERT_TRUE(course.outcome.ok()) << course.outcome.error().message;
  EXPECT_GT(course.whole.size(), 1u);
  for (const CandidateTask& task : course.whole) EXPECT_LE(arena_of(task.payload.program), bound);
  const common::Plan& plan = course.outcome->plan;
  EXPECT_EQ(plan.key.policy, common::cat("strict,memory=", bound));
  EXPECT_LE(common::run_liveness(plan, {}).arena_bytes(), bound);
  EXPECT_NE(common::memory_text(plan).find("repeat earlier ones"), std::string::npos);
}

// What code needs beside is known once it was made; then less is left for values.
TEST(MemoryBound, CountsScratchAreas) {
  Graph graph = products(12);
  size_t most = common::run_liveness(run(graph, 0).outcome->plan, {}).arena_bytes();
  constexpr int64_t kScratch = 16 * 1024;
  Course course = run(graph, most, kScratch);
  ASSERT_TRUE(course.outcome.ok()) << course.outcome.error().message;
  common::Plan plan = course.outcome->plan;
  EXPECT_EQ(common::scratch_bytes(plan, {}, 2), 2u * kScratch);
  EXPECT_LE(common::run_liveness(plan, {}).arena_bytes() + 2 * kScratch, most);
}

TEST(MemoryBound, SaysWhatWasAskedAndReached) {
  Course course = run(products(6), 1000);
  ASSERT_FALSE(course.outcome.ok());
  EXPECT_TRUE(course.whole.empty());
  const std::string& message = course.outcome.error().message;
  EXPECT_EQ(course.outcome.error().code, common::Code::kInvalidInput);
  EXPECT_NE(message.find("runs in 1000 bytes of memory"), std::string::npos) << message;
  EXPECT_NE(message.find("the least that was reached is "), std::string::npos) << message;
}

TEST(PlanPolicy, TextsAreReadBackAndOneEach) {
  for (const common::PlanPolicy& policy :
       {common::PlanPolicy{}, common::PlanPolicy{"relaxed", 0}, common::PlanPolicy{"strict", 64},
        common::PlanPolicy{"relaxed", uint64_t{1} << 40}}) {
    auto read = common::parse_plan_policy(policy.text());
    ASSERT_TRUE(read.ok()) << policy.text();
    EXPECT_EQ(*read, policy);
  }
  EXPECT_EQ(common::PlanPolicy{}.text(), common::kDefaultPolicy);
  for (const char* text : {"sloppy", "strict,", "strict,memory=", "strict,memory=0",
                           "strict,memory=064", "strict,memory=64 ", "strict,memory=-1",
                           "strict,memory=99999999999999999999", "strict,speed=64"}) {
    EXPECT_FALSE(common::parse_plan_policy(text).ok()) << text;
  }
}

}  // namespace
}  // namespace coordinator
