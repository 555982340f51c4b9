#include "worker/agent/run_worker.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/process/own_directory.h"
#include "common/process/processors.h"
#include "common/process/signal_descriptor.h"
#include "common/runtime/machine_class.h"
#include "worker/agent/agents.h"
#include "worker/agent/executor_sandbox.h"
#include "worker/agent/observe/deletion_cost.h"
#include "worker/agent/observe/worker_web.h"
#include "worker/agent/options.h"
#include "worker/agent/pipeline/local_pipeline.h"
#include "worker/agent/print_source.h"
#include "worker/agent/take_key.h"
#include "worker/compile/nvrtc_child.h"
#include "worker/profile/device_lock.h"
#include "worker/profile/executor_child.h"

namespace worker {
using common::cat;

namespace {

constexpr std::string_view kExecutorFlag = "--executor";
constexpr std::string_view kDebugFlag = "--debug-sequential";
constexpr std::string_view kOpenFlag = "--open";
// Drivers that start for the first time load firmware.
constexpr int kOpenMs = 120'000;

int fail(const common::Error& error, int exit_code) {
  std::cerr << "lfarm-worker: " << error.message << "\n";
  return exit_code;
}

struct FoundDevice {
  const Backend* backend = nullptr;
  common::Target target;
};

// The device that --device names; "auto": the first that is there.
common::Result<FoundDevice> find_device(const WorkerOptions& options, Backends backends) {
  std::string missing;
  for (const Backend* backend : backends) {
    if (options.device != "auto" && options.device != backend->name()) continue;
    if (options.gpu) LFARM_RETURN_IF_ERROR(backend->choose(*options.gpu));
    auto target = backend->find();
    if (target.ok()) return FoundDevice{backend, *std::move(target)};
    missing += cat(missing.empty() ? "" : "; ", backend->name(), ": ", target.error().message);
  }
  return common::unavailable(cat("no device to work on: ", missing));
}

const Backend* named(std::string_view name, Backends backends) {
  auto found = std::find_if(backends.begin(), backends.end(),
                            [&](const Backend* backend) { return backend->name() == name; });
  return found == backends.end() ? nullptr : *found;
}

int serve_executor(std::string_view name, bool debug_sequential, Backends backends) {
  const Backend* backend = named(name, backends);
  if (backend == nullptr) return 2;
  ExecutorDevice device{std::string(name), [&](int threads) { return backend->open(threads); },
                        backend->has_driver(), debug_sequential};
  return run_executor_child(STDIN_FILENO, device);
}

int try_to_open(std::string_view name, Backends backends) {
  const Backend* backend = named(name, backends);
  if (backend == nullptr) return 2;
  auto device = backend->open(1);
  return device.ok() ? 0 : fail(device.error(), 1);
}

bool opens_device(const Backend& backend, const common::Sandbox* sandbox) {
  auto temporary = common::ScratchDirectory::create("lfarm-open");
  if (!temporary.ok()) return false;
  common::SpawnOptions options;
  options.arguments = {"/proc/self/exe", std::string(kOpenFlag), std::string(backend.name())};
  auto output = common::run_confined(std::move(options), sandbox, temporary->path(), kOpenMs);
  return output.ok() && !output->timed_out && output->status.code == 0 &&
         output->status.signal == 0;
}

// All that machine code and its times depend on beside the machine, fit to be a name on the wire: a
// plan is verified and measured again when it changes. The identity tells options apart that the
// version does not.
std::string toolchain_of(const Compiler& compiler, const Backend& backend) {
  std::string text =
      cat(compiler.description(), " #", compiler.identity().short_hex(), ", ", backend.libraries());
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > common::kNameBytesMax) text.resize(common::kNameBytesMax);
  return text;
}

common::Status serve(const WorkerOptions& options, const FoundDevice& device,
                     std::shared_ptr<const Compiler> compiler, const common::Sandbox& compilers,
                     int stop_fd) {
  // First, since a mistake in the endpoint ends the process, and from the pipeline on there are
  // threads that start children.
  common::WireContext context;
  LFARM_ASSIGN_OR_RETURN(auto sockets,
                         connect_to_coordinators(context, options.farm, options.keys));
  PipelineOptions pipeline_options;
  pipeline_options.worker = options.name;
  pipeline_options.target = device.target;
  const std::string machine_class =
      common::machine_class_of(device.backend->name(), static_cast<int>(options.threads));
  pipeline_options.machine_class = machine_class;
  pipeline_options.threads = options.threads;
  pipeline_options.executor_command = {"/proc/self/exe", std::string(kExecutorFlag),
                                       std::string(device.backend->name())};
  DeviceLock::prepare(device.backend->name());
  // Where a run leaves most processors free, compilers find room beside it.
  bool is_shared = !device.backend->has_driver() &&
                   2 * options.threads > static_cast<uint32_t>(common::usable_processors());
  if (is_shared) pipeline_options.shared_lock = device.backend->name();
  pipeline_options.sandbox = executor_sandbox(
      device.backend->has_driver(),
      [&](const common::Sandbox* sandbox) { return opens_device(*device.backend, sandbox); });
  bool is_safe = pipeline_options.sandbox != nullptr && compilers.protects_files() &&
                 pipeline_options.sandbox->protects_files();
  if (!is_safe) {
    common::log_warning(
        "candidates can change this user's files: kernels on the disk are used by this run only, "
        "and the worker's key is as safe as what it runs; see `lfarm doctor`");
  }
  std::string confined =
      pipeline_options.sandbox == nullptr ? "not at all" : pipeline_options.sandbox->describe();
  if (options.debug_sequential) pipeline_options.executor_command.emplace_back(kDebugFlag);
  // Never destroyed: a compiler that still runs would delay the end of the process, and dies with
  // it.
  std::string toolchain = toolchain_of(*compiler, *device.backend);
  auto* pipeline =
      new LocalPipeline(std::move(pipeline_options), device.backend->make_generator(device.target),
                        std::move(compiler), options.state + "/kernels",
                        is_safe ? KernelCacheKey::kOnDisk : KernelCacheKey::kInMemory);
  common::log_info(cat("executors are confined, ", confined));
  common::log_info(cat("compilers are confined, ", compilers.describe()));
  common::SteadyClock clock;
  AgentOptions agent_options;
  agent_options.worker_id = options.name;
  agent_options.target = device.target.name;
  agent_options.toolchain = std::move(toolchain);
  agent_options.machine = machine_class;
  common::log_info(cat("machine class: ", agent_options.machine));
  agent_options.slots = options.slots;
  agent_options.drain_ms = options.drain_ms;
  AgentState state;
  std::unique_ptr<common::HttpServer> web;
  if (!options.http.empty()) {
    LFARM_ASSIGN_OR_RETURN(web,
                           serve_web(options.http, options.name, device.target.name, state, clock));
    common::log_info(cat("http on ", web->address()));
  }
  std::optional<DeletionCost> deletion_cost;
  if (!options.pod.empty()) {
    LFARM_ASSIGN_OR_RETURN(common::Cluster cluster, common::Cluster::find(options.cluster));
    deletion_cost.emplace(std::move(cluster), DeletionCostOptions{options.pod}, state, clock);
  }
  agent_options.state = &state;
  return serve_coordinators(std::move(sockets), *pipeline, agent_options, clock, stop_fd);
}

}  // namespace

