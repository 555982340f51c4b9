// What searches leave to later ones: if these fail, models that share layers are searched from the
// beginning, or a program that was found wrong is believed again.
#include <gtest/gtest.h>

#include <functional>

#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/roll/roll.h"
#include "coordinator/search/job_search.h"
#include "coordinator/search/kin.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/normal_form.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/partition/rewrites/layout_assignment.h"
#include "search_testing.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::NodeId;
using common::TaskKind;
using common::TaskOutcome;
using common::UnaryOp;

// Layers, then a product of another width. `turned`: sums are written the other way round.
Graph model(int layers, int64_t head, bool turned = false, int64_t batch = 8) {
  GraphBuilder b;
  NodeId h = b.input(InputKind::kUser, DType::kFloat32, {batch, 32}, "x");
  for (int layer = 0; layer < layers; ++layer) {
    NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {32, 32}, "w");
    NodeId y = b.unary(UnaryOp::kTanh, b.matmul(h, w));
    NodeId top = b.reduce(common::ReduceOp::kMax, y, {1}, true);
    NodeId e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, y, top));
    h = turned ? b.binary(BinaryOp::kAdd, e, h) : b.binary(BinaryOp::kAdd, h, e);
  }
  NodeId w = b.input(InputKind::kWeight, DType::kFloat32, {32, head}, "head");
  b.output(b.matmul(h, w));
  return b.finish();
}

CandidateResult measure(const CandidateTask& task) {
  CandidateResult result;
  result.worker = "simulated";
  result.busy_ms = task.payload.kind == TaskKind::kComparison ? 0 : 100;
  for (const common::Kernel& kernel : task.payload.program.kernels) {
    result.report.kernel_ns.push_back(500 + common::kernel_fingerprint(kernel).prefix64() % 1000);
    result.report.kernels.emplace_back();
  }
  for (const common::Call& call : task.payload.program.calls) {
    result.report.total_ns += result.report.kernel_ns[static_cast<size_t>(call.kernel)];
  }
  return result;
}

using Device = std::function<CandidateResult(const CandidateTask&)>;

struct Ended {
  SearchStatus status;
  common::Result<SearchOutcome> outcome = common::internal_error("not run");
  std::map<common::Digest, TuningRecord> tuning_records;
  std::vector<CandidateTask> sent;  // without comparisons
};

Ended search(const Graph& graph, int64_t budget, const Memory* memory = nullptr,
             const Device& device = measure) {
  SearchOptions options;
  options.budget = budget;
  options.target.name = "cpu-test";
  auto made = JobSearch::create(graph, options, memory);
  EXPECT_TRUE(made.ok());
  Ended ended;
  while (!(*made)->done()) {
    std::vector<CandidateTask> tasks = (*made)->propose(4);
    EXPECT_NE(tasks.empty(), !(*made)->done()) << "the search neither proposes nor ends";
    if (tasks.empty()) break;
    for (CandidateTask& task : tasks) {
      (*made)->on_result(task.id, device(task));
      bool is_candidate = task.payload.kind != TaskKind::kComparison;
      if (is_candidate) ended.sent.push_back(std::move(task));
    }
  }
  ended.status = (*made)->status();
  ended.outcome = (*made)->outcome();
  ended.tuning_records = (*made)->tuning_records();
  return ended;
}

TEST(TuningRecords, ADeeperModelIsVerifiedAndNotSearched) {
  Memory memory;
  Ended first = search(model(3, 16), 60);
  EXPECT_EQ(first.status.known_regions, 0);
  EXPECT_EQ(first.status.known_kernels, 0);
  EXPECT_EQ(first.status.worker_ms, 100.0 * static_cast<double>(first.sent.size()));
  memory.tuning_records = first.tuning_records;
  Ended deep = search(model(6, 16), 60, &memory);
  ASSERT_TRUE(deep.outcome.ok());
  ASSERT_EQ(deep.sent.size(), 1u) << "the first program is what was found";
  EXPECT_EQ(deep.sent[0].payload.kind, TaskKind::kBaseline);
  EXPECT_EQ(deep.status.known_regions, deep.status.regions);
  EXPECT_EQ(deep.status.known_kernels, deep.status.kernels);
  EXPECT_GT(deep.status.saved_ms, 0);
}

