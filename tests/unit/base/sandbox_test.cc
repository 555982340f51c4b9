// What confined children can no longer do, each tried by a child: this binary is that child. Each
// test runs its deed outside the sandbox first, where it must succeed, so that a refusal is the
// sandbox's doing.
#include "common/sandbox/sandbox.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/priority.h"

namespace common {
namespace {

constexpr const char* kChildFlag = "--child";
constexpr int kPatienceMs = 600'000;
constexpr const char* kSelf = "/proc/self/exe";

std::string outcome(long result) {
  return result >= 0 ? "ok" : errno == EPERM ? "EPERM" : std::strerror(errno);
}

std::string connect_to(const std::string& port) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return outcome(fd);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return outcome(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
}

std::string status_line(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":\t", 0) == 0) return line.substr(name.size() + 2);
  }
  return "";
}

std::string open_descriptors() {
  std::string found;
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) found += cat(fd, " ");
  }
  return found;
}

std::string fork_once() {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  return outcome(pid);
}

std::string measures_here() {
  std::string text;
  auto sandbox = Sandbox::find(SandboxProfile::kComputing);
  for (const SandboxMeasure& measure : sandbox->measures()) {
    text += cat(measure.name, "=", measure.on ? "on" : measure.what, "\n");
  }
  return text;
}

std::string as_lone_process() {
  Status alone = become_lone_process();
  if (!alone.ok()) return alone.error().message;
  std::string said = cat("fork ", fork_once());
  said += cat(", kill ", outcome(::kill(::getppid(), 0)));
  said += cat(", own ", outcome(::kill(::getpid(), 0)));
  bool ran = false;
  std::thread([&] { ran = true; }).join();
  said += cat(", thread ", ran ? "ok" : "lost");
  // None of these is on a list of what is refused.
  int descriptors[2] = {-1, -1};
  said += cat(", pair ", outcome(::socketpair(AF_UNIX, SOCK_STREAM, 0, descriptors)));
  said += cat(", ioctl ", outcome(::ioctl(0, FIONREAD, descriptors)));
  said += cat(", session ", outcome(::setsid()));
  said += cat(", inotify ", outcome(::syscall(SYS_inotify_init1, 0)));
  said += cat(", unheard-of ", outcome(::syscall(1'000'000)));
  ::execl("/bin/true", "true", nullptr);
  return cat(said, ", exec ", outcome(-1));
}

// Starts a confined child that waits for ever, prints its number, and waits to be killed.
std::string hold_a_child(const std::string& directory) {
  auto sandbox = Sandbox::find(SandboxProfile::kComputing);
  SpawnOptions options;
  options.arguments = {kSelf, kChildFlag, "wait"};
  auto child = start_confined(std::move(options), sandbox.get(), directory);
  if (!child.ok()) return child.error().message;
  std::printf("%d\n", child->pid());
  std::fflush(stdout);
  while (true) ::pause();
}

