// A peer that sends more than anyone takes: if these fail, whoever may connect can make a
// coordinator run out of memory, with a message that never ends or with many that nobody reads.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "common/base/cat.h"
#include "common/wire/inflow_guard.h"
#include "common/wire/socket.h"
#include "wire_peers.h"

namespace common {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A peer that speaks ZMTP 3.0 without keys (rfc.zeromq.org/spec/23), but not as the farm's do.
class Flooder {
 public:
  explicit Flooder(const std::string& endpoint) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    std::string greeting = std::string("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
    greeting.resize(64, '\0');
    write(greeting);
    write(
        std::string("\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
                    "DEALER",
                    30));
    // Its greeting and its READY: what comes earlier may be overlooked.
    std::string theirs(66, '\0');
    EXPECT_TRUE(read(theirs));
    std::string ready(static_cast<unsigned char>(theirs[65]), '\0');
    EXPECT_TRUE(read(ready));
  }
  ~Flooder() { ::close(fd_); }
  Flooder(const Flooder&) = delete;
  Flooder& operator=(const Flooder&) = delete;

  // A frame of so many bytes; `more`: its message goes on. False when the other side is gone.
  bool frame(size_t bytes, bool more) {
    std::string head(9, '\0');
    head[0] = static_cast<char>(2 | (more ? 1 : 0));
    for (size_t i = 0; i < 8; ++i) head[1 + i] = static_cast<char>(bytes >> (56 - 8 * i));
    return write(head) && write(std::string(bytes, 'x'));
  }
  // Whether the other side ends the connection while `busy` goes on.
  bool is_ended(const std::function<void()>& busy) {
    auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    std::string ignored(4096, '\0');
    while (std::chrono::steady_clock::now() < deadline) {
      busy();
      pollfd waiting{fd_, POLLIN, 0};
      if (::poll(&waiting, 1, 5) <= 0) continue;
      if (::recv(fd_, ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) return true;
    }
    return false;
  }

 private:
  bool write(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  bool read(std::string& bytes) {
    return ::recv(fd_, bytes.data(), bytes.size(), MSG_WAITALL) ==
           static_cast<ssize_t>(bytes.size());
  }
  int fd_;
};

size_t resident_bytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

RouterSocket must_bind(WireContext& context, size_t peer_bytes, size_t bytes) {
  RouterOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  options.peer_inflow_bytes = peer_bytes;
  options.inflow_bytes = bytes;
  auto router = RouterSocket::bind(context, std::move(options));
  EXPECT_TRUE(router.ok()) << router.error().message;
  return std::move(router).value();
}

TEST(WireInflow, AMessageThatNeverEndsEndsItsConnection) {
  constexpr size_t kBound = 16 * kMiB, kFloods = 40;
  WireContext context;
  RouterSocket router = must_bind(context, kBound, size_t{1} << 30);
  auto honest = DealerSocket::connect(context, {router.endpoint(), {}, {}});
  ASSERT_TRUE(honest.ok());
  std::vector<Arrival> arrivals;
  size_t before = resident_bytes();
  for (size_t flood = 0; flood < kFloods; ++flood) {
    Flooder flooder(router.endpoint());
    for (size_t sent = 0; sent < kBound + kMiB; sent += kMiB) {
      if (!flooder.frame(kMiB, true)) break;
      router.receive(arrivals, 64);
    }
    ASSERT_TRUE(flooder.is_ended([&] { router.receive(arrivals, 64); })) << "flood " << flood;
  }
  Peers peers;
  EXPECT_TRUE(peers.until(&router, nullptr, [&] { return router.counters().flooding >= kFloods; }));
  EXPECT_LT(resident_bytes(), before + 400 * kMiB) << kFloods << " floods of 17 MiB each";
  // Who keeps to the rules notices nothing.
  honest->send(Ping{7});
  EXPECT_TRUE(peers.until(&router, &*honest, [&] { return !peers.arrivals.empty(); }));
  EXPECT_EQ(honest->counters().disconnected, 0u);
}

// They are looked at in turn.
TEST(WireInflow, AFloodAmongHundredsOfConnectionsIsEnded) {
  constexpr size_t kBound = 16 * kMiB, kConnections = 400;
  WireContext context;
  RouterSocket router = must_bind(context, kBound, size_t{1} << 30);
  std::vector<std::unique_ptr<Flooder>> quiet;
  for (size_t k = 0; k < kConnections; ++k) {
    quiet.push_back(std::make_unique<Flooder>(router.endpoint()));
    ASSERT_TRUE(quiet.back()->frame(1, false));
  }
  Peers peers;
  ASSERT_TRUE(peers.until(&router, nullptr, [&] { return peers.arrivals.size() == kConnections; }));
  std::vector<Arrival> arrivals;
  Flooder flooder(router.endpoint());
  for (size_t sent = 0; sent < kBound + kMiB; sent += kMiB) {
    if (!flooder.frame(kMiB, true)) break;
  }
  EXPECT_TRUE(flooder.is_ended([&] { router.receive(arrivals, 64); }));
  EXPECT_TRUE(peers.until(&router, nullptr, [&] { return router.counters().flooding == 1; }));
}

TEST(WireInflow, MessagesThatNobodyTakesAreHeldBackOrEndTheirConnection) {
  constexpr size_t kBound = 16 * kMiB;
  WireContext context;
  RouterSocket router = must_bind(context, kBound, size_t{1} << 30);
  std::vector<Arrival> arrivals;
  Flooder flooder(router.endpoint());
  ASSERT_TRUE(flooder.frame(1, false));
  // The connection is known from here on, and nobody reads.
  Peers peers;
  ASSERT_TRUE(peers.until(&router, nullptr, [&] { return !peers.arrivals.empty(); }));
  for (size_t sent = 0; sent < kBound + kMiB; sent += kMiB) {
    if (!flooder.frame(kMiB, false)) break;
  }
  EXPECT_TRUE(flooder.is_ended([] {}));
}

TEST(WireInflow, BeyondTheBoundOfAllTheGreediestEnds) {
  WireContext context;
  RouterSocket router = must_bind(context, 64 * kMiB, 24 * kMiB);
  std::vector<Arrival> arrivals;
  Flooder greedy(router.endpoint()), modest(router.endpoint());
  ASSERT_TRUE(greedy.frame(16 * kMiB, true));
  ASSERT_TRUE(modest.frame(12 * kMiB, true));
  EXPECT_TRUE(greedy.is_ended([&] { router.receive(arrivals, 64); }));
  // Its message still comes to an end.
  ASSERT_TRUE(modest.frame(1, false));
  Peers peers;
  EXPECT_TRUE(peers.until(&router, nullptr, [&] { return !peers.arrivals.empty(); }));
  EXPECT_FALSE(peers.arrivals[0].packet.ok()) << "what a flooder sends is no message";
  EXPECT_EQ(router.counters().flooding, 1u);
}

// Many times the bound passes through one connection, and all of it is taken: what is counted as
// taken has to be what the kernel counts as received, to the byte.
TEST(WireInflow, WhatIsTakenDoesNotCount) {
  constexpr size_t kBound = kMiB, kSizes[] = {0, 1, 100, 199, 300, 100'000};
  WireContext context;
  RouterSocket router = must_bind(context, kBound, kBound);
  auto dealer = DealerSocket::connect(context, {router.endpoint(), {}, {}});
  ASSERT_TRUE(dealer.ok());
  Peers peers;
  for (size_t round = 0; round < 400; ++round) {
    Bytes bytes(kSizes[round % std::size(kSizes)]);
    Blob blob{digest_of(bytes)};
    ASSERT_EQ(dealer->send(blob, share(std::move(bytes))), SendOutcome::kSent);
    ASSERT_TRUE(peers.until(&router, &*dealer, [&] { return peers.arrivals.size() == round + 1; }));
    ASSERT_TRUE(peers.arrivals.back().packet.ok());
    peers.arrivals.back().packet = Packet{};
  }
  EXPECT_EQ(router.counters().flooding, 0u);
  EXPECT_EQ(dealer->counters().disconnected, 0u);
}

// The same over many small packets, with and without keys: a byte too many in each would end honest
// workers after some days.
void expect_exact(bool has_keys) {
  constexpr size_t kPackets = 20'000;
  WireContext context;
  KeyPair farm = make_key_pair(), peer = make_key_pair();
  RouterOptions options;
  options.endpoint = "tcp://127.0.0.1:*";
  // Beyond the handshake's allowance and a byte for every second packet there is no room.
  options.peer_inflow_bytes = kPackets / 2;
  options.inflow_bytes = size_t{1} << 30;
  DealerOptions dealing;
  if (has_keys) {
    AllowList allowed;
    allowed.add(peer.public_key, {"team", static_cast<uint8_t>(Role::kRead)});
    auto authenticator = Authenticator::start(context, std::move(allowed));
    ASSERT_TRUE(authenticator.ok());
    options.keys = farm;
    options.authenticator = *authenticator;
    dealing.keys = ClientKeys{peer, farm.public_key};
  }
  auto router = RouterSocket::bind(context, std::move(options));
  ASSERT_TRUE(router.ok()) << router.error().message;
  dealing.endpoint = router->endpoint();
  auto dealer = DealerSocket::connect(context, std::move(dealing));
  ASSERT_TRUE(dealer.ok());
  Peers peers;
  size_t taken = 0;
  for (size_t sent = 0; sent < kPackets; ++sent) {
    ASSERT_EQ(dealer->send(Ping{sent}), SendOutcome::kSent);
    ASSERT_TRUE(peers.until(&*router, nullptr, [&] { return !peers.arrivals.empty(); }));
    taken += peers.arrivals.size();
    peers.arrivals.clear();
  }
  EXPECT_EQ(taken, kPackets);
  EXPECT_EQ(router->counters().flooding, 0u);
}
TEST(WireInflow, SmallPacketsAreCountedToTheByte) { expect_exact(false); }
TEST(WireInflow, SealedPacketsAreCountedToTheByte) { expect_exact(true); }

}  // namespace
}  // namespace common