TEST(TuningRecords, WithAnotherHeadTheBudgetIsSpentOnTheHead) {
  Memory memory;
  memory.tuning_records = search(model(3, 16), 60).tuning_records;
  Ended other = search(model(3, 24), 60, &memory);
  EXPECT_GT(other.status.known_regions, 0);
  EXPECT_LT(other.status.known_regions, other.status.regions);
  EXPECT_LT(other.sent.size(), 60u);
  EXPECT_GT(other.sent.size(), 2u);
}

TEST(TuningRecords, AMoreThoroughSearchGoesOn) {
  Memory memory;
  memory.tuning_records = search(model(3, 16), 8).tuning_records;
  Ended more = search(model(6, 16), 200, &memory);
  EXPECT_GT(more.sent.size(), 100u);
  // What the second one found counts with what the first one had.
  memory.tuning_records = more.tuning_records;
  EXPECT_EQ(search(model(9, 16), 200, &memory).sent.size(), 1u);
}

TEST(TuningRecords, TheSameModelInAnotherWritingIsVerifiedAgainstItself) {
  Graph one = model(3, 16), other = model(3, 16, true);
  ASSERT_NE(common::graph_hash(one), common::graph_hash(other));
  Memory memory;
  Ended first = search(one, 60);
  memory.tuning_records = first.tuning_records;
  Ended second = search(other, 60, &memory);
  ASSERT_TRUE(second.outcome.ok());
  ASSERT_EQ(second.sent.size(), 1u);
  EXPECT_EQ(*second.sent[0].graph, other);
  EXPECT_EQ(second.outcome->plan.calls.size(), first.outcome->plan.calls.size());
  EXPECT_EQ(second.outcome->plan.provenance.best_ns, first.outcome->plan.provenance.best_ns);
  EXPECT_EQ(second.outcome->plan.key.graph_hash, common::graph_hash(other));
  EXPECT_EQ(second.status.known_kernels, second.status.kernels);
}

// A store that lies, or a mistake in a key: the worker's judgement is what counts.
TEST(TuningRecords, WhatTurnsOutWrongIsWithdrawn) {
  auto only_plain = [](const CandidateTask& task) {
    CandidateResult result = measure(task);
    bool is_lowering = task.origin == "lowering" || task.origin == "comparison";
    if (!is_lowering) result.outcome = TaskOutcome::kWrong;
    return result;
  };
  for (bool turned : {false, true}) {
    Memory memory;
    memory.tuning_records = search(model(3, 16), 60).tuning_records;
    Graph next = turned ? model(3, 16, true) : model(6, 16);
    Ended wrong = search(next, 60, &memory, only_plain);
    ASSERT_TRUE(wrong.outcome.ok());
    EXPECT_EQ(wrong.outcome->plan.provenance.best_ns, wrong.outcome->plan.provenance.baseline_ns);
    ASSERT_FALSE(wrong.tuning_records.empty());
    for (const auto& [key, record] : wrong.tuning_records) memory.tuning_records[key] = record;
    EXPECT_GT(search(next, 60, &memory).sent.size(), 2u) << "it was believed again";
  }
}

// Nobody judged it: what was found is not withdrawn, and tried once more.
TEST(TuningRecords, WhatWorkersFailedToTryIsTriedAgain) {
  Memory memory;
  memory.tuning_records = search(model(3, 16), 60).tuning_records;
  auto failing_once = [](const CandidateTask& task) {
    CandidateResult result = measure(task);
    if (task.origin == "plain") result.outcome = TaskOutcome::kInfra;
    return result;
  };
  Ended ended = search(model(6, 16), 60, &memory, failing_once);
  ASSERT_TRUE(ended.outcome.ok());
  ASSERT_EQ(ended.sent[0].origin, "plain");
  EXPECT_EQ(ended.sent.back().origin, "finalist");
  EXPECT_EQ(ended.sent.back().payload.program, ended.sent[0].payload.program);
}