std::string do_deed(const std::string& deed, const std::string& detail) {
  if (deed == "connect") return connect_to(detail);
  if (deed == "unix") return outcome(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (deed == "ptrace") return outcome(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
  if (deed == "mount") return outcome(::mount("none", "/mnt", "tmpfs", 0, nullptr));
  if (deed == "unshare") return outcome(::unshare(CLONE_NEWUSER));
  if (deed == "io_uring") {
    io_uring_params params{};
    return outcome(::syscall(SYS_io_uring_setup, 1, &params));
  }
  if (deed == "peek") {
    char byte = 1, copy = 0;
    iovec from{&byte, 1}, to{&copy, 1};
    return outcome(::process_vm_readv(::getpid(), &to, 1, &from, 1, 0));
  }
  if (deed == "fork") return fork_once();
  if (deed == "tmp") {
    std::ofstream(cat(std::getenv("TMPDIR"), "/mark")) << "seen";
    return std::getenv("TMPDIR");
  }
  if (deed == "write") return outcome(::open(detail.c_str(), O_WRONLY | O_CREAT, 0600));
  if (deed == "status") return status_line(detail);
  if (deed == "oom") return read_file("/proc/self/oom_score_adj").value();
  if (deed == "fds") return open_descriptors();
  if (deed == "core") {
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    return cat(limit.rlim_max);
  }
  if (deed == "measures") return measures_here();
  if (deed == "alone") return as_lone_process();
  if (deed == "hold") return hold_a_child(detail);
  while (deed == "wait") ::pause();
  return "no such deed";
}

class SandboxTest : public testing::Test {
 protected:
  explicit SandboxTest(SandboxProfile profile = SandboxProfile::kComputing)
      : sandbox_(find(profile)), scratch_(ScratchDirectory::create("lfarm-sandbox-test").value()) {}

  static std::shared_ptr<const Sandbox> find(SandboxProfile profile) {
    static std::map<SandboxProfile, std::shared_ptr<const Sandbox>> found;
    auto& slot = found[profile];
    if (slot == nullptr) slot = Sandbox::find(profile);
    return slot;
  }
  bool is_on(const std::string& name) const {
    for (const SandboxMeasure& measure : sandbox_->measures()) {
      if (measure.name == name) return measure.on;
    }
    return false;
  }
  std::string run(const Sandbox* sandbox, const std::string& deed, const std::string& detail) {
    SpawnOptions options;
    options.arguments = {kSelf, kChildFlag, deed, detail};
    auto output = run_confined(std::move(options), sandbox, scratch_.path(), kPatienceMs);
    if (!output.ok()) return output.error().message;
    EXPECT_EQ(output->status.signal, 0) << deed;
    return output->output;
  }
  std::string inside(const std::string& deed, const std::string& detail = "") {
    return run(sandbox_.get(), deed, detail);
  }
  std::string outside(const std::string& deed, const std::string& detail = "") {
    return run(nullptr, deed, detail);
  }

  std::shared_ptr<const Sandbox> sandbox_;
  ScratchDirectory scratch_;
};

#define NEEDS(measure) \
  if (!is_on(measure)) GTEST_SKIP() << sandbox_->describe()

TEST_F(SandboxTest, EveryMeasureIsOnOrSaysWhyNot) {
  EXPECT_EQ(sandbox_->measures().size(), 9u);
  for (const SandboxMeasure& measure : sandbox_->measures()) {
    EXPECT_FALSE(measure.what.empty()) << measure.name;
    EXPECT_NE(sandbox_->describe().find(measure.name), std::string::npos);
  }
}

TEST_F(SandboxTest, NoConnectionToLoopback) {
  NEEDS("system call filter");
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::string port = cat(ntohs(address.sin_port));
  EXPECT_EQ(outside("connect", port), "ok");
  EXPECT_EQ(inside("connect", port), "EPERM");
  ::close(listener);
}

TEST_F(SandboxTest, TheKernelRefusesWhatNoCandidateNeeds) {
  NEEDS("system call filter");
  for (const char* deed : {"unix", "ptrace", "peek", "unshare"}) {
    EXPECT_EQ(outside(deed), "ok") << deed;
    EXPECT_EQ(inside(deed), "EPERM") << deed;
  }
  // Which not every machine allows outside either.
  for (const char* deed : {"mount", "io_uring"}) EXPECT_EQ(inside(deed), "EPERM") << deed;
  EXPECT_EQ(inside("fork"), "ok");
}

TEST_F(SandboxTest, TemporaryFilesAreSeenByNobody) {
  std::string mark = scratch_.path() + "/mark";
  EXPECT_EQ(outside("tmp"), scratch_.path());
  EXPECT_TRUE(std::filesystem::remove(mark));
  NEEDS("private temporary directory");
  EXPECT_EQ(inside("tmp"), scratch_.path());
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(SandboxTest, OtherFilesAreOnlyRead) {
  auto other = ScratchDirectory::create("lfarm-sandbox-other").value();
  EXPECT_EQ(outside("write", other.path() + "/outside"), "ok");
  NEEDS("read-only files");
  EXPECT_EQ(inside("write", other.path() + "/inside"), std::strerror(EROFS));
  EXPECT_EQ(inside("write", other.path() + "/outside"), std::strerror(EROFS));
  EXPECT_EQ(inside("write", scratch_.path() + "/own"), "ok");
}

TEST_F(SandboxTest, NoRightsAreLeft) {
  NEEDS("no capabilities");
  for (const char* set : {"CapPrm", "CapEff", "CapInh", "CapAmb"}) {
    EXPECT_EQ(inside("status", set), "0000000000000000") << set;
  }
  EXPECT_EQ(inside("status", "NoNewPrivs"), "1");
  EXPECT_EQ(inside("core"), "0");
}

TEST_F(SandboxTest, TheFirstToGoWhenMemoryRunsOut) {
  NEEDS("memory victim");
  EXPECT_EQ(inside("oom"), "1000\n");
}

TEST_F(SandboxTest, NoDescriptorsAreInherited) {
  int leak = ::open("/dev/null", O_RDONLY);  // not closed on exec
  EXPECT_EQ(outside("fds"), "0 1 2 ");
  EXPECT_EQ(inside("fds"), "0 1 2 ");
  ::close(leak);
}

// Inside a sandbox the kernel refuses namespaces, as it does in many containers.
TEST_F(SandboxTest, WhatTheKernelRefusesIsNamedAndLeftOut) {
  NEEDS("system call filter");
  std::string here = inside("measures");
  EXPECT_NE(here.find("user namespace=unshare: "), std::string::npos) << here;
  EXPECT_NE(here.find("network namespace=unshare: "), std::string::npos) << here;
  EXPECT_NE(here.find("private temporary directory=unshare: "), std::string::npos) << here;
  EXPECT_NE(here.find("system call filter=on"), std::string::npos) << here;
}

TEST_F(SandboxTest, ALoneProcessHasThreadsAndNothingElse) {
  NEEDS("system call filter");
  std::string no = std::strerror(ENOSYS);
  EXPECT_EQ(inside("alone"),
            cat("fork EPERM, kill EPERM, own ok, thread ok, pair ", no, ", ioctl ", no,
                ", session ", no, ", inotify ", no, ", unheard-of ", no, ", exec EPERM"));
}

TEST_F(SandboxTest, ChildrenDieWithTheirParent) {
  int lines[2];
  ASSERT_EQ(::pipe2(lines, O_CLOEXEC), 0);
  SpawnOptions options;
  options.arguments = {kSelf, kChildFlag, "hold", scratch_.path()};
  options.stdout_fd = lines[1];
  auto parent = Subprocess::start(options);
  ::close(lines[1]);
  ASSERT_TRUE(parent.ok());
  FILE* from = ::fdopen(lines[0], "r");
  int child = 0;
  ASSERT_EQ(std::fscanf(from, "%d", &child), 1);
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  ASSERT_GE(pidfd, 0);
  parent->kill();
  pollfd ended{pidfd, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, kPatienceMs), 1) << "the child has outlived its parent";
  ::close(pidfd);
  std::fclose(from);
}

class DeviceSandboxTest : public SandboxTest {
 protected:
  DeviceSandboxTest() : SandboxTest(SandboxProfile::kDevice) {}
};

TEST_F(DeviceSandboxTest, DriversSpeakWithTheirDaemonsOnly) {
  NEEDS("system call filter");
  EXPECT_EQ(inside("unix"), "ok");
  EXPECT_EQ(inside("connect", "1"), "EPERM");
  EXPECT_EQ(inside("tmp"), scratch_.path());
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() + "/mark")) << "something was mounted";
}

