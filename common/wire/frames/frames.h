// Connections between parts of one farm that have a protocol of their own: a message is one frame
// of bytes, which common/wire does not look into. Peers of other releases and clients of a farm
// speak by RouterSocket and DealerSocket (socket.h).
//
// Sockets belong to one thread at a time and never block, but for wait().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/socket.h"

namespace common {

struct FrameArrival {
  std::string peer;  // names the connection; new at every reconnection
  std::shared_ptr<const Principal> principal;
  SharedBytes bytes;
};

struct FrameRouterOptions {
  std::string endpoint;  // as RouterOptions::endpoint
  // Both or neither. Needed unless the endpoint is local.
  std::optional<KeyPair> keys;
  std::shared_ptr<Authenticator> authenticator;
};

// A listening socket with many peers. A frame is at most kBlobBytesMax long.
class FrameRouter {
 public:
  // Errors as RouterSocket::bind().
  static Result<FrameRouter> bind(WireContext& context, FrameRouterOptions options);
  FrameRouter(FrameRouter&&) noexcept;
  FrameRouter& operator=(FrameRouter&&) noexcept;
  ~FrameRouter();

  // The endpoint that peers connect to, with the port that was taken.
  const std::string& endpoint() const;
  // kFull where the peer has left too many messages unread.
  SendOutcome send(const std::string& peer, std::string bytes);
  // Appends up to `max` arrivals that wait and returns how many. What peers send whose key is not
  // on the allow-list any more, or in other than one frame, is skipped.
  size_t receive(std::vector<FrameArrival>& arrivals, size_t max);
  // Until something has arrived, the descriptor is readable, or the time is over.
  void wait(int timeout_ms, int fd) const;

 private:
  struct State;
  explicit FrameRouter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A connection to one FrameRouter, which reconnects by itself, for ever: see DealerSocket.
class FrameDealer {
 public:
  // Errors as DealerSocket::connect().
  static Result<FrameDealer> connect(WireContext& context, const std::string& endpoint,
                                     const std::optional<ClientKeys>& keys);
  FrameDealer(FrameDealer&&) noexcept;
  FrameDealer& operator=(FrameDealer&&) noexcept;
  ~FrameDealer();

  // False when the queue is full: the message was dropped.
  bool send(std::string bytes);
  size_t receive(std::vector<SharedBytes>& messages, size_t max);
  void wait(int timeout_ms, int fd) const;
  // How often a connection was made. Moves when receive() is called.
  uint64_t connections() const;
  // Success while messages flow, else kUnavailable with the reason as far as it is known.
  Status connection() const;

 private:
  struct State;
  explicit FrameDealer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace common
