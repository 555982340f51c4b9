// lfarm-simulated-workers --farm ENDPOINTS --workers N: workers without devices in one process,
// each with a worker's own agents (worker/agent), which take a fixed time for each task and answer
// with what a simulated device measures.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/process/signal_descriptor.h"
#include "common/wire/security.h"
#include "common/wire/socket.h"
#include "tests/chaos/simulated/simulated_pipeline.h"
#include "worker/agent/agents.h"

namespace {

using common::cat;

struct Options {
  std::string farm, key, farm_key;
  std::string target = "cpu-aarch64";
  int workers = 256;
  int task_ms = 2'000;
};

common::Status serve(const Options& options, int number, common::WireContext& context,
                     const std::optional<common::ClientKeys>& keys,
                     chaos::SimulatedPipeline& pipeline, int stop_fd) {
  LFARM_ASSIGN_OR_RETURN(auto sockets,
                         worker::connect_to_coordinators(context, options.farm, keys));
  worker::AgentOptions agent;
  agent.worker_id = cat("simulated-", number);
  agent.target = options.target;
  agent.toolchain = "none";
  agent.machine = "a simulated machine";
  agent.slots = 1;
  common::SteadyClock clock;
  return worker::serve_coordinators(std::move(sockets), pipeline, agent, clock, stop_fd);
}

int run(const Options& options) {
  const common::SignalDescriptor stop({SIGTERM, SIGINT});
  common::log_init("lfarm-simulated-workers", common::LogLevel::kWarning);
  std::optional<common::ClientKeys> keys;
  if (!options.key.empty()) {
    auto own = common::load_or_create_key_pair(options.key);
    if (!own.ok()) {
      std::fprintf(stderr, "%s\n", own.error().message.c_str());
      return 2;
    }
    keys = common::ClientKeys{*own, options.farm_key};
  }
  common::WireContext context;
  chaos::SimulatedDevices devices(int64_t{options.task_ms} * 1'000'000);
  std::vector<std::unique_ptr<chaos::SimulatedPipeline>> pipelines;
  std::vector<std::thread> threads;
  for (int k = 0; k < options.workers; ++k) {
    pipelines.push_back(std::make_unique<chaos::SimulatedPipeline>(devices));
    threads.emplace_back([&, k, pipeline = pipelines.back().get()] {
      common::Status served = serve(options, k, context, keys, *pipeline, stop.fd());
      if (!served.ok()) std::fprintf(stderr, "%s\n", served.error().message.c_str());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Workers without devices, which take a fixed time for each task.");
  app.add_option("--farm", options.farm, "endpoints of the coordinators")->required();
  app.add_option("--key", options.key, "file with the CURVE keys of all");
  app.add_option("--farm-key", options.farm_key, "the farm's public key");
  app.add_option("--target", options.target, "what they say they run");
  app.add_option("--workers", options.workers, "how many")->check(CLI::Range(1, 4096));
  app.add_option("--task-ms", options.task_ms, "of one task")->check(CLI::Range(0, 600'000));
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
