#include "worker/agent/pipeline/local_pipeline.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/ir/llir/load_time.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "common/wire/ir_codec.h"
#include "worker/agent/pipeline/run_limits.h"
#include "worker/codegen/remembering_generator.h"

namespace worker {
using common::cat;
using common::Code;
using common::TaskLease;
using common::TaskOutcome;

namespace {

JobResult ended(const TaskLease& lease, TaskOutcome outcome, std::string message) {
  JobResult result;
  result.message.lease = lease;
  result.message.outcome = outcome;
  result.message.message = std::move(message);
  return result;
}

// Whether the candidate or this machine is to blame for a plan that could not be built.
TaskOutcome build_outcome(Code code) {
  bool candidate =
      code == Code::kInvalidInput || code == Code::kUnsupported || code == Code::kTimedOut;
  return candidate ? TaskOutcome::kCompileError : TaskOutcome::kInfra;
}

// Mean over a kernel's calls; 0 when none of its calls is in every run.
std::vector<uint64_t> kernel_times(const common::Plan& plan, const std::vector<uint64_t>& call_ns) {
  if (call_ns.size() != plan.calls.size() || call_ns.empty()) return {};
  std::vector<uint64_t> total(plan.kernels.size(), 0), calls(plan.kernels.size(), 0);
  std::vector<char> at_load = common::load_time_calls(plan);
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    if (at_load[c]) continue;
    auto kernel = static_cast<size_t>(plan.calls[c].kernel);
    total[kernel] += call_ns[c];
    ++calls[kernel];
  }
  for (size_t k = 0; k < total.size(); ++k) total[k] /= std::max<uint64_t>(1, calls[k]);
  return total;
}

// What is known before anything ran.
common::TaskReport report_of(const BuiltPlan& built) {
  common::TaskReport report;
  report.kernels = built.plan.kernels;
  report.objects = built.plan.objects;
  report.compile_ms = built.compile_ms;
  for (const KernelBuild& kernel : built.kernels) report.kernels_compiled += !kernel.cached;
  return report;
}

common::TaskReport report_of(const BuiltPlan& built, const ProfileReply& reply) {
  common::TaskReport report = report_of(built);
  report.kernel_ns = kernel_times(built.plan, reply.measured.call_ns);
  report.total_ns = reply.measured.total_ns;
  report.spread_ns = reply.measured.spread_ns;
  report.runs = reply.measured.runs;
  report.max_error = reply.max_error;
  report.rivals = reply.rivals;
  report.disturbed = reply.measured.disturbed;
  report.pace = reply.pace;
  report.detail = cat("verified in ", static_cast<int64_t>(reply.verify_ms), " ms, measured in ",
                      static_cast<int64_t>(reply.measure_ms), " ms; weights prepared in ",
                      reply.prepare_ms, " ms");
  return report;
}

// The result of a plan that was built and, unless only that was asked for, right.
JobResult reported(const TaskLease& lease, BuiltPlan& built, const common::TaskReport& report) {
  JobResult result = ended(lease, TaskOutcome::kOk, "");
  result.message.report = common::encode_task_report(report);
  if (result.message.report.size() > common::kPayloadBytesMax) {
    return ended(lease, TaskOutcome::kInfra, "the report is too large to be sent");
  }
  result.message.blobs = built.plan.objects;
  result.blobs = std::move(built.objects);
  return result;
}

}  // namespace

LocalPipeline::LocalPipeline(PipelineOptions options,
                             std::unique_ptr<const CodeGenerator> generator,
                             std::shared_ptr<const Compiler> compiler, std::string cache_directory,
                             KernelCacheKey cache_key)
    : options_(std::move(options)),
      generator_(std::make_unique<RememberingGenerator>(std::move(generator))),
      compiler_(std::move(compiler)),
      cache_(std::move(cache_directory), kKernelCacheBytes, cache_key) {
  if (!options_.shared_lock.empty()) {
    pauses_ = std::make_unique<MeasurementPauses>(compiler_, verifying_, options_.shared_lock);
  }
  compile_thread_ = std::thread([this] { compile_loop(); });
  run_thread_ = std::thread([this] { run_loop(); });
}

LocalPipeline::~LocalPipeline() {
  jobs_.stop();
  compile_thread_.join();
  run_thread_.join();
}

int64_t LocalPipeline::left_ms(int64_t deadline_ns) const {
  return std::clamp<int64_t>((deadline_ns - clock_.now_ns()) / 1'000'000, 0, 86'400'000);
}

void LocalPipeline::compile_loop() {
  while (std::optional<WaitingJob> waiting = jobs_.next_to_compile()) {
    if (pauses_ != nullptr) pauses_->begin();
    std::unique_ptr<CompiledJob> compiled = compile(*std::move(waiting));
    if (pauses_ != nullptr) pauses_->end();
    if (compiled != nullptr) jobs_.add_compiled(std::move(compiled));
  }
}

