#include "tests/bench/search/cpu_device.h"

#include <poll.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/ir_codec.h"
#include "worker/agent/pipeline/local_pipeline.h"
#include "worker/backend/backend.h"
#include "worker/profile/executor_child.h"

namespace bench {
namespace {

constexpr std::string_view kExecutorFlag = "--executor";
constexpr int64_t kDeadlineNs = 120'000'000'000;

class LocalDevice final : public CpuDevice {
 public:
  LocalDevice(common::Target target, std::shared_ptr<const worker::Compiler> compiler)
      : target_(std::move(target)) {
    worker::PipelineOptions options;
    options.target = target_;
    options.executor_command = {"/proc/self/exe", std::string(kExecutorFlag)};
    pipeline_ = std::make_unique<worker::LocalPipeline>(
        options, worker::cpu_backend().make_generator(target_), std::move(compiler), "");
  }

  const common::Target& target() const override { return target_; }

  coordinator::CandidateResult measure(const coordinator::CandidateTask& task) override {
    common::Bytes graph = common::encode_graph(*task.graph);
    common::TaskPayload payload = task.payload;
    payload.graph = common::digest_of(graph);
    worker::Job job;
    job.lease = {++leases_, 1};
    job.blobs[payload.graph] = common::share(std::move(graph));
    job.payload = common::encode_task_payload(payload);
    job.deadline_ns = common::SteadyClock().now_ns() + kDeadlineNs;
    pipeline_->submit(std::move(job));
    coordinator::CandidateResult result;
    result.worker = "this machine";
    std::vector<worker::JobResult> results;
    while (results.empty()) {
      pollfd wanted{pipeline_->results_fd(), POLLIN, 0};
      ::poll(&wanted, 1, -1);
      results = pipeline_->take_results();
    }
    result.outcome = results[0].message.outcome;
    result.message = results[0].message.message;
    if (result.outcome != common::TaskOutcome::kOk) return result;
    auto report = common::decode_task_report(results[0].message.report);
    if (report.ok()) {
      result.report = std::move(*report);
    } else {
      result.outcome = common::TaskOutcome::kInfra;
      result.message = report.error().message;
    }
    return result;
  }

 private:
  common::Target target_;
  std::unique_ptr<worker::LocalPipeline> pipeline_;
  uint64_t leases_ = 0;
};

}  // namespace

common::Result<std::unique_ptr<CpuDevice>> CpuDevice::open() {
  LFARM_ASSIGN_OR_RETURN(common::Target target, worker::cpu_backend().find());
  LFARM_ASSIGN_OR_RETURN(auto compiler,
                         worker::cpu_backend().find_compiler(
                             target, common::Sandbox::find(common::SandboxProfile::kCompiling)));
  return std::unique_ptr<CpuDevice>(
      std::make_unique<LocalDevice>(std::move(target), std::move(compiler)));
}

bool is_executor_child(int argc, char** argv) { return argc > 1 && argv[1] == kExecutorFlag; }

int serve_as_executor_child() {
  const worker::Backend& backend = worker::cpu_backend();
  return worker::run_executor_child(STDIN_FILENO, {std::string(backend.name()), [&](int threads) {
                                                     return backend.open(threads);
                                                   }});
}

}  // namespace bench
