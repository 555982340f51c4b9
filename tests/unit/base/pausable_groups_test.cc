// Process groups that stop and go on together.
#include "common/process/pausable_groups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/pipe.h"
#include "common/process/subprocess.h"

namespace common {
namespace {

// As the kernel tells it: 'S' sleeps, 'T' is stopped.
char state_of(pid_t pid) {
  std::ifstream stat(cat("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  size_t end = text.rfind(')');
  return end == std::string::npos ? '?' : text.at(end + 2);
}

bool comes_to(pid_t pid, bool stopped) {
  for (int k = 0; k < 60'000; ++k) {
    if ((state_of(pid) == 'T') == stopped) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

Subprocess start_sleeper() {
  SpawnOptions options;
  options.arguments = {"sleep", "1000"};
  options.new_process_group = true;
  return Subprocess::start(options).value();
}

TEST(PausableGroups, StopAndGoOn) {
  Subprocess first = start_sleeper(), second = start_sleeper(), stranger = start_sleeper();
  PausableGroups groups;
  groups.add(first.pid());
  groups.add(second.pid());
  groups.pause();
  EXPECT_TRUE(comes_to(first.pid(), true));
  EXPECT_TRUE(comes_to(second.pid(), true));
  EXPECT_TRUE(comes_to(stranger.pid(), false));
  groups.resume();
  EXPECT_TRUE(comes_to(first.pid(), false));
  EXPECT_TRUE(comes_to(second.pid(), false));
}

TEST(PausableGroups, WhoComesDuringAPauseStopsAndWhoLeavesGoesOn) {
  Subprocess child = start_sleeper();
  PausableGroups groups;
  groups.pause();
  groups.add(child.pid());
  EXPECT_TRUE(comes_to(child.pid(), true));
  groups.remove(child.pid());
  EXPECT_TRUE(comes_to(child.pid(), false));
}

TEST(PausableGroups, ACommandEndsAfterThePauseAndNotInIt) {
  auto scratch = ScratchDirectory::create("lfarm-pausable").value();
  std::string pid_path = scratch.path() + "/pid";
  PipePair pipe = make_pipe().value();
  PausableGroups groups;
  SpawnOptions options;
  options.arguments = {"sh", "-c", cat("echo $$ > ", pid_path, "; read line; echo $line")};
  options.stdin_fd = pipe.child;
  options.pausable = &groups;
  std::atomic<bool> has_ended = false;
  Result<CommandOutput> output = internal_error("it did not run");
  std::thread runner([&] {
    output = run_command(options, 600'000);
    has_ended = true;
  });
  pid_t pid = 0;
  while (pid == 0) {
    std::ifstream(pid_path) >> pid;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  groups.pause();
  EXPECT_TRUE(comes_to(pid, true));
  EXPECT_EQ(::write(pipe.parent, "done\n", 5), 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_ended);
  groups.resume();
  runner.join();
  ::close(pipe.parent);
  ::close(pipe.child);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->output, "done\n");
  EXPECT_EQ(output->status.code, 0);
}

}  // namespace
}  // namespace common
