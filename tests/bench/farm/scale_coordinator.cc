#include "tests/bench/farm/scale_coordinator.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/http/http_client.h"
#include "common/shard/shard.h"
#include "coordinator/service/shards/sharding.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/farm/timed.h"

namespace bench {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

constexpr auto kPoll = std::chrono::milliseconds(2);
constexpr double kServedMs = 600'000;  // when a coordinator that serves not all shards is given up

// How many shards it serves, by its metrics; 0 while it does not answer.
int shards_served(const std::string& http_file) {
  constexpr const char* kMetric = "\nlfarm_shards_served ";
  auto address = common::read_file(http_file);
  size_t colon = address.ok() ? address->rfind(':') : std::string::npos;
  if (colon == std::string::npos) return 0;
  auto reply = common::http_call({address->substr(0, colon), std::stoi(address->substr(colon + 1))},
                                 {"GET", "/metrics"});
  size_t at = reply.ok() ? reply->body.find(kMetric) : std::string::npos;
  return at == std::string::npos ? 0 : std::atoi(reply->body.c_str() + at + std::strlen(kMetric));
}

std::unique_ptr<clients::FarmClient> connect(const FarmUnderLoad& farm) {
  clients::FarmClientOptions access;
  access.endpoint = farm.endpoint();
  access.keys = farm.keys();
  return must(clients::FarmClient::connect(std::move(access)));
}

// Asks until the plan comes: while the engine does not answer in time a coordinator has none.
// Returns how often it had none.
int pull(clients::FarmClient& client, const common::PlanKey& key) {
  constexpr int kTries = 100;
  int missed = 0;
  while (!must(client.pull(key))) {
    if (++missed == kTries) throw std::runtime_error("the coordinator has no such plan");
  }
  return missed;
}

// Plans of `keys` from `begin` on, each client others.
Json timed_pulls(const FarmUnderLoad& farm, const std::vector<common::PlanKey>& keys, size_t begin,
                 int clients, int calls) {
  std::atomic<int> missed{0};
  Json spread = timed_together(clients, calls, [&](int client) -> Call {
    std::shared_ptr<clients::FarmClient> its = connect(farm);
    size_t first = begin + static_cast<size_t>(client) * static_cast<size_t>(calls);
    return [&keys, &missed, its, first](int k) {
      missed += pull(*its, keys[(first + static_cast<size_t>(k)) % keys.size()]);
    };
  });
  spread["missed"] = missed.load();
  return spread;
}

}  // namespace

std::string space_of(const common::SigningKey& key) {
  return coordinator::service::engine_space(key.public_key());
}

void measure_coordinator(const ScaleCoordinatorOptions& options,
                         const std::vector<common::PlanKey>& keys, Json& line) {
  common::SteadyClock clock;
  const std::string http_file = options.state + "/http";
  FarmOptions farm_options;
  farm_options.curve = false;
  farm_options.state = options.state;
  farm_options.extra = {"--shards", "64",          "--remote",    options.address,
                        "--http",   "127.0.0.1:0", "--http-file", http_file};
  auto farm = must(FarmUnderLoad::create(farm_options));
  const int64_t start_ns = clock.now_ns();
  auto since_ms = [&] { return static_cast<double>(clock.now_ns() - start_ns) * 1e-6; };
  must(farm->start());
  line["start_listens_ms"] = since_ms();
  auto client = connect(*farm);
  line["start_missed"] = pull(*client, keys[0]);
  line["start_answers_ms"] = since_ms();
  while (shards_served(http_file) < static_cast<int>(common::kShardCount)) {
    if (since_ms() > kServedMs) throw std::runtime_error("the coordinator serves not all shards");
    std::this_thread::sleep_for(kPoll);
  }
  line["start_serves_all_ms"] = since_ms();
  line["start_rss_mb"] = farm->use().now_mb;
  const int half = static_cast<int>(keys.size() / 2), clients = options.clients;
  line["first_pull_1"] = timed_pulls(*farm, keys, 0, 1, half);
  line[cat("first_pull_", clients)] = timed_pulls(*farm, keys, half, clients, half / clients);
  line["pull_1"] = timed_pulls(*farm, keys, 0, 1, half);
  line[cat("pull_", clients)] = timed_pulls(*farm, keys, half, clients, half);
  line["cache_ls"] = timed(20, [&](int) { must(client->status(common::StatusTopic::kPlans)); });
  line["rss_mb"] = farm->use().now_mb;
  line["peak_rss_mb"] = farm->use().peak_mb;
}

}  // namespace bench
