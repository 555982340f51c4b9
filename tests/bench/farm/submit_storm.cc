// submit-storm --clients N --graphs same|distinct: what a coordinator does when all clients submit
// at once, and restart: how long one that was killed takes to hand out tasks again.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/load_client.h"
#include "tests/bench/farm/simulated_workers.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPollMs = 50;

std::unique_ptr<FarmUnderLoad> start_farm(const FarmOptions& options) {
  raise_descriptor_limit();
  auto farm = FarmUnderLoad::create(options);
  if (!farm.ok()) throw std::runtime_error(farm.error().message);
  common::Status started = (*farm)->start();
  if (!started.ok()) throw std::runtime_error(started.error().message);
  return std::move(farm).value();
}

// ---- submit-storm ------------------------------------------------------------------------------

struct StormOptions {
  size_t clients = 1000;
  std::string graphs = "same";
  uint64_t budget = 16;
  WorkersOptions workers;
  FarmOptions farm;
};

// Lets all clients talk until `done` holds for each.
template <class Done>
void converse(std::vector<std::unique_ptr<LoadClient>>& clients, const Done& done) {
  common::Poller poller;
  for (auto& client : clients) poller.watch(client->socket());
  while (
      !std::all_of(clients.begin(), clients.end(), [&](auto& client) { return done(*client); })) {
    if (!poller.wait(kPollMs).ok()) throw std::runtime_error("cannot wait");
    for (size_t i = 0; i < clients.size(); ++i) {
      if (poller.ready(i)) clients[i]->receive();
    }
  }
}

int storm(const StormOptions& options) {
  auto farm = start_farm(options.farm);
  SimulatedWorkers workers(*farm, options.workers);
  if (!workers.wait_until_welcome()) throw std::runtime_error("not all workers were welcomed");
  common::WireContext context;
  std::vector<std::unique_ptr<LoadClient>> clients;
  for (size_t i = 0; i < options.clients; ++i) {
    clients.push_back(std::make_unique<LoadClient>(context, *farm));
  }
  converse(clients, [](LoadClient& client) { return client.is_welcome(); });
  double before_mb = farm->use().now_mb;
  common::SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  bool is_same = options.graphs == "same";
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i]->submit(is_same ? 8 : static_cast<int64_t>(8 + i), options.budget);
  }
  converse(clients, [](LoadClient& client) { return client.is_answered(); });
  double seconds = static_cast<double>(clock.now_ns() - start_ns) * 1e-9;
  ProcessUse used = farm->use();
  WorkersReport report = workers.finish();
  std::vector<double> answers_ms;
  size_t plans = 0;
  for (auto& client : clients) {
    answers_ms.push_back(client->answer_ms());
    plans += client->failure().empty() ? 1 : 0;
  }
  Json line{{"bench", "submit-storm"},
            {"clients", options.clients},
            {"graphs", options.graphs},
            {"curve", options.farm.curve},
            {"searches", report.searches},
            {"plans", plans},
            {"seconds", seconds},
            {"p50_ms", percentile(answers_ms, 0.5)},
            {"p99_ms", percentile(answers_ms, 0.99)},
            {"coordinator_mb", used.peak_mb},
            {"coordinator_mb_before", before_mb},
            {"coordinator_cpu_s", used.cpu_s},
            {"load", load_average()}};
  std::printf("%s\n", line.dump().c_str());
  return plans == options.clients ? 0 : 1;
}

// ---- restart -----------------------------------------------------------------------------------

struct RestartOptions {
  uint64_t open = 100'000;
  uint64_t known = 10'000;
  size_t workers = 400;
  FarmOptions farm;
};

template <class Done>
void wait_for(LoadClient& client, const Done& done) {
  common::Poller poller;
  poller.watch(client.socket());
  while (!done()) {
    if (!poller.wait(1).ok()) throw std::runtime_error("cannot wait");
    client.receive();
    if (!client.failure().empty()) throw std::runtime_error(client.failure());
  }
}

int restart(const RestartOptions& options) {
  auto farm = start_farm(options.farm);
  WorkersOptions crew;
  crew.workers = options.workers;
  crew.slots = 256;
  crew.task_ms = 0;
  crew.answers_max = options.known;
  SimulatedWorkers workers(*farm, crew);
  if (!workers.wait_until_welcome()) throw std::runtime_error("not all workers were welcomed");
  common::WireContext context;
  LoadClient client(context, *farm);
  common::SteadyClock clock;
  client.submit(8, 2 * (options.open + options.known));
  // All results are durable once the client is told of them.
  wait_for(client, [&] {
    return workers.held() >= options.open && client.candidates_done() >= options.known;
  });
  uint64_t open = workers.held(), known = client.candidates_done();
  farm->kill();
  workers.count_from_now();
  int64_t killed_ns = clock.now_ns();
  common::Status started = farm->start();
  if (!started.ok()) throw std::runtime_error(started.error().message);
  int64_t listens_ns = clock.now_ns();
  wait_for(client, [&] { return workers.first_task_ns() != 0; });
  double first_s = static_cast<double>(workers.first_task_ns() - killed_ns) * 1e-9;
  wait_for(client, [&] { return workers.tasks() >= open; });
  double all_s = static_cast<double>(clock.now_ns() - killed_ns) * 1e-9;
  // A search counts as done only what it knows: what came from the journal comes first.
  wait_for(client, [&] { return client.candidates_done() >= known; });
  Json line{{"bench", "restart"},
            {"open_tasks", open},
            {"known_results", known},
            {"curve", options.farm.curve},
            {"listens_s", static_cast<double>(listens_ns - killed_ns) * 1e-9},
            {"dispatches_s", first_s},
            {"all_open_again_s", all_s},
            {"baselines_again", workers.searches()},
            {"submits", client.submits()},
            {"coordinator_mb", farm->use().peak_mb},
            {"load", load_average()}};
  workers.finish();
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace

int run_submit_storm(const std::vector<std::string>& arguments) {
  StormOptions options;
  options.workers.workers = 16;
  options.workers.task_ms = 1;
  CLI::App app("Simultaneous submits to a real coordinator.", "lfarm-bench submit-storm");
  app.add_option("--clients", options.clients, "connections, one submit each")
      ->check(CLI::Range(1, 4096));
  app.add_option("--graphs", options.graphs, "what they submit")
      ->check(CLI::IsMember({"same", "distinct"}));
  app.add_option("--budget", options.budget, "candidates of a search")
      ->check(CLI::Range(3, 1000000));
  app.add_option("--workers", options.workers.workers, "simulated workers");
  app.add_option("--task-ms", options.workers.task_ms, "each worker's time for a task");
  app.add_flag("--curve,!--no-curve", options.farm.curve, "transport security (default: on)");
  return run_guarded("submit-storm", app, arguments, [&] { return storm(options); });
}

int run_restart(const std::vector<std::string>& arguments) {
  RestartOptions options;
  CLI::App app("Kills a real coordinator and starts it again.", "lfarm-bench restart");
  app.add_option("--open", options.open, "tasks that workers hold when it is killed");
  app.add_option("--known", options.known, "results that are durable when it is killed");
  app.add_option("--workers", options.workers, "simulated workers of 256 slots");
  app.add_flag("--curve,!--no-curve", options.farm.curve, "transport security (default: on)");
  return run_guarded("restart", app, arguments, [&] { return restart(options); });
}

}  // namespace bench
