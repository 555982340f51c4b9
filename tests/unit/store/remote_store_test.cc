// The client of the shared store against servers that nobody should talk to: if these fail, a
// server that is broken or hostile can hang a farm, fill its memory or feed it bytes.
#include "cache/remote/remote_store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"

namespace cache {
namespace {

using common::cat;
using common::Code;

// Serves one connection after the other: the greeting is answered as it should be, and what comes
// then is up to the test, which gets the connection to write to.
class HostileServer {
 public:
  using Act = std::function<void(int connection)>;
  explicit HostileServer(Act act) : act_(std::move(act)) {
    auto made = common::ScratchDirectory::create("hostile");
    if (!made.ok()) throw std::runtime_error(made.error().message);
    scratch_.emplace(std::move(made).value());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof address.sun_path - 1);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_, 16) != 0) {
      throw std::runtime_error("no socket to listen on");
    }
    thread_ = std::thread([this] { serve(); });
  }
  ~HostileServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  HostileServer(const HostileServer&) = delete;
  HostileServer& operator=(const HostileServer&) = delete;

  RemoteOptions options() const {
    RemoteOptions options;
    auto address = parse_remote_address("redis+unix://" + path());
    if (!address.ok()) throw std::runtime_error(address.error().message);
    options.address = *address;
    options.answer_ms = 60'000;
    options.transfer_ms = 60'000;
    options.retry.first_ms = 0;
    options.retry.last_ms = 0;
    return options;
  }
  int connections() const { return connections_; }
  // False once the test is over or the other side has gone.
  bool write(int connection, std::string_view bytes) const {
    while (!bytes.empty()) {
      ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0 || stopping_) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Waits until the other side says something (true) or goes, or the test is over.
  bool hear(int connection) const {
    while (!stopping_) {
      pollfd watched{connection, POLLIN, 0};
      if (::poll(&watched, 1, 20) <= 0) continue;
      char buffer[65536];
      return ::recv(connection, buffer, sizeof buffer, 0) > 0;
    }
    return false;
  }

 private:
  std::string path() const { return scratch_->path() + "/socket"; }
  void serve() {
    while (!stopping_) {
      int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      ++connections_;
      if (hear(connection) && write(connection, "+PONG\r\n") && hear(connection)) act_(connection);
      ::close(connection);
    }
  }

  Act act_;
  std::optional<common::ScratchDirectory> scratch_;
  int listener_ = -1;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

const common::Digest kName = common::digest_of("a plan");

class HostileStoreTest : public testing::Test {
 protected:
  // The code of what get() ends with when the server answers with `bytes` and hangs up.
  static Code ask(const std::string& bytes) {
    HostileServer* self = nullptr;
    HostileServer server([&](int connection) { self->write(connection, bytes); });
    self = &server;
    RemoteStore store(server.options());
    auto got = store.get(RemoteRecord::kPlan, kName);
    EXPECT_FALSE(got.ok()) << bytes.substr(0, 80);
    EXPECT_FALSE(store.health().trouble.empty());
    return got.ok() ? Code::kInternal : got.error().code;
  }
};

TEST_F(HostileStoreTest, WhatIsNoReplyIsRefused) {
  for (const char* bytes : {"HTTP/1.1 200 OK\r\n\r\n", "?\r\n", "$abc\r\n", "$-7\r\n", ":12x\r\n",
                            "$99999999999999999999999\r\n"}) {
    EXPECT_EQ(ask(bytes), Code::kCorrupt) << bytes;
  }
}

TEST_F(HostileStoreTest, WhatIsCutOffIsNoAnswer) {
  for (const char* bytes : {"", "$", "$5", "$5\r\nab", "$9223372036854775807\r\nab"}) {
    EXPECT_EQ(ask(bytes), Code::kUnavailable) << bytes;
  }
}

// Before memory is taken for what the server only claims.
TEST_F(HostileStoreTest, ListsAreRefusedHoweverLong) {
  EXPECT_EQ(ask("*2147483647\r\n"), Code::kCorrupt);
  EXPECT_EQ(ask("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"),
            Code::kCorrupt);
}

TEST_F(HostileStoreTest, AnswersOfAnotherKindAreRefused) {
  EXPECT_EQ(ask(":5\r\n"), Code::kCorrupt);
  EXPECT_EQ(ask("+OK\r\n"), Code::kCorrupt);
  EXPECT_EQ(ask("-ERR no\r\n"), Code::kUnavailable);
}

// It would be taken for the answer to the next question.
TEST_F(HostileStoreTest, AnAnswerTooManyIsRefused) {
  EXPECT_EQ(ask("$2\r\nab\r\n$2\r\ncd\r\n"), Code::kCorrupt);
}

TEST_F(HostileStoreTest, AnAnswerWithoutEndIsCutOffAtTheLimit) {
  HostileServer* self = nullptr;
  HostileServer server([&](int connection) {
    self->write(connection, "$1000000000\r\n");
    std::string noise(1 << 20, 'x');
    while (self->write(connection, noise)) {
    }
  });
  self = &server;
  RemoteStore store(server.options());
  auto got = store.get(RemoteRecord::kPlan, kName);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Code::kCorrupt);
}

