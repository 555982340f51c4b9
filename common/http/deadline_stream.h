// One connection as the HTTP library reads and writes it, with limits on the whole request and the
// whole answer, not on each byte: a peer that sends a byte a second does not hold a thread.
#pragma once

#include <httplib.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "common/http/tls_server.h"

namespace common {

struct StreamLimits {
  // Milliseconds for a request to come in full, and for an answer to be taken; the latter also for
  // the handshake of TLS.
  int64_t request_ms = 5'000;
  int64_t answer_ms = 10'000;
  // The same while other connections wait for a thread.
  int64_t crowded_request_ms = 200;
  int64_t crowded_answer_ms = 1'000;
};

// Reads and writes of one thread. Not thread-safe; `waiting` is changed by others.
class DeadlineStream final : public httplib::Stream {
 public:
  // `waiting`: how many connections wait for a thread. `tls` may be null; it and `waiting` outlive
  // this. The socket stays its owner's.
  DeadlineStream(socket_t socket, const StreamLimits& limits, const std::atomic<int>& waiting,
                 TlsServer* tls);
  // False when the peer and this server do not come to terms, or not in time.
  bool handshake();

  bool is_readable() const override;
  bool is_writable() const override { return true; }
  // -1 when the time is over or the connection is; the library then gives the request up.
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  // Of what is under way, the request or its answer.
  int64_t left_ms() const;
  // Waits until the socket is ready for `events`; false when the time is over before.
  bool wait(short events) const;

  socket_t socket_;
  StreamLimits limits_;
  const std::atomic<int>& waiting_;
  bool answers_ = false;  // the request is complete
  int64_t since_ns_;      // when the one or the other began
  TlsConnection tls_;     // null without TLS
  std::array<char, 4096> buffer_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace common
