// Coordinators with shards as processes, of which some are killed: if these fail, what a search had
// measured is lost with the coordinator that began it, nobody ends the search, or two clients have
// different plans for one graph.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cache/engine/name_walk.h"
#include "cache/engine/remote_engine.h"
#include "clients/runtime/farm/farm_client.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "common/base/secret_file.h"
#include "common/base/signing.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/process/subprocess.h"
#include "common/shard/shard.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/shards/shard_journals.h"
#include "tests/farm/service/redis_server.h"
#include "tests/farm/service/service_peers.h"
#include "tests/farm/service/service_script.h"
#include "tests/paths/paths.h"

namespace coordinator::service {
namespace {

using cache::RedisServer;
using common::cat;

const std::string kBinary = paths::binaries("/../tests/lfarm-coordinator-scripted");
constexpr const char* kTarget = "cpu-test";
constexpr auto kPatience = std::chrono::minutes(10);
constexpr int kLeaseMs = 6'000;

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

int free_port() {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
               ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no port");
  return ntohs(address.sin_port);
}

class Coordinator {
 public:
  // `key_of`: whose signing key it has, too; null: its own.
  Coordinator(const std::string& name, std::string remote, const Coordinator* key_of,
              int lease_ms = kLeaseMs)
      : scratch_(must(common::ScratchDirectory::create(name))),
        name_(name),
        remote_(std::move(remote)),
        endpoint_(cat("tcp://127.0.0.1:", free_port())),
        lease_ms_(lease_ms) {
    if (!common::make_directories(scratch_.path() + "/state").ok()) {
      throw std::runtime_error("no folder");
    }
    if (key_of != nullptr) {
      std::string bytes = must(common::read_file(key_of->key_file()));
      if (!common::create_secret_file(key_file(), bytes).ok()) throw std::runtime_error("no key");
    }
    start();
    worker = std::make_unique<FakeWorker>(endpoint_, cat(name, "-worker"), kTarget);
  }
  void start() {
    std::string file = scratch_.path() + "/endpoint";
    ::unlink(file.c_str());
    common::SpawnOptions options;
    options.arguments = {kBinary,
                         "--state",
                         scratch_.path() + "/state",
                         "--listen",
                         endpoint_,
                         "--endpoint-file",
                         file,
                         "--log",
                         "warning",
                         "--shards",
                         "64",
                         "--remote",
                         remote_,
                         "--name",
                         name_,
                         "--remote-wait-ms",
                         "10000",
                         "--shard-lease-ms",
                         cat(lease_ms_)};
    process_.emplace(must(common::Subprocess::start(options)));
    auto end = std::chrono::steady_clock::now() + kPatience;
    while (::access(file.c_str(), R_OK) != 0) {
      if (std::chrono::steady_clock::now() > end || process_->poll()) {
        throw std::runtime_error("the coordinator did not start");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  const std::string& endpoint() const { return endpoint_; }
  std::string key_file() const { return scratch_.path() + "/state/signing.key"; }
  void end(int signal) {
    process_->send_signal(signal);
    if (!process_->wait(600'000)) throw std::runtime_error("the coordinator did not end");
  }

  std::unique_ptr<FakeWorker> worker;

 private:
  common::ScratchDirectory scratch_;
  const std::string name_, remote_, endpoint_;
  const int lease_ms_;
  std::optional<common::Subprocess> process_;
};

// A client that waits for a plan in a thread of its own.
class Waiting {
 public:
  Waiting(const std::string& endpoints, const common::Graph& graph, uint64_t budget)
      : thread_([this, endpoints, graph, budget] { submit(endpoints, graph, budget); }) {}
  ~Waiting() {
    stopping_ = true;
    thread_.join();
  }
  bool is_done() const { return done_; }
  const common::Result<clients::PulledPlan>& plan() const { return *plan_; }

 private:
  void submit(const std::string& endpoints, const common::Graph& graph, uint64_t budget) {
    clients::FarmClientOptions options;
    options.endpoint = endpoints;
    options.silence_ms_max = 600'000;
    options.on_wait = [this]() -> common::Status {
      if (!stopping_) return {};
      return common::unavailable("the test is over");
    };
    clients::SubmitRequest request;
    request.key = {common::graph_hash(graph),
                   {kTarget},
                   std::string(common::kDefaultPolicy),
                   std::string(common::kCompilerEpoch)};
    request.graph = common::encode_graph(graph);
    request.budget_candidates = budget;
    auto client = clients::FarmClient::connect(options);
    plan_ = client.ok() ? (*client)->submit(request, {}, {})
                        : common::Result<clients::PulledPlan>(client.error());
    done_ = true;
  }
  std::atomic<bool> stopping_{false}, done_{false};
  std::optional<common::Result<clients::PulledPlan>> plan_;
  std::thread thread_;
};

class ShardsProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
    redis_.emplace();
    first_.emplace("one", redis_->address(), nullptr, lease_ms());
    second_.emplace("two", redis_->address(), &*first_, lease_ms());
    cache::RemoteOptions remote;
    remote.address = must(cache::parse_remote_address(redis_->address()));
    remote.answer_ms = 600'000;
    store_.emplace(remote);
    auto key = must(common::load_or_create_signing_key(first_->key_file()));
    engine_.emplace(*store_,
                    cache::RemoteEngineOptions{common::to_hex(key.public_key()).substr(0, 16), 0});
  }
  virtual int lease_ms() const { return kLeaseMs; }
  // The journal of the shard's only job in the engine; empty when there is none that is whole.
  std::optional<JournalledJob> journal(uint32_t shard) {
    std::map<common::Digest, std::string> segments;
    for (const common::Digest& name :
         must(cache::all_names(*engine_, shard, cache::ShardRecord::kJob))) {
      segments[name] = must(engine_->read(shard, cache::ShardRecord::kJob, name)).value_or("");
    }
    std::vector<cache::JobRecord> records;
    for (const auto& [name, bytes] : segments) {
      for (cache::JobRecord& one : must(decode_segment(bytes))) records.push_back(std::move(one));
    }
    auto parsed = parse_journal_as(1, records);
    if (!parsed.ok()) return std::nullopt;
    return std::move(*parsed);
  }
  bool talk(const std::function<bool()>& done) {
    return converse({first_->worker.get(), second_->worker.get()}, done);
  }

  std::optional<RedisServer> redis_;
  std::optional<Coordinator> first_, second_;
  std::optional<cache::RemoteStore> store_;
  std::optional<cache::RemoteEngine> engine_;
};

constexpr uint64_t kBudget = 12;
constexpr size_t kBefore = 5;  // results of the coordinator that ends

class ATakeover : public ShardsProcessTest, public testing::WithParamInterface<int> {};

TEST_P(ATakeover, GoesOnWithTheResultsOfBefore) {
  common::Graph graph = scripted_graph(8);
  uint32_t shard = common::shard_of(common::kLocalTenant, common::graph_hash(graph));
  first_->worker->answers_max = second_->worker->answers_max = kBefore;
  Waiting client(cat(first_->endpoint(), ",", second_->endpoint()), graph, kBudget);
  ASSERT_TRUE(talk([&] {
    auto there = journal(shard);
    return there && there->results.size() == kBefore;
  }));
  bool is_first = first_->worker->answered > 0;
  Coordinator& before = is_first ? *first_ : *second_;
  Coordinator& after = is_first ? *second_ : *first_;
  EXPECT_EQ(before.worker->answered, kBefore);
  EXPECT_EQ(after.worker->answered, 0U);
  before.end(GetParam());
  after.worker->answers_max = SIZE_MAX;
  ASSERT_TRUE(talk([&] { return client.is_done(); }));
  ASSERT_TRUE(client.plan().ok()) << client.plan().error().message;
  EXPECT_EQ(after.worker->answered, kBudget - kBefore);
  EXPECT_EQ(client.plan()->facts.candidates, kBudget);
  // What is done is not done again.
  EXPECT_TRUE(talk(
      [&] { return must(cache::all_names(*engine_, shard, cache::ShardRecord::kJob)).empty(); }));
  EXPECT_EQ(must(cache::all_names(*engine_, shard, cache::ShardRecord::kPlan)).size(), 1U);
}

// Were it to wait for as long as one may take to answer, this would not end.
TEST_F(ShardsProcessTest, AClientLeavesACoordinatorThatRefusesConnections) {
  clients::FarmClientOptions options;
  options.connect_ms_max = options.silence_ms_max = 86'400'000;
  options.endpoint =
      cat("tcp://127.0.0.1:", free_port(), ",", first_->endpoint(), ",", second_->endpoint());
  auto client = must(clients::FarmClient::connect(options));
  EXPECT_FALSE(must(client->status(common::StatusTopic::kStatus)).empty());
  first_->end(SIGKILL);
  EXPECT_FALSE(must(client->status(common::StatusTopic::kStatus)).empty());
}

// Three coordinators, of which one is killed every few seconds, and three clients that want the
// same models.
TEST_F(ShardsProcessTest, EverySubmitIsAnsweredAndAllHaveTheSamePlan) {
  constexpr int64_t kModels = 24;
  constexpr int kKills = 6;
  constexpr auto kPause = std::chrono::seconds(4);
  std::optional<Coordinator> third(std::in_place, "three", redis_->address(), &*first_);
  Coordinator* coordinators[] = {&*first_, &*second_, &*third};
  std::string all = cat(first_->endpoint(), ",", second_->endpoint(), ",", third->endpoint());
  std::vector<FakePeer*> workers;
  for (Coordinator* one : coordinators) workers.push_back(one->worker.get());
  common::Random random(7);
  std::map<int64_t, common::Digest> plans;
  int kills = 0;
  auto next_kill = std::chrono::steady_clock::now() + kPause;
  for (int64_t model = 0; model < kModels || kills < kKills; ++model) {
    common::Graph graph = scripted_graph(8 + model);
    std::vector<std::unique_ptr<Waiting>> clients;
    for (int k = 0; k < 3; ++k) clients.push_back(std::make_unique<Waiting>(all, graph, kBudget));
    ASSERT_TRUE(converse(workers,
                         [&] {
                           if (kills < kKills && std::chrono::steady_clock::now() > next_kill) {
                             Coordinator& one = *coordinators[random.below(3)];
                             one.end(SIGKILL);
                             one.start();
                             ++kills;
                             next_kill = std::chrono::steady_clock::now() + kPause;
                           }
                           return std::all_of(clients.begin(), clients.end(),
                                              [](const auto& client) { return client->is_done(); });
                         }))
        << "model " << model << " after " << kills << " kills";
    for (const auto& client : clients) {
      ASSERT_TRUE(client->plan().ok()) << client->plan().error().message;
      auto [first, is_new] = plans.emplace(model, client->plan()->id);
      EXPECT_EQ(client->plan()->id, first->second) << "model " << model;
    }
  }
  EXPECT_EQ(kills, kKills);
}

// ---- Commands that speak of all coordinators' jobs ---------------------------------------------

// A lease that one which is killed keeps for longer than the test runs.
class ShardsCommandsTest : public ShardsProcessTest {
 protected:
  int lease_ms() const override { return 60'000; }

  struct Ran {
    int code = -1;
    std::string output;
  };
  // `arguments` of lfarm, asked of the first coordinator. The workers go on meanwhile: one that is
  // silent for as long as a command may take on a busy machine counts as lost, and its jobs end.
  Ran lfarm(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), paths::binaries("/lfarm"));
    arguments.insert(arguments.end(),
                     {"--farm", first_->endpoint(), "--state", scratch_.path() + "/client"});
    auto running = std::async(std::launch::async,
                              [&] { return must(common::run_command(arguments, 600'000)); });
    using std::chrono::seconds;
    (void)talk([&] { return running.wait_for(seconds(0)) == std::future_status::ready; });
    auto run = running.get();
    return {run.status.code, run.output};
  }
  // The numbers of the jobs of a coordinator, as `lfarm jobs` tells them.
  std::vector<uint64_t> jobs_of(const Coordinator& coordinator) {
    std::vector<uint64_t> jobs;
    std::string output = lfarm({"jobs", "--json"}).output;
    size_t begin = output.find("{\"jobs\"");
    if (begin == std::string::npos) throw std::runtime_error(output);
    std::string text = output.substr(begin, output.find('\n', begin) - begin);
    const auto listed = nlohmann::json::parse(text);
    for (const auto& row : listed.at("jobs")) {
      if (row.value("coordinator", "") == coordinator.endpoint()) jobs.push_back(row.at("job"));
    }
    return jobs;
  }

  common::ScratchDirectory scratch_ = must(common::ScratchDirectory::create("lfarm-cli"));
};

TEST_F(ShardsCommandsTest, JobsAndCancelAskAllAndSayWhoIsAway) {
  constexpr size_t kModels = 8;
  first_->worker->answers_max = second_->worker->answers_max = 0;
  std::string all = cat(first_->endpoint(), ",", second_->endpoint());
  std::vector<std::unique_ptr<Waiting>> clients;
  for (size_t k = 0; k < kModels; ++k) {
    clients.push_back(
        std::make_unique<Waiting>(all, scripted_graph(8 + static_cast<int64_t>(k)), kBudget));
  }
  std::vector<uint64_t> of_first, of_second;
  ASSERT_TRUE(talk([&] {
    of_first = jobs_of(*first_);
    of_second = jobs_of(*second_);
    return !of_first.empty() && !of_second.empty() && of_first.size() + of_second.size() == kModels;
  }));
  // Numbers are of one job only, and whoever is asked finds it.
  for (uint64_t job : of_first) {
    EXPECT_EQ(std::count(of_second.begin(), of_second.end(), job), 0) << job;
  }
  Ran cancelled = lfarm({"cancel", cat(of_second[0])});
  EXPECT_EQ(cancelled.code, 0) << cancelled.output;
  EXPECT_EQ(jobs_of(*first_).size(), of_first.size());
  EXPECT_EQ(jobs_of(*second_).size(), of_second.size() - 1);
  Ran trace = lfarm({"jobs", "trace", cat(of_second[0])});
  EXPECT_EQ(trace.code, 0) << trace.output;
  Ran unknown = lfarm({"cancel", "999999999"});
  EXPECT_EQ(unknown.code, 2) << unknown.output;

  second_->end(SIGKILL);
  Ran jobs = lfarm({"jobs"});
  EXPECT_EQ(jobs.code, 4);
  EXPECT_NE(jobs.output.find(second_->endpoint()), std::string::npos) << jobs.output;
  EXPECT_NE(jobs.output.find(cat(of_first[0], ' ')), std::string::npos) << jobs.output;
  EXPECT_EQ(lfarm({"cancel", "999999999"}).code, 4) << "the one that is away may have the job";
  Ran rest = lfarm({"cancel", "--all"});
  EXPECT_EQ(rest.code, 4) << rest.output;
  EXPECT_TRUE(jobs_of(*first_).empty()) << rest.output;
}

INSTANTIATE_TEST_SUITE_P(After, ATakeover, testing::Values(SIGKILL, SIGTERM), [](const auto& info) {
  return info.param == SIGKILL ? "Kill" : "Termination";
});

}  // namespace
}  // namespace coordinator::service