// Every byte is in time, and the answer never is.
TEST_F(HostileStoreTest, AnAnswerThatDripsEndsAtTheDeadline) {
  HostileServer* self = nullptr;
  HostileServer server([&](int connection) {
    self->write(connection, "$1000000\r\n");
    while (self->write(connection, "x")) (void)::poll(nullptr, 0, 5);
  });
  self = &server;
  RemoteOptions options = server.options();
  options.answer_ms = 100;
  RemoteStore store(options);
  auto got = store.get(RemoteRecord::kPlan, kName);
  ASSERT_FALSE(got.ok());
  // The greeting has the same limit, which a busy machine may miss.
  EXPECT_EQ(got.error().code, Code::kTimedOut);
}

TEST_F(HostileStoreTest, OtherBytesThanTheDigestsAreRefused) {
  HostileServer* self = nullptr;
  HostileServer server([&](int connection) { self->write(connection, "$2\r\nab\r\n"); });
  self = &server;
  RemoteStore store(server.options());
  const common::Digest wanted = common::digest_of("cd");
  auto got = store.get_objects({&wanted, 1});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Code::kCorrupt);
}

// After a failure the server is not even asked until the pause is over.
TEST_F(HostileStoreTest, AServerThatFailedIsLeftAlone) {
  HostileServer* self = nullptr;
  HostileServer server([&](int connection) { self->write(connection, "?"); });
  self = &server;
  RemoteOptions options = server.options();
  options.retry.first_ms = options.retry.last_ms = 3'600'000;
  RemoteStore store(options);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(store.get(RemoteRecord::kPlan, kName).ok());
  EXPECT_TRUE(store.rests());
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(store.health().questions, 1u);
}

TEST(RemoteAddress, SaysWhatItIs) {
  auto full = parse_remote_address("redis://team@store.example:7000/3");
  ASSERT_TRUE(full.ok()) << full.error().message;
  EXPECT_EQ(full->host, "store.example");
  EXPECT_EQ(full->port, 7000);
  EXPECT_EQ(full->user, "team");
  EXPECT_EQ(full->database, 3);
  auto bare = parse_remote_address("redis://store");
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->port, 6379);
  EXPECT_EQ(bare->database, 0);
  auto six = parse_remote_address("redis://[::1]:7001");
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 7001);
  auto local = parse_remote_address("redis+unix:///run/store.socket");
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(local->socket, "/run/store.socket");
}

TEST(RemoteAddress, RefusesWhatNamesNoStore) {
  for (const char* text : {"", "redis://", "redis://:6379", "redis://h:0", "redis://h:65536",
                           "redis://h:x", "redis://h/x", "redis://h/-1", "redis://[::1", "http://h",
                           "redis+unix://relative", "redis://ho st"}) {
    EXPECT_FALSE(parse_remote_address(text).ok()) << text;
  }
}

TEST(RemoteAddress, APasswordIsNeitherTakenNorRepeated) {
  auto address = parse_remote_address("redis://team:hunter2@store");
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.error().message.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace cache
