// Inside common/wire: ZeroMQ's handles with owners, and the events of a socket's connections.
// No component outside may include this header: it brings ZeroMQ's own.
#pragma once

#include <zmq.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/wire/inflow_guard.h"
#include "common/wire/socket.h"

namespace common {

// One frame.
class ZmqFrame {
 public:
  ZmqFrame() { zmq_msg_init(&message_); }
  // A copy of the bytes.
  explicit ZmqFrame(ByteView bytes) {
    LFARM_CHECK(zmq_msg_init_size(&message_, bytes.size()) == 0, "out of memory for a frame");
    if (!bytes.empty()) std::memcpy(zmq_msg_data(&message_), bytes.data(), bytes.size());
  }
  // Shares the bytes; their owner is released when they have been sent.
  explicit ZmqFrame(const SharedBytes& shared) {
    auto* owner = new std::shared_ptr<const void>(shared.owner);
    auto release = [](void*, void* hint) {
      delete static_cast<std::shared_ptr<const void>*>(hint);
    };
    void* data = const_cast<std::byte*>(shared.bytes.data());
    LFARM_CHECK(zmq_msg_init_data(&message_, data, shared.bytes.size(), release, owner) == 0,
                "out of memory for a frame");
  }
  // The bytes of `held`, an object with a member bytes(), which is deleted when they have been
  // sent.
  template <class Held>
  explicit ZmqFrame(std::unique_ptr<Held> held) {
    ByteView bytes = held->bytes();
    auto release = [](void*, void* hint) { delete static_cast<Held*>(hint); };
    void* data = const_cast<std::byte*>(bytes.data());
    LFARM_CHECK(zmq_msg_init_data(&message_, data, bytes.size(), release, held.release()) == 0,
                "out of memory for a frame");
  }
  ~ZmqFrame() { zmq_msg_close(&message_); }
  ZmqFrame(const ZmqFrame&) = delete;
  ZmqFrame& operator=(const ZmqFrame&) = delete;

  ByteView bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }
  bool more() { return zmq_msg_more(&message_) != 0; }
  // A property of the connection that the frame came by, such as "User-Id"; empty when unknown.
  std::string property(const char* name) {
    const char* value = zmq_msg_gets(&message_, name);
    return value == nullptr ? "" : value;
  }
  // 0 or the error number. A sent frame is empty afterwards.
  int send(void* socket, int flags) {
    while (zmq_msg_send(&message_, socket, flags) < 0) {
      if (zmq_errno() != EINTR) return zmq_errno();
    }
    return 0;
  }
  int receive(void* socket, int flags) {
    while (zmq_msg_recv(&message_, socket, flags) < 0) {
      if (zmq_errno() != EINTR) return zmq_errno();
    }
    return 0;
  }

 private:
  zmq_msg_t message_;
};

// A socket, closed on destruction, and the context that it needs.
class ZmqSocket {
 public:
  ZmqSocket(std::shared_ptr<void> context, int type)
      : context_(std::move(context)), handle_(zmq_socket(context_.get(), type)) {
    LFARM_CHECK(handle_ != nullptr, "more sockets than kSocketsMax");
  }
  ~ZmqSocket() { zmq_close(handle_); }
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  void* get() const { return handle_; }
  const std::shared_ptr<void>& context() const { return context_; }
  void set(int option, int value) { check(zmq_setsockopt(handle_, option, &value, sizeof value)); }
  void set(int option, int64_t value) {
    check(zmq_setsockopt(handle_, option, &value, sizeof value));
  }
  void set(int option, std::string_view value) {
    check(zmq_setsockopt(handle_, option, value.data(), value.size()));
  }

 private:
  static void check(int rc) { LFARM_CHECK(rc == 0, zmq_strerror(zmq_errno())); }
  std::shared_ptr<void> context_;
  void* handle_;
};

