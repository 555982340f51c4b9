// Routers and dealers exchange packets on every transport and say clearly what they cannot do.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "common/wire/socket.h"
#include "wire_peers.h"

namespace common {
namespace {

RouterSocket must_bind(WireContext& context, const std::string& endpoint) {
  auto router = RouterSocket::bind(context, {endpoint, {}, {}, {}});
  EXPECT_TRUE(router.ok()) << router.error().message;
  return std::move(router).value();
}

// Binds again where another router has just been: ZeroMQ gives ports back in the background.
RouterSocket must_bind_again(WireContext& context, const std::string& endpoint) {
  auto deadline = std::chrono::steady_clock::now() + kTestPatience;
  while (true) {
    auto router = RouterSocket::bind(context, {endpoint, {}, {}, {}});
    if (router.ok()) return std::move(router).value();
    if (std::chrono::steady_clock::now() > deadline) return must_bind(context, endpoint);
  }
}

DealerSocket must_connect(WireContext& context, const std::string& endpoint) {
  auto dealer = DealerSocket::connect(context, {endpoint, {}, {}});
  EXPECT_TRUE(dealer.ok()) << dealer.error().message;
  return std::move(dealer).value();
}

void talk(WireContext& context, const std::string& endpoint) {
  RouterSocket router = must_bind(context, endpoint);
  DealerSocket dealer = must_connect(context, router.endpoint());
  Peers peers;
  Message hello = WorkerHello{"w1", "cpu", 4, kProtocolVersion, "b"};
  ASSERT_EQ(dealer.send(hello), SendOutcome::kSent);
  ASSERT_TRUE(peers.until(&router, &dealer, [&] { return !peers.arrivals.empty(); }));
  const Arrival& arrival = peers.arrivals[0];
  ASSERT_TRUE(arrival.packet.ok()) << arrival.packet.error().message;
  EXPECT_TRUE(arrival.packet.value().message == hello);
  EXPECT_FALSE(arrival.packet.value().blob);
  ASSERT_NE(arrival.principal, nullptr);
  EXPECT_EQ(*arrival.principal, local_principal());

  ASSERT_EQ(router.send(arrival.peer, Credit{3}), SendOutcome::kSent);
  ASSERT_TRUE(peers.until(&router, &dealer, [&] { return !peers.packets.empty(); }));
  ASSERT_TRUE(peers.packets[0].ok()) << peers.packets[0].error().message;
  EXPECT_TRUE(peers.packets[0].value().message == Message(Credit{3}));
  EXPECT_TRUE(dealer.connection().ok());
  EXPECT_EQ(dealer.counters().ready, 1u);
}

TEST(WireSocket, ExchangesOverTcp) {
  WireContext context;
  talk(context, "tcp://127.0.0.1:*");
}

TEST(WireSocket, ExchangesOverTcpVersion6) {
  WireContext context;
  auto probe = RouterSocket::bind(context, {"tcp://[::1]:*", {}, {}, {}});
  if (!probe.ok()) GTEST_SKIP() << "no IPv6 here: " << probe.error().message;
  talk(context, "tcp://[::1]:*");
}

TEST(WireSocket, ExchangesOverIpc) {
  WireContext context;
  auto scratch = ScratchDirectory::create("wire");
  ASSERT_TRUE(scratch.ok());
  talk(context, cat("ipc://", scratch->path(), "/farm"));
}

TEST(WireSocket, ExchangesInProcess) {
  WireContext context;
  talk(context, "inproc://farm");
}

TEST(WireSocket, LargeBlobsArriveWhole) {
  WireContext context;
  RouterSocket router = must_bind(context, "tcp://127.0.0.1:*");
  DealerSocket dealer = must_connect(context, router.endpoint());
  Bytes bytes(size_t{48} << 20);
  Random random(1);
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = random.next();
    std::memcpy(&bytes[i], &word, 8);
  }
  Digest digest = digest_of(bytes);
  SharedBytes blob = share(std::move(bytes));
  std::weak_ptr<const void> watched = blob.owner;
  ASSERT_EQ(dealer.send(Blob{digest}, blob), SendOutcome::kSent);
  blob = {};
  Peers peers;
  ASSERT_TRUE(peers.until(&router, &dealer, [&] { return !peers.arrivals.empty(); }));
  ASSERT_TRUE(peers.arrivals[0].packet.ok()) << peers.arrivals[0].packet.error().message;
  const Packet& packet = peers.arrivals[0].packet.value();
  EXPECT_TRUE(packet.message == Message(Blob{digest}));
  EXPECT_EQ(digest_of(packet.blob.bytes), digest);
  // What was sent is released once it is out.
  EXPECT_TRUE(peers.until(&router, &dealer, [&] { return watched.expired(); }));
}

TEST(WireSocket, BlobsUnderAnotherDigestAreCorrupt) {
  WireContext context;
  RouterSocket router = must_bind(context, "inproc://farm");
  DealerSocket dealer = must_connect(context, "inproc://farm");
  SharedBytes blob = share(to_bytes(as_bytes("these bytes")));
  ASSERT_EQ(dealer.send(Blob{digest_of("other bytes")}, blob), SendOutcome::kSent);
  ASSERT_EQ(dealer.send(Blob{digest_of("these bytes")}, blob), SendOutcome::kSent);
  Peers peers;
  ASSERT_TRUE(peers.until(&router, &dealer, [&] { return peers.arrivals.size() == 2; }));
  ASSERT_FALSE(peers.arrivals[0].packet.ok());
  EXPECT_EQ(peers.arrivals[0].packet.error().code, Code::kCorrupt);
  EXPECT_TRUE(peers.arrivals[1].packet.ok());
}

TEST(WireSocket, OptionalBlobsMayBeThereOrNot) {
  WireContext context;
  RouterSocket router = must_bind(context, "inproc://farm");
  DealerSocket dealer = must_connect(context, "inproc://farm");
  Submit submit{1, digest_of("h"), "", "", digest_of("graph"), 0, 0, 0, 0};
  ASSERT_EQ(dealer.send(submit), SendOutcome::kSent);
  ASSERT_EQ(dealer.send(submit, share(to_bytes(as_bytes("graph")))), SendOutcome::kSent);
  Peers peers;
  ASSERT_TRUE(peers.until(&router, &dealer, [&] { return peers.arrivals.size() == 2; }));
  ASSERT_TRUE(peers.arrivals[0].packet.ok() && peers.arrivals[1].packet.ok());
  EXPECT_FALSE(peers.arrivals[0].packet.value().blob);
  EXPECT_EQ(as_text(peers.arrivals[1].packet.value().blob.bytes), "graph");
}

TEST(WireSocket, BatchesKeepOrderAndBound) {
  WireContext context;
  RouterSocket router = must_bind(context, "inproc://farm");
  DealerSocket dealer = must_connect(context, "inproc://farm");
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(dealer.send(Ping{i}), SendOutcome::kSent);
  std::vector<Arrival> arrivals;
  EXPECT_EQ(router.receive(arrivals, 10), 10u);
  Peers peers;
  ASSERT_TRUE(peers.until(&router, nullptr, [&] { return peers.arrivals.size() == 990; }));
  for (auto& arrival : peers.arrivals) arrivals.push_back(std::move(arrival));
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(arrivals[i].packet.value().message == Message(Ping{i})) << i;
  }
}

