// The worker's pipeline from an encoded task to an encoded report, with a real compiler and a real
// executor child. This binary is that child.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "worker/agent/pipeline/local_pipeline.h"
#include "worker/backend/backend.h"
#include "worker/profile/executor_child.h"

namespace worker {
namespace {

using common::DType;
using common::Expr;
using common::InputKind;
using common::NodeId;
using common::TaskLease;
using common::TaskOutcome;

constexpr int64_t kRows = 8, kColumns = 16;

// cache' = cache with row `position` replaced by x; out = exp(cache') * w.
common::Graph model() {
  common::GraphBuilder g;
  auto cache = g.input(InputKind::kState, DType::kFloat32, {kRows, kColumns}, "cache");
  auto position = g.input(InputKind::kUser, DType::kInt64, {1}, "position");
  auto x = g.input(InputKind::kUser, DType::kFloat32, {1, kColumns}, "x");
  auto w = g.input(InputKind::kWeight, DType::kFloat32, {kColumns}, "w");
  auto index = g.expand(g.reshape(position, {1, 1}), {1, kColumns});
  auto fresh =
      g.scatter(common::ScatterMode::kAssign, cache, x, {index}, {{0, {}}, {-1, Expr::index(1)}});
  g.mutate(0, fresh);
  auto e = g.unary(common::UnaryOp::kExp, fresh);
  g.output(g.binary(common::BinaryOp::kMul, e, g.expand(w, {kRows, kColumns})));
  return g.finish();
}

common::Kernel scatter_kernel() {
  common::GraphBuilder g;
  auto cache = g.input(InputKind::kUser, DType::kFloat32, {kRows, kColumns}, "");
  auto position = g.input(InputKind::kUser, DType::kInt64, {1}, "");
  auto x = g.input(InputKind::kUser, DType::kFloat32, {1, kColumns}, "");
  auto index = g.expand(g.reshape(position, {1, 1}), {1, kColumns});
  g.output(
      g.scatter(common::ScatterMode::kAssign, cache, x, {index}, {{0, {}}, {-1, Expr::index(1)}}));
  return {common::Template::kScatter, {}, common::canonical(g.finish())};
}

common::Kernel pointwise_kernel(common::UnaryOp op) {
  common::GraphBuilder g;
  auto cache = g.input(InputKind::kUser, DType::kFloat32, {kRows, kColumns}, "");
  auto w = g.input(InputKind::kUser, DType::kFloat32, {kColumns}, "");
  g.output(g.binary(common::BinaryOp::kMul, g.unary(op, cache), g.expand(w, {kRows, kColumns})));
  return {common::Template::kLoops, {}, common::canonical(g.finish())};
}

common::Program program(common::UnaryOp op) {
  common::Graph graph = model();
  common::Program p;
  p.inputs = graph.inputs;
  p.outputs = graph.outputs;
  for (auto& output : p.outputs) output.node = -1;
  using common::BufferKind;
  for (int i = 0; i < 4; ++i) {
    const auto& input = graph.inputs[static_cast<size_t>(i)];
    p.buffers.push_back({BufferKind::kInput, i, input.dtype, input.shape});
  }
  p.buffers.push_back({BufferKind::kOutput, 0, DType::kFloat32, {kRows, kColumns}});
  p.buffers.push_back({BufferKind::kOutput, 1, DType::kFloat32, {kRows, kColumns}});
  p.kernels = {scatter_kernel(), pointwise_kernel(op)};
  p.calls = {{0, {0, 1, 2}, {4}, {}}, {1, {4, 3}, {5}, {}}};
  return p;
}

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() : graph_(common::encode_graph(model())) {
    common::Target target = cpu_backend().find().value();
    auto compiler = cpu_backend().find_compiler(
        target, common::Sandbox::find(common::SandboxProfile::kCompiling));
    EXPECT_TRUE(compiler.ok()) << compiler.error().message;
    PipelineOptions options;
    options.target = target;
    options.executor_command = {"/proc/self/exe", "--executor"};
    options.sandbox = common::Sandbox::find(common::SandboxProfile::kComputing);
    pipeline_ = std::make_unique<LocalPipeline>(options, cpu_backend().make_generator(target),
                                                *compiler, "");
  }

