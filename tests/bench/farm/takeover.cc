// takeover --tries N: how long a model's clients wait when the coordinator that holds its shard is
// killed, and two others serve the farm. Needs redis-server.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/clock.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/sharded_farm.h"
#include "tests/bench/farm/simulated_workers.h"
#include "tests/bench/farm/timed.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCoordinators = 3;

struct TakeoverOptions {
  int tries = 5;
  int lease_ms = 3'000;
  bool restarts = false;
};

clients::SubmitRequest request_for(const common::Graph& graph) {
  clients::SubmitRequest request;
  request.key = {common::graph_hash(graph),
                 {kLoadTarget},
                 std::string(common::kDefaultPolicy),
                 std::string(common::kCompilerEpoch)};
  request.graph = common::encode_graph(graph);
  request.budget_candidates = 8;
  return request;
}

int takeover(const TakeoverOptions& options) {
  ShardedFarm farm({kCoordinators, options.lease_ms, false});
  std::vector<std::unique_ptr<SimulatedWorkers>> crews;
  for (int k = 0; k < kCoordinators; ++k) {
    WorkersOptions crew;
    crew.workers = 2;
    crew.task_ms = 0;
    crews.push_back(std::make_unique<SimulatedWorkers>(farm.coordinator(k), crew));
  }
  common::SteadyClock clock;
  std::vector<double> undisturbed_ms, others_ms, own_ms;
  for (int k = 0; k < options.tries; ++k) {
    const int victim = k % kCoordinators;
    auto shards = farm.shards_when_even(victim);
    // One client talks to those that live on, one to the one that is killed.
    auto others = farm.connect(farm.endpoints_after(victim));
    auto own = farm.connect(farm.endpoints_after((victim + kCoordinators - 1) % kCoordinators));
    undisturbed_ms.push_back(samples(1, [&](int) {
                               must(others->submit(request_for(farm.next_graph(shards)), {}, {}));
                             }).front());
    others = farm.connect(farm.endpoints_after(victim));
    const auto others_request = request_for(farm.next_graph(shards));
    const auto own_request = request_for(farm.next_graph(shards));
    const int64_t killed_ns = clock.now_ns();
    farm.coordinator(victim).kill();
    auto wait_of = [&clock, killed_ns](auto& client, const clients::SubmitRequest& request) {
      must(client->submit(request, {}, {}));
      return static_cast<double>(clock.now_ns() - killed_ns) * 1e-6;
    };
    auto others_wait =
        std::async(std::launch::async, [&] { return wait_of(others, others_request); });
    auto own_wait = std::async(std::launch::async, [&] { return wait_of(own, own_request); });
    if (options.restarts) must(farm.coordinator(victim).start());
    others_ms.push_back(others_wait.get());
    own_ms.push_back(own_wait.get());
    if (!options.restarts) must(farm.coordinator(victim).start());
  }
  Json line{{"bench", "takeover"},          {"lease_ms", options.lease_ms},
            {"restarts", options.restarts}, {"undisturbed_ms", undisturbed_ms},
            {"others_ms", others_ms},       {"own_ms", own_ms},
            {"load", load_average()}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace

int run_takeover(const std::vector<std::string>& arguments) {
  TakeoverOptions options;
  CLI::App app("Kills coordinators that share a farm, and submits models of their shards.",
               "lfarm-bench takeover");
  app.add_option("--tries", options.tries, "coordinators that are killed, one after the other")
      ->check(CLI::Range(1, 1000));
  app.add_option("--lease-ms", options.lease_ms, "of a shard")->check(CLI::Range(300, 600'000));
  app.add_flag("--restart", options.restarts, "start each again at once, under its name");
  return run_guarded("takeover", app, arguments, [&] { return takeover(options); });
}

}  // namespace bench