TEST(WireSocket, UnknownPeersAreGone) {
  WireContext context;
  RouterSocket router = must_bind(context, "inproc://farm");
  EXPECT_EQ(router.send("nobody", Ping{1}), SendOutcome::kPeerGone);
}

TEST(WireSocket, FullQueuesSaySo) {
  WireContext context;
  RouterSocket router = must_bind(context, "inproc://farm");
  DealerSocket dealer = must_connect(context, "inproc://farm");
  ASSERT_EQ(dealer.send(Ping{0}), SendOutcome::kSent);
  Peers peers;
  ASSERT_TRUE(peers.until(&router, nullptr, [&] { return !peers.arrivals.empty(); }));
  int sent = 0;
  while (router.send(peers.arrivals[0].peer, Ping{1}) == SendOutcome::kSent) ++sent;
  EXPECT_EQ(router.send(peers.arrivals[0].peer, Ping{1}), SendOutcome::kFull);
  EXPECT_GE(sent, kSendQueueMessages);
  EXPECT_LE(sent, kSendQueueMessages + kReceiveQueueMessages);
  // Everything that was taken arrives, and then there is room again.
  ASSERT_TRUE(peers.until(nullptr, &dealer,
                          [&] { return peers.packets.size() == static_cast<size_t>(sent); }));
  EXPECT_EQ(router.send(peers.arrivals[0].peer, Ping{1}), SendOutcome::kSent);
}