// What frames take on the wire (ZMTP 3.1, "framing", and CurveZMQ's MESSAGE).
class WireSize {
 public:
  explicit WireSize(bool has_keys) : sealing_(has_keys ? 33 : 0) {}
  void add(size_t frame_bytes) {
    uint64_t sealed = frame_bytes + sealing_;
    bytes_ += sealed + (sealed > 255 ? 9 : 2);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t sealing_;
  uint64_t bytes_ = 0;
};

// Receives all frames of one message without waiting. At most `max` are kept; `total` counts all,
// and `rest` the sizes of all but the first. False when none waits.
inline bool receive_frames(void* socket, size_t max, std::vector<std::shared_ptr<ZmqFrame>>& frames,
                           size_t& total, WireSize* rest = nullptr) {
  frames.clear();
  total = 0;
  while (true) {
    auto frame = std::make_shared<ZmqFrame>();
    // The rest of a message that has begun never has to be waited for.
    if (frame->receive(socket, total == 0 ? ZMQ_DONTWAIT : 0) != 0) return false;
    bool more = frame->more();
    if (rest != nullptr && total > 0) rest->add(frame->bytes().size());
    if (total++ < max) frames.push_back(std::move(frame));
    if (!more) return true;
  }
}

// ---- What sockets of all kinds begin with, in socket.cc

void set_common_options(ZmqSocket& socket, std::string_view endpoint);
// Of a socket that connects.
void set_connecting_options(ZmqSocket& socket, std::string_view endpoint);
// Of a failed bind, by its error number.
Error cannot_listen(const std::string& endpoint, int error);
// The farm's side of CURVE. kInvalidInput when a key is malformed.
Status use_server_keys(ZmqSocket& socket, const KeyPair& keys);
// The peer's side.
Status use_client_keys(ZmqSocket& socket, const ClientKeys& keys);
// kInvalidInput when a listening socket lacks what its endpoint needs; `has_keys` and `has_list`
// say what was given.
Status check_listening(const std::string& endpoint, bool has_keys, bool has_list);
// kInvalidInput when the endpoint is on another machine and there are no keys.
Status check_connecting(const std::string& endpoint, bool has_keys);

// Lets one line a second through and counts the rest. Not thread-safe.
class LogThrottle {
 public:
  // How many lines this one stands for, itself included; 0 when it should not be written now.
  uint64_t admit() {
    ++waiting_;
    int64_t now = SteadyClock().now_ns();
    if (last_ns_ != 0 && now - last_ns_ < 1'000'000'000) return 0;
    last_ns_ = now;
    return std::exchange(waiting_, 0);
  }

 private:
  int64_t last_ns_ = 0;
  uint64_t waiting_ = 0;
};

// " (7 times)" behind a line that stands for several.
inline std::string times_text(uint64_t lines) {
  return lines > 1 ? " (" + std::to_string(lines) + " times)" : "";
}

// Reads what ZeroMQ tells about a socket's connections. Belongs to the socket's thread.
class ConnectionMonitor {
 public:
  // `guard`: told of a server's connections; null for clients.
  ConnectionMonitor(ZmqSocket& socket, InflowGuard* guard, ConnectionCallback callback);
  ~ConnectionMonitor();

  void* handle() const { return events_.get(); }
  // Handles the events that wait.
  void drain();
  // Empty while a connection is up, else why the last one is not.
  const std::string& problem() const { return problem_; }
  void assume_ready();  // for inproc, which has no events
  void set_has_keys() { has_keys_ = true; }
  // Whether ZeroMQ will not try again by itself: true once after a refused handshake.
  bool take_gave_up() { return std::exchange(gave_up_, false); }
  ConnectionCounters& counters() { return *counters_; }
  const ConnectionCounters& counters() const { return *counters_; }

 private:
  void handle_event(int event, uint32_t value, std::string endpoint);
  const char* client_problem(bool is_mismatch) const;
  void note_bad_handshake(ConnectionEvent& out, bool is_mismatch);
  ZmqSocket& watched_;
  ZmqSocket events_;
  InflowGuard* guard_;
  bool is_server_;
  bool has_keys_ = false;
  ConnectionCallback callback_;
  std::unique_ptr<ConnectionCounters> counters_ = std::make_unique<ConnectionCounters>();
  std::string problem_;
  bool is_shaking_ =
      false;  // a client's connection is there, its handshake neither done nor failed
  bool gave_up_ = false;
  LogThrottle throttle_;
};

}  // namespace common