  TaskLease submit(uint64_t id, const common::Program& program) {
    common::TaskPayload payload;
    payload.graph = common::digest_of(graph_);
    payload.program = program;
    payload.measure.repetitions = 3;
    payload.measure.time_max_ms = 50;
    return submit_bytes(id, common::encode_task_payload(payload));
  }
  TaskLease submit_bytes(uint64_t id, common::Bytes payload) {
    Job job;
    job.lease = {id, 1};
    job.payload = std::move(payload);
    job.blobs[common::digest_of(graph_)] = common::share(graph_);
    job.deadline_ns = common::SteadyClock().now_ns() + int64_t{600'000'000'000};
    pipeline_->submit(std::move(job));
    return {id, 1};
  }
  JobResult next() {
    while (results_.empty()) {
      pollfd wanted{pipeline_->results_fd(), POLLIN, 0};
      EXPECT_EQ(::poll(&wanted, 1, 600'000), 1) << "no result";
      if (wanted.revents == 0) return {};
      for (JobResult& result : pipeline_->take_results()) results_.push_back(std::move(result));
    }
    JobResult result = std::move(results_.front());
    results_.erase(results_.begin());
    return result;
  }

  common::Bytes graph_;
  std::unique_ptr<LocalPipeline> pipeline_;
  std::vector<JobResult> results_;
};

TEST_F(PipelineTest, ATaskMayAskForTheObjectsAlone) {
  common::TaskPayload payload;
  payload.graph = common::digest_of(graph_);
  payload.program = program(common::UnaryOp::kExp);
  Job job;
  job.lease = {1, 1};
  job.payload = common::encode_task_payload(payload);
  job.deadline_ns = common::SteadyClock().now_ns() + int64_t{600'000'000'000};
  job.is_reproducible = job.is_only_build = true;  // and no graph comes with it
  pipeline_->submit(std::move(job));
  JobResult result = next();
  ASSERT_EQ(result.message.outcome, TaskOutcome::kOk) << result.message.message;
  auto report = common::decode_build_report(result.message.report);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->kernels.size(), 2u);
  EXPECT_EQ(report->kernels_compiled, 2u);
  EXPECT_EQ(report->runs, 0u);
  for (const common::Digest& digest : report->objects) EXPECT_EQ(result.blobs.count(digest), 1u);
}

TEST_F(PipelineTest, ATaskBecomesAReportWithItsObjects) {
  submit(1, program(common::UnaryOp::kExp));
  JobResult result = next();
  ASSERT_EQ(result.message.outcome, TaskOutcome::kOk) << result.message.message;
  auto report = common::decode_task_report(result.message.report);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->kernels.size(), 2u);
  EXPECT_EQ(report->kernels[0].in_place_inputs, std::vector<int>{0})
      << "the cache is copied at every step";
  EXPECT_TRUE(report->kernels[1].in_place_inputs.empty());
  EXPECT_EQ(report->kernels[0].fingerprint, common::kernel_fingerprint(scatter_kernel()));
  EXPECT_EQ(report->kernel_ns.size(), 2u);
  EXPECT_GE(report->runs, 3u);
  EXPECT_EQ(report->kernels_compiled, 2u);
  EXPECT_EQ(report->objects, result.message.blobs);
  for (const common::Digest& digest : report->objects) {
    ASSERT_EQ(result.blobs.count(digest), 1u);
    EXPECT_EQ(common::digest_of(*result.blobs[digest]), digest);
  }
  submit(2, program(common::UnaryOp::kExp));
  auto again = common::decode_task_report(next().message.report);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->kernels_compiled, 0u) << "compiled twice";
}

TEST_F(PipelineTest, AWrongProgramIsWrong) {
  submit(1, program(common::UnaryOp::kSin));
  JobResult result = next();
  EXPECT_EQ(result.message.outcome, TaskOutcome::kWrong);
  EXPECT_NE(result.message.message.find("output 1"), std::string::npos) << result.message.message;
}

TEST_F(PipelineTest, KernelsWithoutCodeAreCompileErrors) {
  common::Program p = program(common::UnaryOp::kExp);
  p.kernels[1].form = common::Template::kSort;
  submit(1, p);
  JobResult result = next();
  EXPECT_EQ(result.message.outcome, TaskOutcome::kCompileError) << result.message.message;
  EXPECT_FALSE(result.message.message.empty());
}

TEST_F(PipelineTest, NonsenseIsInfra) {
  submit_bytes(1, common::to_bytes(common::as_bytes("no payload")));
  EXPECT_EQ(next().message.outcome, TaskOutcome::kInfra);
  graph_.clear();
  submit(2, program(common::UnaryOp::kExp));
  EXPECT_EQ(next().message.outcome, TaskOutcome::kInfra);
}

TEST_F(PipelineTest, CancelledTasksGiveNoResult) {
  std::vector<TaskLease> leases;
  for (uint64_t id = 1; id <= 6; ++id) {
    leases.push_back(submit(id, program(common::UnaryOp::kExp)));
  }
  for (size_t k = 0; k + 1 < leases.size(); ++k) pipeline_->cancel(leases[k]);
  EXPECT_EQ(next().message.lease, leases.back());
  EXPECT_TRUE(pipeline_->take_results().empty());
}

TEST_F(PipelineTest, WaitingTasksCanBeTakenBack) {
  std::set<TaskLease> leases;
  for (uint64_t id = 1; id <= 6; ++id) leases.insert(submit(id, program(common::UnaryOp::kExp)));
  std::vector<TaskLease> back = pipeline_->cancel_waiting();
  for (const TaskLease& lease : back) EXPECT_EQ(leases.erase(lease), 1u);
  while (!leases.empty()) {  // what was running or done is answered
    EXPECT_EQ(leases.erase(next().message.lease), 1u);
  }
}

}  // namespace
}  // namespace worker

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--executor") == 0) {
    worker::ExecutorDevice device{"cpu",
                                  [](int threads) { return worker::cpu_backend().open(threads); }};
    return worker::run_executor_child(STDIN_FILENO, device);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
