#include "tests/farm/service/service_script.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::TaskKind;
using common::TaskOutcome;

common::Graph scripted_graph(int64_t size) {
  common::GraphBuilder builder;
  common::NodeId x = builder.input(common::InputKind::kUser, common::DType::kFloat32, {size}, "x");
  builder.output(builder.binary(common::BinaryOp::kAdd, x, x));
  return builder.finish();
}

namespace {

// One kernel; `variant` chooses its schedule.
common::Program one_kernel(const common::Graph& graph, uint64_t variant) {
  common::Program program;
  program.inputs = graph.inputs;
  program.outputs = graph.outputs;
  for (common::GraphOutput& output : program.outputs) output.node = -1;
  common::Kernel kernel;
  kernel.form = common::Template::kLoops;
  kernel.body = common::canonical(graph);
  const common::ScheduleChoice& choice = common::schedule_parameters(kernel.form).front();
  kernel.schedule = {{std::string(choice.name), choice.values[variant % choice.values.size()]}};
  program.kernels = {std::move(kernel)};
  program.buffers = {
      {common::BufferKind::kInput, 0, common::DType::kFloat32, graph.inputs[0].shape},
      {common::BufferKind::kOutput, 0, common::DType::kFloat32, graph.inputs[0].shape}};
  program.calls = {{0, {0}, {1}, {}}};
  return program;
}

class Script final : public JobSearch {
 public:
  Script(const common::Graph& graph, const SearchOptions& options,
         const MeasurementSource* measurements, std::shared_ptr<ScriptCounters> counters)
      : graph_(std::make_shared<const common::Graph>(graph)),
        options_(options),
        counters_(std::move(counters)),
        budget_(static_cast<uint64_t>(std::max<int64_t>(1, options.budget))) {
    common::Digest first = common::kernel_fingerprint(one_kernel(graph, 0).kernels[0]);
    if (measurements->kernel_ns(first)) reused_ = 1;
    if (options.incumbent) ++counters_->incumbents;
  }

  std::vector<CandidateTask> propose(int max) override {
    std::vector<CandidateTask> tasks;
    while (static_cast<int>(tasks.size()) < max && sent_ < budget_) {
      bool is_last = sent_ + 1 == budget_;
      if (is_last && completed_ < sent_) break;  // the finalist knows all results
      CandidateTask task;
      task.id = sent_++;
      task.fingerprint = common::digest_of(common::cat("candidate ", task.id));
      task.graph = graph_;
      task.payload.kind = is_last        ? TaskKind::kFinalist
                          : task.id == 0 ? TaskKind::kBaseline
                                         : TaskKind::kCandidate;
      task.payload.program = program(task.id);
      if (is_last) finalist_ = task.payload.program;
      tasks.push_back(std::move(task));
    }
    return tasks;
  }

  void on_result(uint64_t id, const CandidateResult& result) override {
    ++completed_;
    if (id == 0) baseline_ns_ = static_cast<int64_t>(result.report.total_ns);
    if (id == 0) baseline_ = result;
    if (id + 1 == budget_) last_ = result;
    if (last_ || !counters_->hands_out || result.outcome != TaskOutcome::kOk) return;
    if (handed_out_ns_ != 0 && result.report.total_ns >= handed_out_ns_) return;
    handed_out_ns_ = result.report.total_ns;
    interim_.push_back(outcome_of(program(id), result, id));
  }
  std::vector<SearchOutcome> take_interim() override { return std::exchange(interim_, {}); }
  bool done() const override { return last_.has_value(); }
  void finish_now() override {
    ++counters_->finished_early;
    budget_ = std::min(budget_, sent_ + 1);
  }
  SearchStatus status() const override {
    SearchStatus status;
    status.stage = done() ? "done" : sent_ == budget_ ? "finalists" : "search";
    status.candidates = static_cast<int64_t>(sent_);
    status.completed = static_cast<int64_t>(completed_);
    status.budget = static_cast<int64_t>(budget_);
    status.baseline_ns = baseline_ns_;
    if (counters_->keeps_baseline) status.best_ns = baseline_ns_;
    status.reused = reused_;
    return status;
  }
  EffectTable learned() const override { return {}; }
  std::map<common::Digest, TuningRecord> tuning_records() const override { return {}; }
  common::Program best_program() const override { return one_kernel(*graph_, 0); }
  const std::vector<StageTime>& preparation() const override { return preparation_; }
  common::Result<SearchOutcome> outcome() const override {
    if (last_->outcome == TaskOutcome::kInfra && counters_->keeps_baseline) {
      return outcome_of(one_kernel(*graph_, 0), baseline_, 0);
    }
    if (last_->outcome != TaskOutcome::kOk) {
      return common::Error{common::Code::kVerification, "the scripted finalist is not right"};
    }
    return outcome_of(finalist_, *last_, budget_ - 1);
  }