// Such as a session in a debugger. Where the queue of the side that connects is bounded, libzmq
// ends the connection, and may end the process.
TEST(WireSocket, APeerThatDoesNotReadIsNotHeldBack) {
  constexpr int kMessages = 8 * kReceiveQueueMessages;
  WireContext context;
  RouterSocket router = must_bind(context, "tcp://127.0.0.1:*");
  DealerSocket dealer = must_connect(context, router.endpoint());
  ASSERT_EQ(dealer.send(Ping{0}), SendOutcome::kSent);
  Peers peers;
  ASSERT_TRUE(peers.until(&router, nullptr, [&] { return !peers.arrivals.empty(); }));
  // Together more than the system's buffers take.
  SharedBytes blob = share(Bytes(size_t{256} << 10));
  for (int k = 0; k < kMessages; ++k) {
    ASSERT_EQ(router.send(peers.arrivals[0].peer, Blob{digest_of(blob.bytes)}, blob),
              SendOutcome::kSent);
  }
  EXPECT_TRUE(peers.until(&router, nullptr, [&] { return router.queued_bytes() == 0; }));
  EXPECT_TRUE(peers.until(nullptr, &dealer, [&] { return peers.packets.size() == kMessages; }));
}

TEST(WireSocket, BusyPortsAreNamed) {
  WireContext context;
  RouterSocket router = must_bind(context, "tcp://127.0.0.1:*");
  auto second = RouterSocket::bind(context, {router.endpoint(), {}, {}, {}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kInvalidInput);
  EXPECT_EQ(second.error().message, cat("cannot listen on ", router.endpoint(),
                                        ": address in use; choose another with --listen"));
}

TEST(WireSocket, BusyPathsAreNotTakenOver) {
  WireContext context;
  auto scratch = ScratchDirectory::create("wire");
  ASSERT_TRUE(scratch.ok());
  std::string endpoint = cat("ipc://", scratch->path(), "/farm");
  {
    RouterSocket router = must_bind(context, endpoint);
    auto second = RouterSocket::bind(context, {endpoint, {}, {}, {}});
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("address in use"), std::string::npos);
  }
  // The file that a dead process leaves behind is no obstacle.
  std::string stale = cat("ipc://", scratch->path(), "/stale");
  int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, stale.c_str() + 6, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  EXPECT_TRUE(RouterSocket::bind(context, {stale, {}, {}, {}}).ok());
}

TEST(WireSocket, MalformedEndpointsAreRefused) {
  WireContext context;
  for (const char* endpoint : {"", "5555", "tcp://", "tcp://127.0.0.1", "http://x:1", "udp://x:1",
                               "tcp://127.0.0.1:notaport", "tcp://127.0.0.1:70000"}) {
    auto router = RouterSocket::bind(context, {endpoint, {}, {}, {}});
    ASSERT_FALSE(router.ok()) << endpoint;
    EXPECT_EQ(router.error().code, Code::kInvalidInput) << endpoint;
    auto dealer = DealerSocket::connect(context, {endpoint, {}, {}});
    ASSERT_FALSE(dealer.ok()) << endpoint;
    EXPECT_EQ(dealer.error().code, Code::kInvalidInput) << endpoint;
  }
}

