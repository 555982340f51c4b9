// takeover --tries N: how long a model's clients wait when the coordinator that holds its shard is
// killed, and two others serve the farm. Needs redis-server.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/shard/shard.h"
#include "common/wire/ir_codec.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/simulated_workers.h"
#include "tests/bench/farm/timed.h"
#include "tests/farm/service/redis_server.h"
#include "tests/farm/service/service_script.h"

namespace bench {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

constexpr int kCoordinators = 3;
constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr auto kPatience = std::chrono::minutes(3);

struct TakeoverOptions {
  int tries = 5;
  int lease_ms = 3'000;
  bool restarts = false;
};

// Three coordinators of one key over one server, each with workers.
class SharedFarm {
 public:
  explicit SharedFarm(int lease_ms) {
    std::string first_state;
    for (int k = 0; k < kCoordinators; ++k) {
      states_.push_back(must(common::ScratchDirectory::create("lfarm-takeover")));
      FarmOptions options;
      options.curve = false;
      options.state = states_.back().path();
      options.extra = {"--shards",         "64",          "--remote",   redis_.address(),
                       "--shard-lease-ms", cat(lease_ms), "--identity", cat("coordinator-", k)};
      if (k > 0) {
        std::filesystem::copy_file(first_state + "/signing.key", options.state + "/signing.key");
      }
      first_state = states_.front().path();
      farms_.push_back(must(FarmUnderLoad::create(options)));
      must(farms_.back()->start());
      WorkersOptions crew;
      crew.workers = 2;
      crew.task_ms = 0;
      workers_.push_back(std::make_unique<SimulatedWorkers>(*farms_.back(), crew));
    }
  }
  FarmUnderLoad& coordinator(int k) { return *farms_[static_cast<size_t>(k)]; }
  // All endpoints, those after number `k` first.
  std::string endpoints_after(int k) const {
    std::string all;
    for (int i = 1; i <= kCoordinators; ++i) {
      all +=
          cat(i == 1 ? "" : ",", farms_[static_cast<size_t>((k + i) % kCoordinators)]->endpoint());
    }
    return all;
  }
  std::unique_ptr<clients::FarmClient> connect(const std::string& endpoints) const {
    clients::FarmClientOptions access;
    access.endpoint = endpoints;
    access.silence_ms_max = 120'000;
    return must(clients::FarmClient::connect(std::move(access)));
  }
  // Shards of coordinator `k`, once all serve as many.
  std::vector<uint32_t> shards_when_even(int k) {
    auto client = connect(endpoints_after(k));
    for (auto end = std::chrono::steady_clock::now() + kPatience;;) {
      Json jobs = Json::parse(must(client->status(common::StatusTopic::kJobs)));
      bool is_even = jobs["coordinators"].size() == kCoordinators;
      std::vector<uint32_t> shards;
      for (const Json& one : jobs["coordinators"]) {
        is_even = is_even && one["shards"].size() >= common::kShardCount / kCoordinators;
        if (one["endpoint"] == coordinator(k).endpoint()) {
          shards = one["shards"].get<std::vector<uint32_t>>();
        }
      }
      if (is_even) return shards;
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("shards stay uneven");
      std::this_thread::sleep_for(kPoll);
    }
  }

 private:
  cache::RedisServer redis_;
  std::vector<common::ScratchDirectory> states_;
  std::vector<std::unique_ptr<FarmUnderLoad>> farms_;
  std::vector<std::unique_ptr<SimulatedWorkers>> workers_;
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

// The next graph that nobody has submitted, in one of the shards.
common::Graph next_graph(int64_t& size, const std::vector<uint32_t>& shards) {
  while (true) {
    common::Graph graph = coordinator::service::scripted_graph(size++);
    uint32_t shard = common::shard_of(common::kLocalTenant, common::graph_hash(graph));
    if (std::find(shards.begin(), shards.end(), shard) != shards.end()) return graph;
  }
}

int takeover(const TakeoverOptions& options) {
  if (!cache::RedisServer::is_there()) throw std::runtime_error("no redis-server");
  SharedFarm farm(options.lease_ms);
  common::SteadyClock clock;
  int64_t size = 8;
  std::vector<double> undisturbed_ms, others_ms, own_ms;
  for (int k = 0; k < options.tries; ++k) {
    const int victim = k % kCoordinators;
    auto shards = farm.shards_when_even(victim);
    // One client talks to those that live on, one to the one that is killed.
    auto others = farm.connect(farm.endpoints_after(victim));
    auto own = farm.connect(farm.endpoints_after((victim + kCoordinators - 1) % kCoordinators));
    undisturbed_ms.push_back(samples(1, [&](int) {
                               must(others->submit(request_for(next_graph(size, shards)), {}, {}));
                             }).front());
    others = farm.connect(farm.endpoints_after(victim));
    const auto others_request = request_for(next_graph(size, shards));
    const auto own_request = request_for(next_graph(size, shards));
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
