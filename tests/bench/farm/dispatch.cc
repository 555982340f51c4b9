// dispatch --workers N --task-ms T --tasks K: how fast a real coordinator hands out tasks and makes
// their results durable. With --real-search: what a candidate of a real search costs it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "coordinator/service/command/command.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/load_client.h"
#include "tests/bench/farm/real_searches.h"
#include "tests/bench/farm/sharded_farm.h"
#include "tests/bench/farm/simulated_workers.h"
#include "tests/bench/farm/worker_processes.h"
#include "tests/farm/service/service_script.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

// A coordinator that a busy machine delays is none that has died.
constexpr int kShardLeaseMs = 30'000;

struct DispatchOptions {
  WorkersOptions workers;
  uint64_t tasks = 10'000;
  int coordinators = 1;
  FarmOptions farm;
  bool is_real = false;
  RealSearches real;
};

// Processor time, in seconds.
struct Spent {
  double coordinators = 0, engine = 0, workers = 0;
};

Spent spent_since(const Spent& before, const Spent& now) {
  return {now.coordinators - before.coordinators, now.engine - before.engine,
          now.workers - before.workers};
}

void print_report(const DispatchOptions& options, WorkersReport report, double peak_mb,
                  const Spent& spent) {
  // A finalist is proposed once all results before it are durable and learned.
  auto committed = static_cast<double>(options.tasks - report.finalists);
  double seconds = static_cast<double>(report.finalist_ns - report.first_task_ns) * 1e-9;
  double ideal_s =
      committed * options.workers.task_ms * 1e-3 / static_cast<double>(options.workers.workers);
  Json line{{"bench", "dispatch"},
            {"coordinators", options.coordinators},
            {"workers", options.workers.workers},
            {"slots", options.workers.slots},
            {"task_ms", options.workers.task_ms},
            {"tasks", options.tasks},
            {"curve", options.farm.curve},
            {"tasks_per_s", committed / seconds},
            {"ideal_fraction", ideal_s / seconds},
            {"p50_ms", percentile(report.turnaround_ms, 0.5)},
            {"p99_ms", percentile(report.turnaround_ms, 0.99)},
            {"coordinator_mb", peak_mb},
            {"seconds", seconds},
            {"coordinator_cpu_s", spent.coordinators},
            {"engine_cpu_s", spent.engine},
            {"workers_cpu_s", spent.workers},
            {"load", load_average()}};
  std::printf("%s\n", line.dump().c_str());
}

// A search at each of several coordinators, which share all workers.
int run_sharded(const DispatchOptions& options) {
  ShardedFarm farm({options.coordinators, kShardLeaseMs, options.farm.curve});
  std::vector<const FarmUnderLoad*> farms;
  for (int k = 0; k < options.coordinators; ++k) farms.push_back(&farm.coordinator(k));
  WorkerProcesses workers(farms, options.workers);
  std::vector<common::Graph> graphs;
  for (int k = 0; k < options.coordinators; ++k) {
    graphs.push_back(farm.next_graph(farm.shards_when_even(k)));
  }
  auto spent = [&] { return Spent{farm.use().cpu_s, farm.engine_use().cpu_s, workers.cpu_s()}; };
  const Spent before = spent();
  common::WireContext context;
  std::vector<std::unique_ptr<LoadClient>> clients;
  uint64_t tasks = 0;
  for (uint64_t k = 0; k < farms.size(); ++k) {
    const uint64_t share = (options.tasks - tasks) / (farms.size() - k);
    clients.push_back(std::make_unique<LoadClient>(context, *farms[k]));
    clients.back()->submit(graphs[k], share, 0);
    tasks += share;
  }
  for (auto& client : clients) client->wait_until_answered();
  const Spent used = spent_since(before, spent());
  WorkersReport report = workers.finish();
  for (auto& client : clients) {
    if (!client->failure().empty()) throw std::runtime_error(client->failure());
  }
  print_report(options, std::move(report), farm.use().peak_mb, used);
  return 0;
}

int run(const DispatchOptions& options) {
  raise_descriptor_limit();
  if (options.is_real) {
    RealSearches searches = options.real;
    searches.candidates = options.tasks;
    run_real_searches(searches, options.farm, options.workers);
    return 0;
  }
  if (options.coordinators > 1) return run_sharded(options);
  auto farm = FarmUnderLoad::create(options.farm);
  if (!farm.ok()) throw std::runtime_error(farm.error().message);
  common::Status started = (*farm)->start();
  if (!started.ok()) throw std::runtime_error(started.error().message);
  SimulatedWorkers workers(**farm, options.workers);
  if (!workers.wait_until_welcome()) throw std::runtime_error("not all workers were welcomed");
  common::WireContext context;
  LoadClient client(context, **farm);
  auto spent = [&] { return Spent{(*farm)->use().cpu_s, 0, own_cpu_s()}; };
  const Spent before = spent();
  client.submit(8, options.tasks);
  client.wait_until_answered();
  const Spent used = spent_since(before, spent());
  WorkersReport report = workers.finish();
  if (!client.failure().empty()) throw std::runtime_error(client.failure());
  print_report(options, std::move(report), (*farm)->use().peak_mb, used);
  return 0;
}

}  // namespace

int run_dispatch(const std::vector<std::string>& arguments) {
  DispatchOptions options;
  CLI::App app("Tasks through a real coordinator to simulated workers.", "lfarm-bench dispatch");
  app.add_option("--workers", options.workers.workers, "connections")->check(CLI::Range(1, 4096));
  app.add_option("--task-ms", options.workers.task_ms, "each worker's time for a task")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--tasks", options.tasks, "that the search sends")->check(CLI::Range(3, 1000000));
  CLI::Option* coordinators =
      app.add_option("--coordinators", options.coordinators,
                     "that share the farm over a redis-server, each with a scripted search; "
                     "workers connect to all (default: 1)")
          ->check(CLI::Range(1, 16));
  app.add_option("--slots", options.workers.slots, "tasks that a worker holds at once")
      ->check(CLI::Range(1, 256));
  app.add_option("--threads", options.workers.threads, "that drive the workers");
  app.add_option("--state", options.farm.state, "the coordinator's directory (default: scratch)");
  app.add_flag("--json")->description("one JSON object a line, as always");
  app.add_flag("--real-search", options.is_real, "search for plans of a model, not by a script");
  app.add_option("--model", options.real.model, "that is searched for (default: a small llama)");
  app.add_option("--jobs", options.real.jobs, "real searches at the same time")
      ->check(CLI::Range(1, 1024));
  app.add_option("--searchers", options.real.searchers,
                 "processes that search in the coordinator's place")
      ->check(CLI::Range(0, 64));
  app.add_option("--in-flight", options.real.in_flight,
                 "candidates that a real search sends before a result must be known")
      ->check(CLI::Range(uint32_t{1}, common::kInFlightMax));
  app.add_flag("--curve,!--no-curve", options.farm.curve, "transport security (default: on)");
  coordinators->excludes("--state")->excludes("--real-search");
  return run_guarded("dispatch", app, arguments, [&] { return run(options); });
}

int run_scripted_coordinator(int argc, const char* const* argv) {
  auto counters = std::make_shared<coordinator::service::ScriptCounters>();
  return coordinator::service::run_coordinator(argc, argv,
                                               coordinator::service::scripted_searches(counters));
}

int run_searching_coordinator(int argc, const char* const* argv) {
  return coordinator::service::run_coordinator(argc, argv, coordinator::JobSearch::create);
}

}  // namespace bench
