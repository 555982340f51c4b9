// The farm's connections: a coordinator's ROUTER and its peers' DEALERs, which carry messages.
//
// On the wire a packet is an envelope frame and, where the message allows one, a blob frame.
// Everything received has been decoded and validated, and its blob has the digest that the message
// names. Sockets belong to one thread at a time and never block.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/wire/codec.h"
#include "common/wire/context.h"
#include "common/wire/messages.h"
#include "common/wire/security.h"

namespace common {

// Where a coordinator listens, and a worker looks for one, unless told otherwise.
inline constexpr std::string_view kDefaultEndpoint = "tcp://127.0.0.1:7171";

// Bytes shared without copying: `owner` keeps `bytes` alive and unchanged.
struct SharedBytes {
  ByteView bytes;
  std::shared_ptr<const void> owner;  // null: there are none
  explicit operator bool() const { return owner != nullptr; }
};
SharedBytes share(Bytes bytes);

struct Packet {
  Message message;
  SharedBytes blob;
  // Of a packet that came: the parts of its blob, by blob_parts_of(), compared with their digests.
  std::vector<ByteView> parts;
};

enum class SendOutcome {
  kSent,      // queued; delivery is not promised
  kFull,      // the peer's queue is full: keep the message and try again later
  kPeerGone,  // no such connection any more
  kNotKnown,  // the peer's version of the protocol has no such message
};

// What happened to a connection, below the level of messages.
struct ConnectionEvent {
  enum class Kind {
    kReady,  // handshake done, messages flow
    kDisconnected,
    kDenied,        // the server does not know the client's key
    kBadHandshake,  // wrong server key, no keys where keys are needed, not ZeroMQ, timed out
  };
  Kind kind = Kind::kReady;
  std::string endpoint;
  std::string detail;  // for people
};

// Counts of ConnectionEvents since the socket was opened. They may be read from any thread and move
// when the socket's own thread calls receive().
struct ConnectionCounters {
  std::atomic<uint64_t> ready{0};
  std::atomic<uint64_t> disconnected{0};
  std::atomic<uint64_t> denied{0};
  std::atomic<uint64_t> bad_handshakes{0};
  std::atomic<uint64_t> mismatches{0};  // of these, where only one side uses keys
  std::atomic<uint64_t> flooding{0};    // ended since too much of theirs waited
};

// Called from the socket's receive(); must not call the socket. Failures are also logged, at most
// once a second for each socket.
using ConnectionCallback = std::function<void(const ConnectionEvent&)>;

// Whether an endpoint is only reachable from this machine: ipc, inproc, tcp on a loopback address.
bool is_local_endpoint(std::string_view endpoint);
// The endpoints between commas, at least one, which may be empty.
std::vector<std::string> split_endpoints(std::string_view endpoints);

struct RouterOptions {
  // tcp://ADDRESS:PORT, ipc://PATH or inproc://NAME; port "*" takes a free one.
  // IPv6 addresses stand in brackets.
  std::string endpoint;
  // Both or neither. Needed unless the endpoint is local.
  std::optional<KeyPair> keys;
  std::shared_ptr<Authenticator> authenticator;
  ConnectionCallback on_connection;
  size_t peer_queue_bytes = kPeerQueueBytes;  // see limits.h
  size_t queue_bytes = kQueueBytes;
  ProtocolRange protocol = kProtocolsSpoken;
  size_t peer_inflow_bytes = kPeerInflowBytes;  // of TCP connections
  size_t inflow_bytes = kInflowBytes;
};

// One thing that came from a peer.
struct Arrival {
  std::string peer;  // names the connection, for RouterSocket::send(); new at every reconnection
  std::shared_ptr<const Principal> principal;
  std::string address;    // the peer's network address, empty where there is none
  Result<Packet> packet;  // an error when the peer sent something that is not a valid message
};

// A listening socket with many peers.
class RouterSocket {
 public:
  // kInvalidInput when the endpoint is in use, malformed, or needs keys that were not given.
  static Result<RouterSocket> bind(WireContext& context, RouterOptions options);
  RouterSocket(RouterSocket&&) noexcept;
  RouterSocket& operator=(RouterSocket&&) noexcept;
  ~RouterSocket();

  // The endpoint that peers connect to, with the port that was taken.
  const std::string& endpoint() const;
  // A blob goes with the message only as blob_frame_of() says; anything else is a bug. The message
  // is written in the version of the peer's last one, even where that is not spoken here.
  SendOutcome send(const std::string& peer, const Message& message, const SharedBytes& blob = {});
  // Bytes of packets that have been queued and not yet handed to the system.
  size_t queued_bytes() const;
  // Appends up to `max` arrivals that wait and returns how many. What peers send whose key has been
  // taken off the allow-list is skipped and counted in denied, and their connections are dropped.
  size_t receive(std::vector<Arrival>& arrivals, size_t max);
  // Drops the connections of all peers whose key is not on the allow-list any more, silent ones
  // too, and returns their names. To be called after Authenticator::replace().
  std::vector<std::string> drop_revoked();
  const ConnectionCounters& counters() const;

 private:
  friend class Poller;
  struct State;
  explicit RouterSocket(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct DealerOptions {
  std::string endpoint;
  // Needed unless the endpoint is local.
  std::optional<ClientKeys> keys;
  ConnectionCallback on_connection;
  ProtocolRange protocol = kProtocolsSpoken;
};

// A connection to one router. It reconnects by itself, for ever; messages sent meanwhile are
// queued, but what was under way is lost, and the router sees a new peer: watch counters().ready
// and say hello again whenever it grows. A connection whose key was denied is tried again every
// second, as long as receive() or connection() is called; until then sends find it full.
class DealerSocket {
 public:
  // Returns at once; the connection is made in the background. kInvalidInput when the endpoint is
  // malformed or needs keys that were not given.
  static Result<DealerSocket> connect(WireContext& context, DealerOptions options);
  DealerSocket(DealerSocket&&) noexcept;
  DealerSocket& operator=(DealerSocket&&) noexcept;
  ~DealerSocket();

  SendOutcome send(const Message& message, const SharedBytes& blob = {});
  // Writes messages in this version from now on; at first it is the lowest one. To be called with
  // the version of a Welcome, and with the lowest before a hello.
  void speak(uint32_t version);
  const ProtocolRange& protocol() const;
  // Appends up to `max` packets that wait, or errors for invalid ones, and returns how many.
  size_t receive(std::vector<Result<Packet>>& packets, size_t max);
  const ConnectionCounters& counters() const;
  // Success while messages flow, else kUnavailable with the reason as far as it is known: never
  // answered, key denied, handshake failed, lost. Handles connection events, as receive() does.
  Status connection() const;

 private:
  friend class Poller;
  struct State;
  explicit DealerSocket(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace common