int run_worker(int argc, char** argv, Backends backends) {
  if (argc > 2 && argv[1] == kExecutorFlag) {
    return serve_executor(argv[2], argc > 3 && argv[3] == kDebugFlag, backends);
  }
  if (argc == 3 && argv[1] == kOpenFlag) return try_to_open(argv[2], backends);
  if (argc >= 2 && std::string_view(argv[1]) == kNvrtcChildFlag) {
    return run_nvrtc_child(STDIN_FILENO, argc == 3 ? std::atoi(argv[2]) : 0);
  }
  bool separated = argc == 4 && std::string_view(argv[3]) == "--separated";
  if ((argc == 3 || separated) && std::string_view(argv[1]) == "print-source") {
    const Backend* backend = named(common::family_of(argv[2]), backends);
    if (backend != nullptr) return run_print_source(*backend, argv[2], separated);
    return fail(common::invalid_input(cat("no device is called ", common::family_of(argv[2]))), 2);
  }
  if (argc == 4 && std::string_view(argv[1]) == "take-key") {
    char host[256] = "worker";
    (void)::gethostname(host, sizeof host - 1);
    common::Status taken = take_key(argv[2], argv[3], host);
    return taken.ok() ? 0 : fail(taken.error(), 2);
  }
  // Before the key is read.
  common::hide_memory();
  std::vector<std::string> devices;
  for (const Backend* backend : backends) devices.emplace_back(backend->name());
  auto parsed = parse_options(argc, argv, devices);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<WorkerOptions>(parsed);
  common::log_init("lfarm-worker", options.log, options.log_format);
  const common::SignalDescriptor stop({SIGTERM, SIGINT});

  // Where this process and its compilers put their files.
  auto temporary = common::OwnDirectory::create("lfarm-worker");
  if (!temporary.ok()) return fail(temporary.error(), 1);
  ::setenv("TMPDIR", temporary->path().c_str(), 1);

  // After this line the device and the toolchain are known.
  auto device = find_device(options, backends);
  if (!device.ok()) return fail(device.error(), 2);
  auto sandbox = common::Sandbox::find(common::SandboxProfile::kCompiling);
  auto compiler = device->backend->find_compiler(device->target, sandbox);
  if (!compiler.ok()) return fail(compiler.error(), 1);

  // Returns when the worker has drained.
  common::Status served = serve(options, *device, *std::move(compiler), *sandbox, stop.fd());
  if (served.ok()) return 0;
  return fail(served.error(), served.error().code == common::Code::kInvalidInput ? 2 : 1);
}

}  // namespace worker