// Times here are drawn by kernels' fingerprints. The batch is one for which the structure that is
// best by these is not predicted to take much more than others: then it would wait (kKinMargin).
TEST(TuningRecords, AnotherBatchBeginsWithWhatWasBest) {
  Memory memory;
  Ended first = search(model(3, 16), 120);
  memory.tuning_records = first.tuning_records;
  Ended other = search(model(3, 16, false, 16), 120, &memory);
  ASSERT_TRUE(other.outcome.ok());
  EXPECT_EQ(other.status.known_regions, 0);
  EXPECT_GT(other.sent.size(), 4u);
  EXPECT_LT(other.sent.size(), 60u) << "what was searched at another size was searched again";
  common::SteadyClock clock;
  Cut cut = cut_into_regions(
      common::roll(assign_layouts(model(3, 16, false, 16), common::Machine::kCpu)));
  std::vector<common::Program> best, usual;
  for (const Region& region : cut.regions) {
    RegionSpace space(region.graph, clock);
    auto kept = first.tuning_records.find(kin_key(space, {"cpu-test"}, "strict"));
    ASSERT_NE(kept, first.tuning_records.end());
    best.push_back(space.decode(kept->second.genome).program);
    usual.push_back(space.decode({}).program);
  }
  auto whole = [&](const std::vector<common::Program>& programs) {
    std::vector<const common::Program*> parts;
    for (const common::Program& program : programs) parts.push_back(&program);
    return assemble(cut, parts);
  };
  EXPECT_EQ(other.sent[0].payload.program, whole(best));
  EXPECT_NE(other.sent[0].payload.program, whole(usual));
}

TEST(TuningRecords, KinDifferInSizesAlone) {
  common::SteadyClock clock;
  common::Target target{"cpu-test"};
  auto key = [&](const Graph& graph) {
    RegionSpace space(graph, clock);
    return kin_key(space, target, "strict");
  };
  common::Digest one = key(model(2, 16));
  EXPECT_EQ(key(model(2, 16, false, 12)), one);
  EXPECT_EQ(key(model(2, 24)), one);
  EXPECT_NE(key(model(3, 16)), one);
  EXPECT_NE(key(model(2, 16, true)), one);
  RegionSpace space(model(2, 16), clock);
  EXPECT_NE(kin_key(space, {"cpu-other"}, "strict"), one);
  EXPECT_NE(kin_key(space, target, "relaxed"), one);
}

TEST(TuningRecords, OtherShapesTargetsAndPoliciesHaveOtherKeys) {
  Graph graph = model(2, 16);
  common::Target target{"cpu-test"}, other{"cpu-other"};
  common::Digest key = region_key(graph, target, "strict");
  EXPECT_EQ(region_key(model(2, 16), target, "strict"), key);
  EXPECT_NE(region_key(model(2, 24), target, "strict"), key);
  EXPECT_NE(region_key(graph, other, "strict"), key);
  EXPECT_NE(region_key(graph, target, "relaxed"), key);
  EXPECT_NE(whole_key(graph, target, "strict"), key);
}

TEST(TuningRecords, AProgramOfOtherTypesFitsNothing) {
  Ended first = search(model(3, 16), 20);
  Graph graph = model(3, 16);
  TuningRecord whole = first.tuning_records.at(whole_key(graph, {"cpu-test"}, "strict"));
  EXPECT_TRUE(fits(whole, graph));
  EXPECT_FALSE(fits(whole, model(3, 24)));
  EXPECT_FALSE(fits(whole, model(4, 16)));
  TuningRecord wrong = whole;
  wrong.ns = kWithdrawn;
  EXPECT_FALSE(fits(wrong, graph));
  wrong = whole;
  wrong.program.calls[0].inputs[0] = 1'000'000;
  EXPECT_FALSE(fits(wrong, graph));
}

}  // namespace
}  // namespace coordinator