class CompilingSandboxTest : public SandboxTest {
 protected:
  CompilingSandboxTest() : SandboxTest(SandboxProfile::kCompiling) {}
};

TEST_F(CompilingSandboxTest, CompilersStartProgramsAndLeaveFiles) {
  EXPECT_EQ(inside("fork"), "ok");
  EXPECT_EQ(inside("tmp"), scratch_.path());
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() + "/mark"));
  NEEDS("system call filter");
  EXPECT_EQ(inside("connect", "1"), "EPERM");
}

// Compilers run beside measurements, which must not wait for them.
TEST(RunCommand, WhatRunsInTheBackgroundGivesWay) {
  auto niceness = [](bool in_background) {
    SpawnOptions options;
    options.arguments = {"nice"};  // without a command it says its own
    options.in_background = in_background;
    return std::stoi(run_command(std::move(options), kPatienceMs).value().output);
  };
  int usual = niceness(false);
  int crowded = std::min(19, usual + niceness_to_give_way(1000, 1));
  int calm = std::min(19, usual + niceness_to_give_way(1, 1));
  // Which of the two depends on what else this machine runs just now.
  int lowered = niceness(true);
  EXPECT_TRUE(lowered == crowded || lowered == calm) << usual << " became " << lowered;
}

TEST(RunCommand, WhatGivesWayStillGetsTimeInACrowd) {
  EXPECT_EQ(niceness_to_give_way(1, 2), 10);
  EXPECT_EQ(niceness_to_give_way(4, 2), 10) << "that many threads lfarm has itself";
  EXPECT_EQ(niceness_to_give_way(5, 2), 3);
  EXPECT_EQ(niceness_to_give_way(5, 16), 10);
}

// The deadline of a command is the deadline of what it started.
TEST(RunCommand, WhatACommandStartedEndsWithIt) {
  auto scratch = ScratchDirectory::create("lfarm-sandbox-test").value();
  std::string note = scratch.path() + "/pid";
  SpawnOptions options;
  options.arguments = {"/bin/sh", "-c", cat("sleep 1000 & echo $! > ", note, "; wait")};
  auto output = run_command(std::move(options), 500);
  ASSERT_TRUE(output.ok());
  EXPECT_TRUE(output->timed_out);
  int sleeper = std::stoi(read_file(note).value());
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, sleeper, 0));
  if (pidfd < 0) return;  // gone and reaped
  pollfd ended{pidfd, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, kPatienceMs), 1) << "it runs on";
  ::close(pidfd);
}

}  // namespace
}  // namespace common

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], common::kChildFlag) == 0) {
    std::cout << common::do_deed(argv[2], argc > 3 ? argv[3] : "") << std::flush;
    std::_Exit(0);  // a sanitizer that looks for leaks would trace this process
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
