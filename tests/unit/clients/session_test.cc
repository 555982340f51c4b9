// Sessions, their files and their farms: if these fail, a program that asks for one model's plan
// waits for the disk to bring another's, or is slow for want of a plan and nobody says why.
#include "clients/runtime/session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/ir/hlir/builder.h"
#include "tests/unit/service/kept_plan.h"

namespace clients {
namespace {

using common::Digest;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Puts a pipe in the place of the only plan on the disk: who reads it waits until it is closed.
std::string make_plan_a_pipe(const std::string& directory) {
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".plan") path = entry.path();
  }
  std::filesystem::remove(path);
  return ::mkfifo(path.c_str(), 0600) == 0 ? path : "";
}

// Of a pipe that somebody reads or is about to read; -1 when nobody does in time.
int open_for_reader(const std::string& pipe) {
  for (auto end = std::chrono::steady_clock::now() + seconds(30);
       std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(milliseconds(1))) {
    int fd = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) return fd;
  }
  return -1;
}

TEST(Session, AFileThatIsReadHoldsUpNoOtherPlan) {
  auto scratch = common::ScratchDirectory::create("lfarm-session").value();
  SessionOptions options;
  options.access.state = {scratch.path()};
  options.device = "cpu";
  const Digest slow_graph = common::digest_of("slow");
  auto session = Session::open(options).value();
  common::Plan plan;
  plan.key = session->key_of(slow_graph);
  ASSERT_TRUE(common::keep_plan(scratch.path(), slow_graph, plan, {}).ok());
  const std::string pipe = make_plan_a_pipe(options.access.state.client_plans());
  ASSERT_FALSE(pipe.empty());

  auto slow = std::async(std::launch::async, [&] { return session->request(slow_graph); });
  int writer = open_for_reader(pipe);
  ASSERT_GE(writer, 0) << "the session does not look for the plan on the disk";
  auto other =
      std::async(std::launch::async, [&] { return session->request(common::digest_of("other")); });
  bool other_is_there = other.wait_for(seconds(20)) == std::future_status::ready;
  bool slow_waits = slow.wait_for(seconds(0)) == std::future_status::timeout;
  // An empty file is a damaged plan, which counts as none.
  ::close(writer);
  EXPECT_TRUE(other_is_there) << "a request waits while another plan's file is read";
  EXPECT_TRUE(slow_waits) << "nothing was read while the other request was made";
  EXPECT_EQ(slow.get()->plan(), nullptr);
  EXPECT_EQ(other.get()->plan(), nullptr);
}

TEST(Session, AGraphThatRunsWithoutAPlanIsSaidOnce) {
  auto scratch = common::ScratchDirectory::create("lfarm-session").value();
  SessionOptions options;
  options.access.state = {scratch.path()};
  options.access.endpoint = "tcp://127.0.0.1:1";
  options.device = "cpu";
  common::GraphBuilder builder;
  builder.output(builder.input(common::InputKind::kUser, common::DType::kFloat32, {4}, "x"));
  const common::Graph graph = builder.finish();
  common::log_init_library();
  testing::internal::CaptureStderr();
  {
    auto session = Session::open(options).value();
    EXPECT_EQ(session->request(graph, "copy")->wait(seconds(600)), nullptr);
    EXPECT_EQ(session->request(graph, "copy")->wait(seconds(600)), nullptr);
    // The caller who has no graph to run gets the error.
    auto unknown = session->request(common::digest_of("unknown"));
    EXPECT_EQ(unknown->wait(seconds(600)), nullptr);
    EXPECT_FALSE(unknown->status().ok());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("a graph runs without a plan for now: no farm answers at tcp://127.0.0.1:1"),
            std::string::npos)
      << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

}  // namespace
}  // namespace clients
