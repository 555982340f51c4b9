// Coordinators that share the work by shards, over a real redis-server: if these fail, a client
// that asks the wrong one gets no answer, what one has found is searched for again by the next, or
// one that lost a shard writes over what its successor wrote.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cache/engine/name_walk.h"
#include "cache/engine/remote_engine.h"
#include "clients/runtime/farm/farm_client.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/secret_file.h"
#include "common/base/signing.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/shard/shard.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/service.h"
#include "coordinator/service/shards/shard_keeper.h"
#include "tests/farm/service/redis_server.h"
#include "tests/farm/service/service_peers.h"
#include "tests/farm/service/service_script.h"

namespace coordinator::service {
namespace {

using cache::RedisServer;
using common::cat;

constexpr const char* kTarget = "cpu-test";
constexpr auto kPatience = std::chrono::minutes(10);

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

bool becomes(const std::function<bool()>& done) {
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// A coordinator with a worker of its own, in threads.
class Coordinator {
 public:
  Coordinator(const std::string& name, const std::string& remote, const std::string& key_of)
      : scratch_(must(common::ScratchDirectory::create(name))) {
    options_.state = scratch_.path() + "/state";
    if (!common::make_directories(options_.state).ok()) throw std::runtime_error("no folder");
    std::string key = options_.state + "/signing.key";
    if (!key_of.empty()) {
      std::string bytes = must(common::read_file(key_of + "/signing.key"));
      if (!common::create_secret_file(key, bytes).ok()) throw std::runtime_error("no key");
    }
    key_ = must(common::load_or_create_signing_key(key));
    options_.listen = "tcp://127.0.0.1:*";
    options_.name = name;
    options_.times.heartbeat_ms = 1'000;
    options_.farm.times.heartbeat_timeout_ms = 60'000;
    options_.times.no_worker_grace_ms = 60'000;
    options_.farm.times.settle_ms = 100;
    options_.times.progress_ms = 1;
    options_.create_search = scripted_searches(counters);
    options_.shared.address = remote;
    options_.shared.wait_ms = 30'000;
    options_.sharding.is_on = true;
    options_.sharding.identity = name;
    // Long enough for a busy machine to renew.
    options_.sharding.duration_ms = 12'000;
  }
  ~Coordinator() { stop(); }

  void start() {
    service_ = must(Service::create(options_));
    thread_ = std::thread([this] { (void)service_->run(); });
    stopping_ = false;
    worker_thread_ = std::thread([this] {
      FakeWorker worker(service_->endpoint(), cat(options_.name, "-worker"), kTarget);
      (void)converse({&worker}, [this] { return stopping_.load(); });
    });
  }
  void stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    worker_thread_.join();
    service_->stop();
    thread_.join();
    service_.reset();
  }
  std::string metric(const std::string& name) {
    std::string text = service_->metrics().value_or("");
    size_t at = text.find(cat('\n', name, ' '));
    if (at == std::string::npos) return "";
    size_t begin = at + name.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  int served() { return std::atoi(metric("lfarm_shards_served").c_str()); }
  const std::string& state() const { return options_.state; }
  std::string endpoint() const { return service_->endpoint(); }
  common::PublicKey public_key() const { return key_.public_key(); }

  std::shared_ptr<ScriptCounters> counters = std::make_shared<ScriptCounters>();

 private:
  common::ScratchDirectory scratch_;
  ServiceOptions options_;
  common::SigningKey key_;
  std::unique_ptr<Service> service_;
  std::thread thread_, worker_thread_;
  std::atomic<bool> stopping_{false};
};

class ShardsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
    redis_.emplace();
  }
  void start(int count) {
    for (int k = 0; k < count; ++k) {
      std::string key_of = k == 0 ? "" : coordinators_[0]->state();
      coordinators_.push_back(
          std::make_unique<Coordinator>(cat("coordinator-", k), redis_->address(), key_of));
      coordinators_.back()->start();
    }
  }
  // Whether so many coordinators come to serve all shards, each its share.
  bool are_spread() {
    return becomes([&] {
      int sum = 0, least = common::kShardCount, most = 0;
      for (auto& one : coordinators_) {
        int served = one->served();
        sum += served;
        least = std::min(least, served);
        most = std::max(most, served);
      }
      return sum == static_cast<int>(common::kShardCount) && most - least <= 1;
    });
  }
  int searches() const {
    int sum = 0;
    for (const auto& one : coordinators_) sum += one->counters->searches;
    return sum;
  }
  static common::PlanKey key_of(int64_t size) {
    return {common::graph_hash(scripted_graph(size)),
            {kTarget},
            std::string(common::kDefaultPolicy),
            std::string(common::kCompilerEpoch)};
  }
  std::unique_ptr<clients::FarmClient> client(const std::string& endpoint) {
    clients::FarmClientOptions options;
    options.endpoint = endpoint;
    options.connect_ms_max = 15'000;  // also what a coordinator that is gone costs
    options.silence_ms_max = 600'000;
    return must(clients::FarmClient::connect(options));
  }
  static common::Result<clients::PulledPlan> submit(clients::FarmClient& client, int64_t size) {
    clients::SubmitRequest request;
    request.key = key_of(size);
    request.graph = common::encode_graph(scripted_graph(size));
    request.budget_candidates = 6;
    return client.submit(request, {}, {});
  }

