// The coordinator as a process: if these fail, a stopped or killed coordinator loses work, or a
// mistake on its command line is hard to understand.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cache/store/store.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"
#include "coordinator/service/journal/job_journal.h"
#include "tests/farm/service/service_peers.h"
#include "tests/farm/service/service_script.h"
#include "tests/paths/paths.h"

namespace coordinator::service {
namespace {

using common::cat;

const std::string kBinary = paths::binaries("/../tests/lfarm-coordinator-scripted");
constexpr const char* kTarget = "cpu-test";

class ServiceProcessTest : public testing::Test {
 protected:
  ServiceProcessTest() : scratch_(scratch()) {}

  std::string state() const { return scratch_.path() + "/state"; }

  void start() {
    std::string file = scratch_.path() + "/endpoint";
    ::unlink(file.c_str());
    common::SpawnOptions options;
    options.arguments = {kBinary,           "--state", state(), "--listen", "tcp://127.0.0.1:0",
                         "--endpoint-file", file,      "--log", "warning"};
    auto process = common::Subprocess::start(options);
    if (!process.ok()) throw std::runtime_error(process.error().message);
    process_.emplace(std::move(process).value());
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (::access(file.c_str(), R_OK) != 0) {
      if (std::chrono::steady_clock::now() > end || process_->poll()) {
        throw std::runtime_error("the coordinator did not start");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    endpoint_ = common::read_file(file).value();
    endpoint_.pop_back();  // the newline
  }
  common::ExitStatus end(int signal) {
    process_->send_signal(signal);
    auto status = process_->wait(600'000);
    if (!status) throw std::runtime_error("the coordinator did not end");
    return *status;
  }
  static common::Submit request(uint64_t budget) {
    common::Submit submit;
    submit.target = kTarget;
    submit.budget_candidates = budget;
    return submit;
  }

  std::string endpoint_;

 private:
  static common::ScratchDirectory scratch() {
    auto made = common::ScratchDirectory::create("service_process");
    if (!made.ok()) throw std::runtime_error(made.error().message);
    return std::move(made).value();
  }
  common::ScratchDirectory scratch_;
  std::optional<common::Subprocess> process_;
};

TEST_F(ServiceProcessTest, SigtermTellsClientsAndLeavesAStoreThatOpens) {
  start();
  FakeWorker worker(endpoint_, "w1", kTarget);
  worker.answers_max = 2;
  FakeClient client(endpoint_);
  client.submit(scripted_graph(8), request(6));
  ASSERT_TRUE(converse({&worker, &client}, [&] { return worker.tasks.size() >= 3; }));
  common::ExitStatus status = end(SIGTERM);
  EXPECT_EQ(status.code, 0);
  EXPECT_EQ(status.signal, 0);
  ASSERT_TRUE(converse({&client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
  EXPECT_EQ(client.last<common::JobFailed>()->code, common::Code::kUnavailable);
  auto store = cache::Store::open(state());
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_EQ(list_journals(**store).value().open.size(), 1u);
}

TEST_F(ServiceProcessTest, AKilledCoordinatorGoesOnWhereItWas) {
  start();
  constexpr uint64_t kBudget = 12;
  auto before = std::make_unique<FakeWorker>(endpoint_, "w1", kTarget);
  before->answers_max = 5;
  auto client = std::make_unique<FakeClient>(endpoint_);
  client->submit(scripted_graph(8), request(kBudget));
  ASSERT_TRUE(converse({before.get(), client.get()}, [&] {
    const auto* progress = client->last<common::Progress>();
    return progress != nullptr && progress->candidates_done == 5;
  }));
  uint64_t job = client->last<common::Accepted>()->job_id;
  EXPECT_EQ(end(SIGKILL).signal, SIGKILL);
  client.reset();
  before.reset();

  start();
  FakeClient again(endpoint_);
  again.submit(scripted_graph(8), request(kBudget), false);
  ASSERT_TRUE(converse({&again}, [&] { return again.last<common::Accepted>() != nullptr; }));
  EXPECT_EQ(again.last<common::Accepted>()->job_id, job);
  EXPECT_TRUE(again.last<common::Accepted>()->joined);
  FakeWorker after(endpoint_, "w1", kTarget);
  ASSERT_TRUE(converse({&after, &again}, [&] { return again.plan() != nullptr; }));
  EXPECT_EQ(after.answered, kBudget - 5);
  EXPECT_EQ(again.last<common::PlanReady>()->candidates, kBudget);
  EXPECT_EQ(end(SIGINT).code, 0);
  auto store = cache::Store::open(state());
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_TRUE(list_journals(**store).value().open.empty());
  EXPECT_EQ(list_journals(**store).value().closed, std::vector<farm::JobId>{job});
}

// The worker outlives the coordinator and answers under its old leases: what it says counts once,
// and only under a lease of the new coordinator.
TEST_F(ServiceProcessTest, LeasesOfAKilledCoordinatorAreVoidForTheNext) {
  start();
  constexpr uint64_t kBudget = 8;
  auto worker = std::make_unique<FakeWorker>(endpoint_, "w1", kTarget);
  auto client = std::make_unique<FakeClient>(endpoint_);
  worker->answers_max = 3;
  client->submit(scripted_graph(8), request(kBudget));
  ASSERT_TRUE(converse({worker.get(), client.get()}, [&] {
    const auto* progress = client->last<common::Progress>();
    return progress != nullptr && progress->candidates_done == 3 && worker->held.size() == 2;
  }));
  std::vector<common::TaskLease> before(worker->held.begin(), worker->held.end());
  EXPECT_EQ(end(SIGKILL).signal, SIGKILL);
  client.reset();
  worker.reset();

  start();
  FakeWorker again(endpoint_, "w1", kTarget);
  again.answers_max = 0;
  FakeClient next(endpoint_);
  for (int i = 0; i < 2; ++i) next.submit(scripted_graph(8), request(kBudget), false);
  ASSERT_TRUE(converse({&again, &next}, [&] {
    return again.held.size() == 2 && next.count<common::Accepted>() == 2;
  }));
  for (const common::Packet& packet : next.inbox) {
    const auto* accepted = std::get_if<common::Accepted>(&packet.message);
    EXPECT_TRUE(accepted == nullptr || accepted->joined);
  }
  for (const common::TaskLease& lease : before) {
    EXPECT_EQ(again.held.count(lease), 0u);
    common::TaskResult late;
    late.lease = lease;
    late.outcome = common::TaskOutcome::kWrong;
    for (int twice = 0; twice < 2; ++twice) again.send(late);
  }
  again.release();
  ASSERT_TRUE(converse({&again, &next}, [&] { return next.count<common::PlanReady>() == 2; }));
  EXPECT_EQ(again.answered, kBudget - 3);
  EXPECT_EQ(next.last<common::PlanReady>()->candidates, kBudget);
}

TEST_F(ServiceProcessTest, AllOpenTasksAreHandedOutAgainAndNoResultIsLost) {
  start();
  constexpr uint64_t kBudget = 1500, kKnown = 100;
  constexpr uint32_t kSlots = 256;
  std::vector<std::unique_ptr<FakeWorker>> workers;
  std::vector<FakePeer*> peers;
  auto add_workers = [&](size_t answers) {
    peers.clear();
    workers.clear();
    for (const char* name : {"w1", "w2", "w3", "w4"}) {
      workers.push_back(std::make_unique<FakeWorker>(endpoint_, name, kTarget, kSlots));
      workers.back()->answers_max = answers;
      peers.push_back(workers.back().get());
    }
  };
  auto all_hold = [&] {
    return std::all_of(workers.begin(), workers.end(),
                       [](const auto& worker) { return worker->held.size() == kSlots; });
  };
  add_workers(kKnown / 4);
  auto client = std::make_unique<FakeClient>(endpoint_);
  client->submit(scripted_graph(8), request(kBudget));
  peers.push_back(client.get());
  ASSERT_TRUE(converse(peers, [&] {
    const auto* progress = client->last<common::Progress>();
    return progress != nullptr && progress->candidates_done == kKnown && all_hold();
  }));
  EXPECT_EQ(end(SIGKILL).signal, SIGKILL);
  client.reset();

  start();
  add_workers(0);
  FakeClient again(endpoint_);
  again.submit(scripted_graph(8), request(kBudget), false);
  peers.push_back(&again);
  ASSERT_TRUE(converse(peers, all_hold));
  for (auto& worker : workers) worker->release();
  ASSERT_TRUE(converse(peers, [&] { return again.plan() != nullptr; }));
  size_t answered = 0;
  for (const auto& worker : workers) answered += worker->answered;
  EXPECT_EQ(answered, kBudget - kKnown);
  EXPECT_EQ(again.last<common::PlanReady>()->candidates, kBudget);
}

TEST_F(ServiceProcessTest, MistakesAreOneLineAndExitTwo) {
  start();
  auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  auto busy = common::run_command(
      {kBinary, "--state", state() + "2", "--listen", endpoint_, "--log", "off"}, 600'000);
  ASSERT_TRUE(busy.ok());
  EXPECT_EQ(busy->status.code, 2);
  EXPECT_EQ(lines(busy->output), 1) << busy->output;
  EXPECT_NE(busy->output.find("address in use"), std::string::npos) << busy->output;

  auto open = common::run_command(
      {kBinary, "--state", state() + "2", "--listen", "tcp://0.0.0.0:0", "--log", "off"}, 600'000);
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->status.code, 2) << open->output;
  EXPECT_EQ(lines(open->output), 1) << open->output;

  auto shared = common::run_command(
      {kBinary, "--state", state(), "--listen", "tcp://127.0.0.1:0", "--log", "off"}, 600'000);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->status.code, 4) << shared->output;

  auto unknown = common::run_command({kBinary, "--no-such-option"}, 600'000);
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->status.code, 2);
}

}  // namespace
}  // namespace coordinator::service
