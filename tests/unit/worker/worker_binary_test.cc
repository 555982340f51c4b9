// lfarm-worker as a process: exit codes, the good-bye on SIGTERM, and what it leaves behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"
#include "common/wire/socket.h"
#include "tests/paths/paths.h"

namespace worker {
namespace {

const std::string kWorker = paths::binaries("/lfarm-worker");
constexpr int kPatienceMs = 600'000;

class WorkerBinaryTest : public testing::Test {
 protected:
  WorkerBinaryTest() : state_(std::move(common::ScratchDirectory::create("lfarm-test")).value()) {}

  common::CommandOutput run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kWorker);
    auto output = common::run_command(arguments, kPatienceMs);
    EXPECT_TRUE(output.ok());
    return output.ok() ? *output : common::CommandOutput{};
  }
  common::Subprocess start(const std::string& endpoint) {
    common::SpawnOptions options;
    options.arguments = {kWorker,    "--farm", endpoint,  "--name",     "w1",
                         "--device", "cpu",    "--state", state_.path()};
    auto child = common::Subprocess::start(options);
    EXPECT_TRUE(child.ok());
    return std::move(child).value();
  }
  // The first message of type T from the worker.
  template <class T>
  bool receive(common::RouterSocket& router, std::string* peer) {
    common::SteadyClock clock;
    int64_t end = clock.now_ns() + int64_t{kPatienceMs} * 1'000'000;
    common::Poller poller;
    poller.watch(router);
    std::vector<common::Arrival> arrivals;
    while (clock.now_ns() < end) {
      if (!poller.wait(50).ok()) return false;
      arrivals.clear();
      router.receive(arrivals, 10);
      for (const common::Arrival& arrival : arrivals) {
        *peer = arrival.peer;
        if (arrival.packet.ok() && std::holds_alternative<T>(arrival.packet->message)) return true;
      }
    }
    return false;
  }

  common::ScratchDirectory state_;
};

TEST_F(WorkerBinaryTest, MistakesExitWithTwoAndOneLine) {
  const std::vector<std::string> mistakes[] = {{"--device", "abacus"},
                                               {"--farm", "nonsense", "--state", state_.path()},
                                               {"--slots", "0"},
                                               {"--farm-key", "x"},
                                               {"--no-such-option"}};
  for (const std::vector<std::string>& arguments : mistakes) {
    common::CommandOutput output = run(arguments);
    EXPECT_EQ(output.status.code, 2) << arguments[0] << ": " << output.output;
    EXPECT_EQ(std::count(output.output.begin(), output.output.end(), '\n'), 1) << output.output;
  }
}

TEST_F(WorkerBinaryTest, ADeviceThatIsNotThereIsNamed) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // where there is a GPU
  common::CommandOutput output = run({"--device", "cuda", "--state", state_.path()});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(output.status.code, 2);
  EXPECT_NE(output.output.find("no device to work on: cuda: "), std::string::npos) << output.output;
  EXPECT_NE(output.output.find("driver"), std::string::npos) << output.output;
  EXPECT_EQ(std::count(output.output.begin(), output.output.end(), '\n'), 1) << output.output;
}

TEST_F(WorkerBinaryTest, CleansUpAfterAKilledOne) {
  common::WireContext context;
  auto router = common::RouterSocket::bind(context, {"tcp://127.0.0.1:*", std::nullopt, {}, {}});
  ASSERT_TRUE(router.ok());
  std::string temporary = state_.path() + "/tmp", peer;
  ASSERT_TRUE(common::make_directories(temporary).ok());
  ::setenv("TMPDIR", temporary.c_str(), 1);
  auto folders = [&] {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(temporary)) {
      all.push_back(entry.path().filename());
    }
    return all;
  };
  common::Subprocess killed = start(router->endpoint());
  ASSERT_TRUE(receive<common::WorkerHello>(*router, &peer));
  std::vector<std::string> first = folders();
  EXPECT_EQ(first.size(), 1u);
  killed.send_signal(SIGKILL);
  ASSERT_TRUE(killed.wait(kPatienceMs).has_value());
  EXPECT_EQ(folders(), first);
  {
    // A child that it had just started may hold its lock for a moment longer.
    std::string name = temporary + "/" + first.at(0) + "/owner.lock";
    int lock = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::flock(lock, LOCK_EX), 0);
    ::close(lock);
  }
  common::Subprocess worker = start(router->endpoint());
  std::string other = peer;
  while (other == peer) ASSERT_TRUE(receive<common::WorkerHello>(*router, &other));
  ::unsetenv("TMPDIR");
  std::vector<std::string> second = folders();
  EXPECT_EQ(second.size(), 1u);
  EXPECT_NE(second, first);
  worker.send_signal(SIGTERM);
  ASSERT_TRUE(worker.wait(kPatienceMs).has_value());
  EXPECT_TRUE(folders().empty());
}

TEST_F(WorkerBinaryTest, StopsOnSigtermWhenTheCoordinatorHasGone) {
  common::WireContext context;
  auto router = common::RouterSocket::bind(context, {"tcp://127.0.0.1:*", std::nullopt, {}, {}});
  ASSERT_TRUE(router.ok());
  common::Subprocess worker = start(router->endpoint());
  std::string peer;
  ASSERT_TRUE(receive<common::WorkerHello>(*router, &peer));
  { common::RouterSocket gone = std::move(router).value(); }
  worker.send_signal(SIGTERM);
  auto status = worker.wait(kPatienceMs);
  ASSERT_TRUE(status.has_value()) << "the worker does not stop";
  EXPECT_EQ(status->signal, 0);
  EXPECT_EQ(status->code, 0);
}

TEST_F(WorkerBinaryTest, SaysGoodbyeOnSigterm) {
  common::WireContext context;
  auto router = common::RouterSocket::bind(context, {"tcp://127.0.0.1:*", std::nullopt, {}, {}});
  ASSERT_TRUE(router.ok());
  common::Subprocess worker = start(router->endpoint());
  std::string peer;
  ASSERT_TRUE(receive<common::WorkerHello>(*router, &peer));
  common::Welcome welcome;
  welcome.coordinator_id = "c1";
  welcome.heartbeat_ms = 100;
  EXPECT_EQ(router->send(peer, welcome), common::SendOutcome::kSent);
  ASSERT_TRUE(receive<common::Credit>(*router, &peer));
  worker.send_signal(SIGTERM);
  EXPECT_TRUE(receive<common::WorkerBye>(*router, &peer));
  auto status = worker.wait(kPatienceMs);
  ASSERT_TRUE(status.has_value()) << "the worker does not stop";
  EXPECT_EQ(status->signal, 0);
  EXPECT_EQ(status->code, 0);
}

}  // namespace
}  // namespace worker