  std::optional<RedisServer> redis_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
};

TEST_F(ShardsTest, ASubmitIsAnsweredWhoeverIsAsked) {
  start(3);
  ASSERT_TRUE(are_spread());
  auto asker = client(coordinators_[0]->endpoint());
  std::set<std::string> asked;
  constexpr int kModels = 12;
  for (int64_t size = 8; size < 8 + kModels; ++size) {
    auto plan = submit(*asker, size);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    asked.insert(asker->endpoint());
  }
  EXPECT_EQ(searches(), kModels);
  EXPECT_GT(asked.size(), 1U) << "no submit went to another coordinator";
  // Any coordinator answers who pulls.
  for (auto& coordinator : coordinators_) {
    auto puller = client(coordinator->endpoint());
    for (int64_t size = 8; size < 8 + kModels; ++size) {
      ASSERT_TRUE(becomes([&] { return must(puller->pull(key_of(size))).has_value(); }))
          << coordinator->endpoint() << " has no plan for " << size;
    }
    EXPECT_EQ(puller->endpoint(), coordinator->endpoint());
  }
  EXPECT_EQ(searches(), kModels);
}

TEST_F(ShardsTest, OthersTakeTheShardsOfOneThatGoes) {
  start(3);
  ASSERT_TRUE(are_spread());
  constexpr int kModels = 12;
  auto first = client(coordinators_[0]->endpoint());
  for (int64_t size = 8; size < 8 + kModels; ++size) ASSERT_TRUE(submit(*first, size).ok());
  int before = searches();
  int of_gone = coordinators_[2]->counters->searches;
  EXPECT_GT(of_gone, 0);
  std::string gone = coordinators_[2]->endpoint();
  coordinators_.pop_back();
  ASSERT_TRUE(are_spread());
  // The client knows the address of the one that went, and of another.
  auto later = client(cat(gone, ",", coordinators_[0]->endpoint()));
  for (int64_t size = 8; size < 8 + kModels; ++size) {
    auto plan = submit(*later, size);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->facts.cache, common::CacheOutcome::kHit);
  }
  EXPECT_EQ(searches(), before - of_gone) << "what was found is searched for again";
}

TEST_F(ShardsTest, AWriteOfAHolderThatIsNoneIsRefused) {
  start(1);
  ASSERT_TRUE(are_spread());
  // Somebody has taken the shard, and the coordinator does not know.
  cache::RemoteOptions remote;
  remote.address = must(cache::parse_remote_address(redis_->address()));
  remote.answer_ms = 600'000;
  cache::RemoteStore store(remote);
  std::string space = common::to_hex(coordinators_[0]->public_key()).substr(0, 16);
  cache::RemoteEngine engine(store, {space, 0});
  uint32_t shard = common::shard_of("local", key_of(8).graph_hash);
  auto there = must(engine.look(shard));
  EXPECT_GT(there.fence.transitions, 0U);
  common::Fence usurper{shard, there.fence.transitions + 5, common::Incarnation::draw()};
  ASSERT_EQ(must(engine.raise(usurper)).verdict, cache::FenceVerdict::kTaken);
  ASSERT_TRUE(becomes([&] {
    return must(engine.look(shard)).fence.transitions > usurper.transitions;
  })) << "the holder of the lease does not take its shard back";
  EXPECT_NE(coordinators_[0]->metric("lfarm_shard_fence_refusals{verdict=\"stale\"}"), "0");
  auto asker = client(coordinators_[0]->endpoint());
  ASSERT_TRUE(submit(*asker, 8).ok());
  ASSERT_TRUE(becomes([&] {
    return must(cache::all_names(engine, shard, cache::ShardRecord::kPlan)).size() == 1;
  }));
}

// With one coordinator. Of several, one that does not have the plans may be the first to take a
// shard whose lease is gone as well.
TEST_F(ShardsTest, AnEngineThatComesBackEmptyGetsItsPlansBack) {
  start(1);
  ASSERT_TRUE(are_spread());
  auto asker = client(coordinators_[0]->endpoint());
  for (int64_t size = 8; size < 14; ++size) ASSERT_TRUE(submit(*asker, size).ok());
  redis_->kill();
  redis_->start();
  ASSERT_TRUE(are_spread());
  cache::RemoteOptions remote;
  remote.address = must(cache::parse_remote_address(redis_->address()));
  remote.answer_ms = 600'000;
  cache::RemoteStore store(remote);
  cache::RemoteEngine engine(store,
                             {common::to_hex(coordinators_[0]->public_key()).substr(0, 16), 0});
  for (int64_t size = 8; size < 14; ++size) {
    uint32_t shard = common::shard_of("local", key_of(size).graph_hash);
    ASSERT_TRUE(becomes([&] {
      return !must(cache::all_names(engine, shard, cache::ShardRecord::kPlan)).empty();
    })) << "the plan for "
        << size << " is not put back";
  }
}

}  // namespace
}  // namespace coordinator::service