std::unique_ptr<CompiledJob> LocalPipeline::compile(WaitingJob waiting) {
  Job& job = waiting.job;
  int64_t start_ns = clock_.now_ns();
  TaskSpans spans(job.received_ns);
  spans.add("fetch", job.received_ns, waiting.since_ns);
  spans.add("wait", waiting.since_ns, start_ns);
  auto deliver = [&](JobResult result) {
    int64_t now_ns = clock_.now_ns();
    result.message.busy_ms = static_cast<double>(now_ns - start_ns) * 1e-6;
    spans.add("compile", start_ns, now_ns);
    result.message.spans = spans.take();
    jobs_.deliver(std::move(result));
    return nullptr;
  };
  auto refuse = [&](TaskOutcome outcome, std::string message) {
    return deliver(ended(job.lease, outcome, std::move(message)));
  };
  auto payload = common::decode_task_payload(job.payload);
  if (!payload.ok()) return refuse(TaskOutcome::kInfra, payload.error().message);
  auto compiled = std::make_unique<CompiledJob>();
  compiled->lease = job.lease;
  compiled->deadline_ns = job.deadline_ns;
  compiled->payload = std::move(payload).value();
  // Those that a coordinator of an earlier version left out.
  common::NestMachine machine(common::machine_of(options_.target), options_.target.name,
                              options_.machine_class);
  common::add_nests(compiled->payload.program, machine);
  for (common::Program& rival : compiled->payload.rivals) common::add_nests(rival, machine);
  compiled->graph = job.blobs[compiled->payload.graph];
  if (!compiled->graph && !job.is_only_build) {
    return refuse(TaskOutcome::kInfra, "the task does not name its graph among its blobs");
  }
  int timeout_ms = compile_limit_ms(left_ms(job.deadline_ns));
  auto build = [&](const common::Program& program) -> common::Result<BuiltPlan> {
    auto built = build_plan(program, *generator_, *compiler_, cache_, timeout_ms,
                            job.is_reproducible ? Grouping::kByOrder : Grouping::kAny);
    if (built.ok()) built->plan.key.target = options_.target;
    return built;
  };
  auto built = build(compiled->payload.program);
  if (!built.ok()) return refuse(build_outcome(built.error().code), built.error().message);
  if (job.is_only_build) return deliver(reported(job.lease, *built, report_of(*built)));
  compiled->built = std::move(built).value();
  for (const common::Program& rival : compiled->payload.rivals) {
    built = build(rival);
    if (!built.ok()) return refuse(build_outcome(built.error().code), built.error().message);
    compiled->rivals.push_back(std::move(built).value());
  }
  compiled->since_ns = clock_.now_ns();
  compiled->compile_ns = compiled->since_ns - start_ns;
  spans.add("compile", start_ns, compiled->since_ns);
  compiled->spans = std::move(spans);
  return compiled;
}

void LocalPipeline::run_loop() {
  ExecutorClient executor(options_.executor_command, options_.sandbox, verifying_);
  common::Status started = executor.warm_up();
  if (!started.ok()) common::log_error(started.error().message);
  while (std::unique_ptr<CompiledJob> job = jobs_.next_to_run(executor)) {
    int64_t start_ns = clock_.now_ns();
    ProfileReply reply;
    if (pauses_ != nullptr) pauses_->begin();
    JobResult result = run(executor, *job, &reply);
    if (pauses_ != nullptr) pauses_->end();
    int64_t end_ns = clock_.now_ns();
    int64_t busy_ns = job->compile_ns + end_ns - start_ns;
    result.message.busy_ms = static_cast<double>(busy_ns) * 1e-6;
    job->spans.add("wait", job->since_ns, start_ns);
    job->spans.add_run(start_ns, end_ns, reply.verify_ms, reply.measure_ms);
    result.message.spans = job->spans.take();
    jobs_.deliver(std::move(result));
  }
}

JobResult LocalPipeline::run(ExecutorClient& executor, CompiledJob& job, ProfileReply* replied) {
  ProfileRequest request;
  request.graph = job.payload.graph;
  request.plan = job.built.plan;
  request.verify = job.payload.verify;
  request.measure = job.payload.measure;
  uint32_t wanted = request.measure.threads;
  request.measure.threads = wanted == 0 ? options_.threads : std::min(wanted, options_.threads);
  std::set<common::Digest> sent;
  auto add_objects = [&](BuiltPlan& built) {
    for (const common::Digest& digest : built.plan.objects) {
      const auto& bytes = built.objects[digest];
      if (bytes == nullptr) return false;
      if (sent.insert(digest).second) request.objects.push_back({digest, *bytes});
    }
    return true;
  };
  bool is_complete = add_objects(job.built);
  for (BuiltPlan& rival : job.rivals) {
    is_complete = is_complete && add_objects(rival);
    request.rivals.push_back(rival.plan);
  }
  if (!is_complete) {
    return ended(job.lease, TaskOutcome::kInfra, "a compiled object left the cache too early");
  }
  *replied =
      executor.run(request, job.graph.bytes, run_limits(job.payload, left_ms(job.deadline_ns)));
  const ProfileReply& reply = *replied;
  if (reply.outcome == TaskOutcome::kInfra) {
    common::log_warning(cat("a run failed that is not its candidate's fault: ", reply.message),
                        {{"worker", options_.worker}, {"task", job.lease.task_id}});
  }
  if (reply.outcome != TaskOutcome::kOk) return ended(job.lease, reply.outcome, reply.message);

  return reported(job.lease, job.built, report_of(job.built, reply));
}

}  // namespace worker
