// Runs lfarm as its users do: the real binaries, one state directory a test.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"
#include "tests/paths/paths.h"

namespace cli_testing {

// What nothing takes unless it hangs, on a machine with several times as much work as cores;
// sanitized programs take several times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::seconds kPatience{1800};
#else
inline constexpr std::chrono::seconds kPatience{600};
#endif

// One run of lfarm that may still be going on.
class Invocation {
 public:
  Invocation(const std::string& folder, int number, std::vector<std::string> arguments,
             const std::string& program = paths::binaries("/lfarm"))
      : out_(common::cat(folder, "/out.", number)), err_(common::cat(folder, "/err.", number)) {
    common::SpawnOptions spawn;
    spawn.arguments = {program};
    spawn.arguments.insert(spawn.arguments.end(), arguments.begin(), arguments.end());
    FILE* out = std::fopen(out_.c_str(), "w");
    FILE* err = std::fopen(err_.c_str(), "w");
    spawn.stdout_fd = fileno(out);
    spawn.stderr_fd = fileno(err);
    process_.emplace(common::Subprocess::start(spawn).value());
    std::fclose(out);
    std::fclose(err);
  }

  // The exit code; 128 and more for a signal, -1 when it did not end in time.
  int wait(std::chrono::milliseconds patience = kPatience) {
    if (code_) return *code_;
    auto status = process_->wait(static_cast<int>(patience.count()));
    if (!status) return -1;
    code_ = status->signal != 0 ? 128 + status->signal : status->code;
    return *code_;
  }
  bool ended() {
    if (!code_) {
      if (auto status = process_->poll()) {
        code_ = status->signal != 0 ? 128 + status->signal : status->code;
      }
    }
    return code_.has_value();
  }
  void signal(int number) { process_->send_signal(number); }
  pid_t pid() const { return process_->pid(); }
  std::string out() const { return common::read_file(out_).value(); }
  std::string err() const { return common::read_file(err_).value(); }

  // Until the condition holds; false when the run ends or patience does.
  bool until(const std::function<bool()>& condition) {
    auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (ended() || std::chrono::steady_clock::now() > end) return condition();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool until_out(const std::string& text) {
    return until([&] { return out().find(text) != std::string::npos; });
  }
  bool until_err(const std::string& text) {
    return until([&] { return err().find(text) != std::string::npos; });
  }

 private:
  std::string out_, err_;
  std::optional<common::Subprocess> process_;
  std::optional<int> code_;
};

// Direct children of a process whose program has this name.
inline std::vector<pid_t> children(pid_t parent, const std::string& program) {
  std::vector<pid_t> found;
  std::ifstream list(common::cat("/proc/", parent, "/task/", parent, "/children"));
  for (pid_t pid; list >> pid;) {
    std::error_code ignored;
    auto exe = std::filesystem::read_symlink(common::cat("/proc/", pid, "/exe"), ignored);
    if (exe.filename() == program) found.push_back(pid);
  }
  return found;
}

class CliTest : public testing::Test {
 protected:
  CliTest() : scratch_(common::ScratchDirectory::create("lfarm-cli").value()) {
    // What the user's environment says must not reach the test.
    for (const char* name : {"LFARM_FARM", "LFARM_FARM_KEY", "LFARM_KEYS", "LFARM_TRUST",
                             "LFARM_LOG", "LFARM_LOG_FORMAT", "LFARM_LOGS", "LFARM_PYTHON"}) {
      ::unsetenv(name);
    }
    ::setenv("LFARM_STATE", state().c_str(), 1);
  }

  std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }
  std::string state() const { return path("state"); }
  static std::string fixture(const std::string& name) { return paths::fixtures("/models/") + name; }
  static std::string model(const std::string& name) { return fixture(name) + "/model.pt2"; }

  Invocation start(std::vector<std::string> arguments) {
    return Invocation(scratch_.path(), runs_++, std::move(arguments));
  }
  // Runs to the end.
  Invocation lfarm(std::vector<std::string> arguments) {
    Invocation run = start(std::move(arguments));
    EXPECT_NE(run.wait(), -1) << "no end";
    return run;
  }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  // The text after "NAME": in a JSON object on one line, up to the next comma or brace.
  static std::string field(const std::string& json, const std::string& name) {
    size_t at = json.find("\"" + name + "\":");
    if (at == std::string::npos) return "";
    at += name.size() + 3;
    std::string value = json.substr(at, json.find_first_of(",}", at) - at);
    if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
    return value;
  }

 private:
  common::ScratchDirectory scratch_;
  int runs_ = 0;
};

// Takes a port so that nobody else can, and does not listen on it.
class TakenPort {
 public:
  explicit TakenPort(bool listens) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (listens) {
      EXPECT_EQ(::listen(fd_, 1), 0);
    }
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { ::close(fd_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  std::string endpoint() const { return common::cat("tcp://127.0.0.1:", port_); }
  int fd() const { return fd_; }

 private:
  int fd_;
  int port_ = 0;
};

}  // namespace cli_testing
