#include "tests/bench/farm/sharded_farm.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "common/base/cat.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/shard/shard.h"
#include "common/wire/security.h"
#include "tests/bench/farm/timed.h"
#include "tests/farm/service/service_script.h"

namespace bench {

using common::cat;
using Json = nlohmann::ordered_json;

namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr auto kPatience = std::chrono::minutes(3);
constexpr int64_t kSilenceMs = 120'000;  // a busy machine is no coordinator that is gone

ShardedFarmOptions checked(const ShardedFarmOptions& options) {
  if (!cache::RedisServer::is_there()) throw std::runtime_error("no redis-server");
  return options;
}

}  // namespace

ShardedFarm::ShardedFarm(const ShardedFarmOptions& options) : options_(checked(options)) {
  for (int k = 0; k < options_.coordinators; ++k) {
    states_.push_back(must(common::ScratchDirectory::create("lfarm-sharded")));
    FarmOptions farm;
    farm.curve = options_.curve;
    farm.state = states_.back().path();
    farm.extra = {"--shards",         "64",
                  "--remote",         redis_.address(),
                  "--shard-lease-ms", cat(options_.lease_ms),
                  "--identity",       cat("coordinator-", k)};
    for (const char* key : {"/signing.key", "/farm.key", "/client.key"}) {
      const std::string first = states_.front().path() + key;
      if (k > 0 && common::file_exists(first)) {
        std::filesystem::copy_file(first, farm.state + key);
      }
    }
    farms_.push_back(must(FarmUnderLoad::create(farm)));
    must(farms_.back()->start());
  }
}

std::string ShardedFarm::endpoints_after(int k) const {
  std::string all;
  for (size_t i = 1; i <= farms_.size(); ++i) {
    all += cat(i == 1 ? "" : ",", farms_[(static_cast<size_t>(k) + i) % farms_.size()]->endpoint());
  }
  return all;
}

std::unique_ptr<clients::FarmClient> ShardedFarm::connect(const std::string& endpoints) const {
  clients::FarmClientOptions access;
  access.endpoint = endpoints;
  access.keys = farms_.front()->keys();
  access.silence_ms_max = kSilenceMs;
  return must(clients::FarmClient::connect(std::move(access)));
}

std::vector<uint32_t> ShardedFarm::shards_when_even(int k) {
  auto client = connect(endpoints_after(k));
  const size_t share = common::kShardCount / farms_.size();
  for (auto end = std::chrono::steady_clock::now() + kPatience;;) {
    Json jobs = Json::parse(must(client->status(common::StatusTopic::kJobs)));
    bool is_even = jobs["coordinators"].size() == farms_.size();
    std::vector<uint32_t> shards;
    for (const Json& one : jobs["coordinators"]) {
      is_even = is_even && one["shards"].size() >= share;
      if (one["endpoint"] == coordinator(k).endpoint()) {
        shards = one["shards"].get<std::vector<uint32_t>>();
      }
    }
    if (is_even) return shards;
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("shards stay uneven");
    std::this_thread::sleep_for(kPoll);
  }
}

common::Graph ShardedFarm::next_graph(const std::vector<uint32_t>& shards) {
  const std::string tenant(options_.curve ? kLoadTenant : common::kLocalTenant);
  while (true) {
    common::Graph graph = coordinator::service::scripted_graph(next_size_++);
    uint32_t shard = common::shard_of(tenant, common::graph_hash(graph));
    if (std::find(shards.begin(), shards.end(), shard) != shards.end()) return graph;
  }
}

ProcessUse ShardedFarm::use() const {
  ProcessUse all;
  for (const auto& farm : farms_) {
    ProcessUse use = farm->use();
    all.cpu_s += use.cpu_s;
    all.peak_mb = std::max(all.peak_mb, use.peak_mb);
    all.now_mb = std::max(all.now_mb, use.now_mb);
  }
  return all;
}

}  // namespace bench