TEST(WireSocket, DealersAreUnconnectedUntilSomebodyAnswers) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);  // a port that is taken, and where nobody listens
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  WireContext context;
  std::string endpoint = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  auto dealer = DealerSocket::connect(context, {endpoint, {}, [](const ConnectionEvent&) {}});
  ASSERT_TRUE(dealer.ok());
  Status connection = dealer->connection();
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.error().code, Code::kUnavailable);
  ::close(fd);
}

TEST(WireSocket, DealersReconnectAndTell) {
  WireContext context;
  std::string endpoint;
  {
    RouterSocket router = must_bind(context, "tcp://127.0.0.1:*");
    endpoint = router.endpoint();
  }
  // ZeroMQ closes a listener some time after its socket: a handshake may begin there and come to
  // nothing. So only changes are kept: messages flow, or no longer.
  std::vector<bool> flows;
  auto note = [&](const ConnectionEvent& event) {
    bool is_ready = event.kind == ConnectionEvent::Kind::kReady;
    if (is_ready != (!flows.empty() && flows.back())) flows.push_back(is_ready);
  };
  auto connected = DealerSocket::connect(context, {endpoint, {}, note});
  ASSERT_TRUE(connected.ok());
  DealerSocket dealer = std::move(connected).value();
  Peers peers;
  {
    RouterSocket router = must_bind_again(context, endpoint);
    ASSERT_TRUE(peers.until(&router, &dealer, [&] { return dealer.connection().ok(); }));
  }
  ASSERT_TRUE(peers.until(nullptr, &dealer, [&] { return !dealer.connection().ok(); }));
  EXPECT_NE(dealer.connection().error().message.find("lost"), std::string::npos);
  RouterSocket router = must_bind_again(context, endpoint);
  ASSERT_TRUE(peers.until(&router, &dealer, [&] { return dealer.counters().ready == 2; }));
  // The new connection may be lost again before this looks; what came first is told in order.
  ASSERT_GE(flows.size(), 3u);
  flows.resize(3);
  EXPECT_EQ(flows, (std::vector{true, false, true}));
}

