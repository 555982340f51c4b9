#include "worker/agent/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace worker {

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kWelcomeMs = 1'000;  // after a hello, where a coordinator answers at all
constexpr size_t kReceiveBatch = 64;

}  // namespace

CoordinatorLink::CoordinatorLink(common::DealerSocket socket, common::WorkerHello hello,
                                 Periods periods, const common::Clock& clock)
    : socket_(std::move(socket)), hello_(std::move(hello)), periods_(periods), clock_(clock) {
  hello_.build = std::string(common::build_name());
  hello_.protocol_min = socket_.protocol().min;
  hello_.protocol_max = socket_.protocol().max;
}

std::span<const common::Result<common::Packet>> CoordinatorLink::receive() {
  packets_.clear();
  socket_.receive(packets_, kReceiveBatch);
  return packets_;
}

void CoordinatorLink::queue(common::Message message, common::SharedBytes blob) {
  outbox_.push_back({std::move(message), std::move(blob)});
}

void CoordinatorLink::flush() {
  while (is_welcomed_ && !outbox_.empty()) {
    if (socket_.send(outbox_.front().message, outbox_.front().blob) != common::SendOutcome::kSent) {
      return;
    }
    outbox_.pop_front();
  }
}

bool CoordinatorLink::is_other_than(const std::string& id) const {
  return !coordinator_id_.empty() && coordinator_id_ != id;
}

bool CoordinatorLink::join(const common::Welcome& welcome) {
  if (!is_welcomed_ || welcome.coordinator_id != coordinator_id_) {
    common::log_info("joined a coordinator", {{"worker", hello_.worker_id},
                                              {"coordinator", welcome.coordinator_id},
                                              {"tenant", welcome.tenant}});
  }
  coordinator_id_ = welcome.coordinator_id;
  if (!socket_.protocol().holds(welcome.protocol_version)) {
    common::log_warning("the coordinator wants to speak a protocol that this side does not");
    return false;
  }
  socket_.speak(welcome.protocol_version);
  is_welcomed_ = true;
  if (welcome.heartbeat_ms != 0) periods_.heartbeat_ms = welcome.heartbeat_ms;
  next_heartbeat_ns_ = clock_.now_ns();
  return true;
}

void CoordinatorLink::forget_welcome() {
  is_welcomed_ = false;
  next_hello_ns_ = clock_.now_ns();
}

void CoordinatorLink::keep_in_touch() {
  int64_t now = clock_.now_ns();
  bool connected = socket_.connection().ok();
  uint64_t connections = socket_.counters().ready.load();
  if (connections != connections_seen_) {  // the coordinator sees a new peer
    connections_seen_ = connections;
    is_welcomed_ = false;
    next_hello_ns_ = now;
    said_hello_ns_ = 0;
  }
  if (!connected) is_welcomed_ = false;  // what is sent now would arrive before the next hello
  if (connected && !is_welcomed_ && now >= next_hello_ns_) say_hello();
}

bool CoordinatorLink::expects_welcome() const {
  return !is_welcomed_ && said_hello_ns_ != 0 &&
         clock_.now_ns() < said_hello_ns_ + kWelcomeMs * kMs;
}

bool CoordinatorLink::takes_heartbeat() {
  int64_t now = clock_.now_ns();
  if (!is_welcomed_ || now < next_heartbeat_ns_) return false;
  next_heartbeat_ns_ = now + periods_.heartbeat_ms * kMs;
  return true;
}

int64_t CoordinatorLink::next_ns() const {
  int64_t now = clock_.now_ns();
  int64_t next = now + 1'000 * kMs;
  if (is_welcomed_) {
    next = next_heartbeat_ns_;
    if (!outbox_.empty()) next = std::min(next, now + 10 * kMs);
  } else if (connections_seen_ != 0) {
    next = std::max(next_hello_ns_, now + 10 * kMs);
  }
  return next;
}

void CoordinatorLink::say_hello() {
  socket_.speak(hello_.protocol_min);
  // A full queue is tried again with the next hello.
  (void)socket_.send(hello_);
  said_hello_ns_ = clock_.now_ns();
  next_hello_ns_ = said_hello_ns_ + periods_.hello_ms * kMs;
}

}  // namespace worker
