// What happens to connections: ZeroMQ's monitor events, counted, logged and passed on.
#include <sys/socket.h>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/wire/zmq_support.h"

namespace common {
namespace {

constexpr int kWatchedEvents =
    ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED |
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

constexpr const char* kSilent = "it has not answered yet";
constexpr const char* kNotAsAFarm = "something is there, but does not answer as a farm does";

std::string unique_monitor_address() {
  static std::atomic<uint64_t> next{0};
  return cat("inproc://connection-events-", next.fetch_add(1));
}

}  // namespace

ConnectionMonitor::ConnectionMonitor(ZmqSocket& socket, InflowGuard* guard,
                                     ConnectionCallback callback)
    : watched_(socket),
      events_(socket.context(), ZMQ_PAIR),
      guard_(guard),
      is_server_(guard != nullptr),
      callback_(std::move(callback)),
      problem_(kSilent) {
  std::string address = unique_monitor_address();
  int rc = zmq_socket_monitor(watched_.get(), address.c_str(), kWatchedEvents);
  LFARM_CHECK(rc == 0, zmq_strerror(zmq_errno()));
  events_.set(ZMQ_LINGER, 0);
  // Without a bound: a full queue would block ZeroMQ's own threads.
  events_.set(ZMQ_RCVHWM, 0);
  rc = zmq_connect(events_.get(), address.c_str());
  LFARM_CHECK(rc == 0, zmq_strerror(zmq_errno()));
}

ConnectionMonitor::~ConnectionMonitor() { zmq_socket_monitor(watched_.get(), nullptr, 0); }

void ConnectionMonitor::assume_ready() {
  problem_.clear();
  counters_->ready = 1;
}

void ConnectionMonitor::drain() {
  std::vector<std::shared_ptr<ZmqFrame>> frames;
  size_t total = 0;
  while (receive_frames(events_.get(), 2, frames, total)) {
    // First frame: a 16-bit event and a 32-bit value, in the machine's order. Second: the endpoint.
    if (frames.size() != 2 || frames[0]->bytes().size() < 6) continue;
    uint16_t event;
    uint32_t value;
    std::memcpy(&event, frames[0]->bytes().data(), 2);
    std::memcpy(&value, frames[0]->bytes().data() + 2, 4);
    handle_event(event, value, std::string(as_text(frames[1]->bytes())));
  }
  if (guard_ != nullptr) counters_->flooding = guard_->ended_count();
}

// What a failed handshake means to who connects.
const char* ConnectionMonitor::client_problem(bool is_mismatch) const {
  if (is_mismatch && has_keys_) return "it uses no keys; connect without --farm-key";
  if (is_mismatch) return "it takes only who has keys; give its public key with --farm-key";
  // The side that ends the connection may be faster than the reason.
  if (has_keys_) return "the farm's public key (--farm-key) is wrong, or it is no farm with keys";
  return "it is no farm, or takes only who has keys; then give its public key with --farm-key";
}

void ConnectionMonitor::note_bad_handshake(ConnectionEvent& out, bool is_mismatch) {
  out.kind = ConnectionEvent::Kind::kBadHandshake;
  out.detail = is_server_ ? "handshake failed: wrong or missing keys, or not a peer of the farm"
                          : client_problem(is_mismatch);
  problem_ = out.detail;
  is_shaking_ = false;
  ++counters_->bad_handshakes;
  if (is_mismatch) ++counters_->mismatches;
}

void ConnectionMonitor::handle_event(int event, uint32_t value, std::string endpoint) {
  ConnectionEvent out{ConnectionEvent::Kind::kReady, std::move(endpoint), ""};
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      problem_.clear();
      is_shaking_ = false;
      ++counters_->ready;
      break;
    case ZMQ_EVENT_ACCEPTED:
      if (guard_ != nullptr) guard_->accepted(static_cast<int>(value));
      return;
    case ZMQ_EVENT_CONNECTED:
      if (problem_ == kSilent) problem_ = kNotAsAFarm;
      is_shaking_ = true;
      return;
    case ZMQ_EVENT_DISCONNECTED:
      ++counters_->disconnected;
      if (guard_ != nullptr) guard_->ended(static_cast<int>(value));
      if (is_shaking_) {
        note_bad_handshake(out, false);
        break;
      }
      out.kind = ConnectionEvent::Kind::kDisconnected;
      out.detail = "the connection was lost";
      // A failed handshake ends in a disconnection too, and its own reason says more.
      if (problem_.empty()) problem_ = out.detail;
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      gave_up_ = true;
      is_shaking_ = false;
      out.kind = ConnectionEvent::Kind::kDenied;
      out.detail = is_server_ ? cat("key denied, status ", value)
                              : std::string(
                                    "the farm does not know this key; have it added to "
                                    "the farm's allow-list");
      problem_ = out.detail;
      ++counters_->denied;
      break;
    default:
      gave_up_ = event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
      note_bad_handshake(out, gave_up_ && value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH);
      break;
  }
  bool failed = out.kind == ConnectionEvent::Kind::kBadHandshake ||
                (out.kind == ConnectionEvent::Kind::kDenied && !is_server_);
  if (failed) {
    if (uint64_t lines = throttle_.admit()) {
      log_warning(cat("connection ", out.endpoint, ": ", out.detail, times_text(lines)));
    }
  }
  if (callback_) callback_(out);
}

}  // namespace common