// A plain connection to a router that listens on this machine.
int connect_tcp(const RouterSocket& router) {
  std::string port = router.endpoint().substr(router.endpoint().rfind(':') + 1);
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// What a ZeroMQ dealer sends, byte by byte: ZMTP 3.0 without security.
class HandmadeDealer {
 public:
  explicit HandmadeDealer(const RouterSocket& router) : fd_(connect_tcp(router)) {
    std::string greeting = "\xff" + std::string(8, 0) + "\x7f\x03" + std::string(1, 0) + "NULL";
    greeting.resize(64, 0);
    put(greeting);
    take(64);
    put_frame(4, std::string("\5READY\13Socket-Type\0\0\0\6DEALER", 28));
    take(static_cast<uint8_t>(take(2)[1]));
  }
  ~HandmadeDealer() { ::close(fd_); }
  void send(const std::vector<Bytes>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
      put_frame(i + 1 < frames.size() ? 1 : 0, as_text(frames[i]));
    }
  }

 private:
  void put_frame(char flags, std::string_view body) {
    ASSERT_LT(body.size(), 256u);
    put(std::string{flags, static_cast<char>(body.size())}.append(body));
  }
  std::string take(size_t size) {
    std::string bytes(size, 0);
    EXPECT_EQ(::recv(fd_, bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return bytes;
  }
  void put(const std::string& bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  int fd_;
};

TEST(WireSocket, FramesThatNoPeerSendsAreRefused) {
  WireContext context;
  RouterSocket router = must_bind(context, "tcp://127.0.0.1:*");
  HandmadeDealer dealer(router);
  Bytes blob = to_bytes(as_bytes("a blob"));
  Bytes ping = encode(Ping{1});
  Bytes claim = encode(Blob{digest_of(blob)});
  dealer.send({ping, blob});
  dealer.send({claim});
  dealer.send({claim, blob, blob});
  dealer.send({claim, blob});
  Peers peers;
  ASSERT_TRUE(peers.until(&router, nullptr, [&] { return peers.arrivals.size() == 4; }));
  const char* said[] = {"came with a blob", "came without its blob", "3 frames"};
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_FALSE(peers.arrivals[i].packet.ok()) << said[i];
    EXPECT_EQ(peers.arrivals[i].packet.error().code, Code::kInvalidInput);
    EXPECT_NE(peers.arrivals[i].packet.error().message.find(said[i]), std::string::npos)
        << peers.arrivals[i].packet.error().message;
  }
  EXPECT_TRUE(peers.arrivals[3].packet.ok());
}

TEST(WireSocket, StrangersAreCountedAndHarmless) {
  WireContext context;
  RouterSocket router = must_bind(context, "tcp://127.0.0.1:*");
  int fd = connect_tcp(router);
  const char request[] = "GET / HTTP/1.1\r\nHost: farm.example\r\nAccept: everything\r\n\r\n";
  ASSERT_GT(::send(fd, request, sizeof request, 0), 0);
  ::shutdown(fd, SHUT_WR);
  Peers peers;
  EXPECT_TRUE(peers.until(&router, nullptr, [&] { return router.counters().bad_handshakes > 0; }));
  ::close(fd);
  EXPECT_TRUE(peers.arrivals.empty());
  DealerSocket dealer = must_connect(context, router.endpoint());
  dealer.send(Ping{1});
  EXPECT_TRUE(peers.until(&router, &dealer, [&] { return peers.arrivals.size() == 1; }));
}

TEST(WirePoller, TellsWhatIsReady) {
  WireContext context;
  RouterSocket router = must_bind(context, "inproc://farm");
  DealerSocket dealer = must_connect(context, "inproc://farm");
  Waker waker;
  Poller poller;
  size_t at_router = poller.watch(router);
  size_t at_dealer = poller.watch(dealer);
  size_t at_waker = poller.watch_fd(waker.fd());
  auto ready = poller.wait(0);
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(*ready, 0u);

  waker.wake();
  waker.wake();
  ready = poller.wait(-1);
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(*ready, 1u);
  EXPECT_TRUE(poller.ready(at_waker));
  waker.clear();

  dealer.send(Ping{1});
  ready = poller.wait(-1);
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(*ready, 1u);
  EXPECT_TRUE(poller.ready(at_router));
  EXPECT_FALSE(poller.ready(at_dealer));
  EXPECT_FALSE(poller.ready(at_waker));
}

TEST(WireEndpoint, LocalMeansThisMachine) {
  for (const char* local : {"ipc:///tmp/x", "inproc://x", "tcp://127.0.0.1:5", "tcp://127.9.9.9:*",
                            "tcp://[::1]:5", "tcp://localhost:5"}) {
    EXPECT_TRUE(is_local_endpoint(local)) << local;
  }
  for (const char* remote : {"tcp://*:5", "tcp://0.0.0.0:5", "tcp://10.0.0.1:5", "tcp://[::]:5",
                             "tcp://127.evil.example:5", "tcp://localhost.example:5",
                             "tcp://farm:5", "tcp://1127.0.0.1:5"}) {
    EXPECT_FALSE(is_local_endpoint(remote)) << remote;
  }
}

TEST(WireEndpoint, SeveralStandBetweenCommas) {
  using Endpoints = std::vector<std::string>;
  EXPECT_EQ(split_endpoints("tcp://a:1"), Endpoints{"tcp://a:1"});
  EXPECT_EQ(split_endpoints("tcp://a:1,ipc:///b"), (Endpoints{"tcp://a:1", "ipc:///b"}));
  EXPECT_EQ(split_endpoints(""), Endpoints{""});
  EXPECT_EQ(split_endpoints("tcp://a:1,"), (Endpoints{"tcp://a:1", ""}));
}

}  // namespace
}  // namespace common
