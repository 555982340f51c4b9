// A real redis-server of a test's own, on a socket in a folder of its own.
#pragma once

#include <signal.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cache/remote/redis_connection.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"

namespace cache {

inline int64_t steady_after_ms(int64_t ms) {
  return common::SteadyClock().now_ns() + ms * 1'000'000;
}

class RedisServer {
 public:
  // Whether this machine has one.
  static bool is_there() {
    auto run = common::run_command({"redis-server", "--version"}, 600'000);
    return run.ok() && run->status.code == 0;
  }
  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
    auto made = common::ScratchDirectory::create("redis");
    if (!made.ok()) throw std::runtime_error(made.error().message);
    scratch_.emplace(std::move(made).value());
    start();
  }

  std::string socket() const { return scratch_->path() + "/redis.socket"; }
  std::string address() const { return "redis+unix://" + socket(); }

  // Returns once it answers.
  void start() {
    common::SpawnOptions spawn;
    spawn.arguments = {"redis-server",
                       "--port",
                       "0",
                       "--unixsocket",
                       socket(),
                       "--save",
                       "",
                       "--appendonly",
                       "no",
                       "--dir",
                       scratch_->path(),
                       "--logfile",
                       scratch_->path() + "/log"};
    spawn.arguments.insert(spawn.arguments.end(), options_.begin(), options_.end());
    auto child = common::Subprocess::start(spawn);
    if (!child.ok()) throw std::runtime_error(child.error().message);
    process_.emplace(std::move(child).value());
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (std::chrono::steady_clock::now() < end) {
      if (connect()) return;
      if (process_->poll()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    throw std::runtime_error("redis-server does not start; its log: " + log());
  }
  void kill() {
    process_->kill();
    (void)process_->wait(-1);
  }
  pid_t pid() const { return process_->pid(); }
  void pause() { process_->send_signal(SIGSTOP); }
  void go_on() { process_->send_signal(SIGCONT); }

  // One command and its reply, outside of what is tested.
  RedisReply ask(const RedisCommand& command) {
    auto connection = connect();
    if (!connection) throw std::runtime_error("redis-server does not answer");
    auto replies = connection->ask({&command, 1}, size_t{64} << 20, steady_after_ms(600'000));
    if (!replies.ok()) throw std::runtime_error(replies.error().message);
    return std::move((*replies)[0]);
  }

 private:
  std::unique_ptr<RedisConnection> connect() const {
    auto address = parse_remote_address(this->address());
    if (!address.ok()) throw std::runtime_error(address.error().message);
    auto opened = RedisConnection::open(*address, "", steady_after_ms(600'000));
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
  std::string log() const {
    auto text = common::read_file(scratch_->path() + "/log");
    return text.ok() ? *text : "";
  }

  std::vector<std::string> options_;
  std::optional<common::ScratchDirectory> scratch_;
  std::optional<common::Subprocess> process_;
};

}  // namespace cache
