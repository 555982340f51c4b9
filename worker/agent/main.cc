// lfarm-worker: takes tasks from a coordinator, compiles them, and has its executor child verify
// and measure them.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "common/base/log.h"
#include "common/runtime/cpu_device.h"
#include "worker/agent/agent.h"
#include "worker/agent/options.h"
#include "worker/agent/pipeline.h"
#include "worker/agent/print_source.h"
#include "worker/codegen/cpu_c.h"
#include "worker/compile/target.h"
#include "worker/profile/executor_child.h"

namespace worker {
namespace {

constexpr std::string_view kExecutorFlag = "--executor";

int fail(const common::Error& error, int exit_code) {
  std::cerr << "lfarm-worker: " << error.message << "\n";
  return exit_code;
}

// The device that --device names; this build drives CPUs only.
common::Result<common::Target> find_device(const WorkerOptions& options) {
  if (options.device == "cuda") {
    return common::invalid_input(
        "--device cuda: no CUDA device can be used here; take --device cpu");
  }
  return common::host_cpu_target();
}

// SIGTERM and SIGINT as a descriptor. To be called before any thread starts, which inherits the
// mask.
int termination_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

common::Status serve(const WorkerOptions& options, const common::Target& target,
                     const Compiler& compiler, int stop_fd) {
  PipelineOptions pipeline_options;
  pipeline_options.target = target;
  pipeline_options.threads = options.threads;
  pipeline_options.executor_command = {"/proc/self/exe", std::string(kExecutorFlag)};
  // Never destroyed: a compiler that still runs would delay the end of the process, and dies with
  // it.
  auto* pipeline = new LocalPipeline(std::move(pipeline_options),
                                     std::make_unique<CpuCodeGenerator>(vector_bytes(target)),
                                     compiler, options.state + "/kernels");
  common::WireContext context;
  LFARM_ASSIGN_OR_RETURN(
      auto socket, common::DealerSocket::connect(context, {options.farm, options.keys, nullptr}));
  common::SteadyClock clock;
  AgentOptions agent_options;
  agent_options.worker_id = options.name;
  agent_options.target = target.name;
  agent_options.slots = options.slots;
  Agent agent(std::move(socket), *pipeline, std::move(agent_options), clock);
  return agent.run(stop_fd);
}

int run(int argc, char** argv) {
  if (argc > 1 && argv[1] == kExecutorFlag) return run_executor_child(STDIN_FILENO);
  if (argc == 2 && std::string_view(argv[1]) == "print-source") return run_print_source();
  auto parsed = parse_options(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<WorkerOptions>(parsed);
  common::log_init("lfarm-worker", common::LogLevel::kInfo);
  int stop_fd = termination_signals();

  // After this line the device and the toolchain are known.
  auto target = find_device(options);
  if (!target.ok()) return fail(target.error(), 2);
  auto compiler = Compiler::find(*target);
  if (!compiler.ok()) return fail(compiler.error(), 1);

  // Returns when the worker has drained.
  common::Status served = serve(options, *target, *compiler, stop_fd);
  if (served.ok()) return 0;
  return fail(served.error(), served.error().code == common::Code::kInvalidInput ? 2 : 1);
}

}  // namespace
}  // namespace worker

int main(int argc, char** argv) {
  int code = worker::run(argc, argv);
  std::cerr.flush();
  std::_Exit(code);  // threads of the pipeline may still run
}