 private:
  SearchOutcome outcome_of(const common::Program& from, const CandidateResult& result,
                           uint64_t id) const {
    SearchOutcome outcome;
    outcome.worker = result.worker;
    outcome.candidate = id;
    common::Plan& plan = outcome.plan;
    plan.key = {common::graph_hash(*graph_), options_.target, options_.policy,
                std::string(common::kCompilerEpoch)};
    plan.inputs = from.inputs;
    for (common::GraphInput& input : plan.inputs) input.name.clear();
    plan.outputs = from.outputs;
    plan.buffers = from.buffers;
    plan.calls = from.calls;
    plan.kernels = result.report.kernels;
    plan.objects = result.report.objects;
    plan.provenance.best_ns = static_cast<int64_t>(result.report.total_ns);
    plan.provenance.baseline_ns = baseline_ns_;
    plan.provenance.search.candidates = static_cast<int64_t>(sent_);
    plan.provenance.search.seed = options_.seed;
    plan.provenance.worker = result.worker;
    plan.provenance.toolchain = result.report.toolchain;
    return outcome;
  }
  // Few differ: their number is that of the schedules.
  const common::Program& program(uint64_t id) {
    const auto& choices = common::schedule_parameters(common::Template::kLoops).front().values;
    if (programs_.size() <= id && programs_.size() < choices.size()) {
      programs_.push_back(one_kernel(*graph_, programs_.size()));
    }
    return programs_[id % programs_.size()];
  }

  std::vector<common::Program> programs_;
  std::shared_ptr<const common::Graph> graph_;
  SearchOptions options_;
  std::shared_ptr<ScriptCounters> counters_;
  uint64_t budget_;
  uint64_t sent_ = 0;
  uint64_t completed_ = 0;
  int64_t reused_ = 0;
  int64_t baseline_ns_ = 0;
  CandidateResult baseline_;
  common::Program finalist_;
  std::optional<CandidateResult> last_;
  uint64_t handed_out_ns_ = 0;
  std::vector<SearchOutcome> interim_;
  std::vector<StageTime> preparation_{{"roll", 0.5}};
};

}  // namespace

SearchFactory scripted_searches(std::shared_ptr<ScriptCounters> counters) {
  return [counters](
             const common::Graph& graph, const SearchOptions& options,
             const MeasurementSource* measurements) -> common::Result<std::unique_ptr<JobSearch>> {
    ++counters->searches;
    return std::unique_ptr<JobSearch>(
        std::make_unique<Script>(graph, options, measurements, counters));
  };
}

ScriptedReport scripted_report(common::ByteView payload, std::string_view salt, bool one_object) {
  auto task = common::decode_task_payload(payload);
  if (!task.ok()) throw std::runtime_error(task.error().message);
  ScriptedReport made{task->kind, {}, {}};
  common::TaskReport& report = made.report;
  for (const common::Kernel& kernel : task->program.kernels) {
    common::Digest fingerprint = common::kernel_fingerprint(kernel);
    std::string text = common::cat(salt, one_object ? "all kernels" : fingerprint.hex());
    common::SharedBytes object = common::share(common::to_bytes(common::as_bytes(text)));
    common::PlanKernel entry;
    entry.fingerprint = fingerprint;
    entry.object = static_cast<int>(report.objects.size());
    entry.entry.name = "lf_" + fingerprint.hex().substr(0, 16);
    report.kernels.push_back(std::move(entry));
    report.objects.push_back(common::digest_of(object.bytes));
    made.objects[report.objects.back()] = object;
    report.kernel_ns.push_back(1000 + fingerprint.prefix64() % 1000);
  }
  for (const common::Call& call : task->program.calls) {
    report.total_ns += report.kernel_ns[static_cast<size_t>(call.kernel)];
  }
  report.runs = 5;
  return made;
}

}  // namespace coordinator::service
