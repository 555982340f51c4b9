#include "clients/runtime/farm/farm_link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "clients/runtime/farm/greeting.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/codec.h"

namespace clients {

using common::cat;
using common::Message;
using common::Packet;
using common::Result;
using common::SharedBytes;
using common::Status;

namespace {

constexpr int kWaitMs = 100;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kBatch = 64;
constexpr uint64_t kBadHandshakesMax = 3;
// In a row: more than a client has on its way at once.
constexpr int kRefusalsMax = 8;
constexpr int64_t kBadHandshakeMs = 500;
// A ZeroMQ socket sends its greeting as soon as a connection is made. When the first is over
// without an answer, a connection of another kind waits for the second to see whether a greeting
// comes.
constexpr int64_t kGreetingAfterMs = 300;
constexpr int kGreetingMs = 400;
// A refusal comes as soon as a packet has gone and come.
constexpr int kRefusalMs = 100;

}  // namespace

FarmLink::FarmLink(FarmLinkOptions options) : options_(std::move(options)) {
  coordinators_.named = common::split_endpoints(options_.endpoint);
}

// The first of the named ones that answers. Where all refuse, as while a farm starts, they are
// tried again.
Status FarmLink::open() {
  const int64_t end_ns = common::SteadyClock().now_ns() + options_.connect_ms_max * kNsPerMs;
  Status opened;
  do {
    for (size_t tries = 0; tries < coordinators_.named.size(); ++tries) {
      coordinators_.endpoint = coordinators_.named[coordinators_.next];
      coordinators_.server_key.clear();
      coordinators_.next = (coordinators_.next + 1) % coordinators_.named.size();
      opened = connect_to_coordinator();
      if (opened.ok() || opened.error().code != common::Code::kUnavailable) return opened;
    }
  } while (coordinators_.named.size() > 1 && common::SteadyClock().now_ns() < end_ns);
  return opened;
}

Status FarmLink::connect_to_coordinator() {
  common::DealerOptions dealer;
  dealer.endpoint = coordinators_.endpoint;
  dealer.keys = options_.keys;
  if (dealer.keys && !coordinators_.server_key.empty()) {
    dealer.keys->server_public_key = coordinators_.server_key;
  }
  dealer.protocol = options_.protocol;
  hellos_.is_welcome = false;
  hellos_.said = 0;
  alive_ns_ = 0;
  arrived_.clear();
  taken_ = 0;
  LFARM_ASSIGN_OR_RETURN(socket_, common::DealerSocket::connect(context_, std::move(dealer)));
  return await_welcome();
}

Status FarmLink::await_welcome() {
  int64_t deadline = common::SteadyClock().now_ns() + options_.connect_ms_max * kNsPerMs;
  int64_t probe_ns = common::SteadyClock().now_ns() + kGreetingAfterMs * kNsPerMs;
  int64_t failed_ns = 0;
  while (!hellos_.is_welcome) {
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] auto packet, receive());
    int64_t now = common::SteadyClock().now_ns();
    LFARM_RETURN_IF_ERROR(check_handshake());
    // Where trying again is no use, ZeroMQ takes its time for it.
    if (failed_ns == 0 && socket_->counters().bad_handshakes.load() > 0) failed_ns = now;
    bool stays_failed = failed_ns != 0 && now - failed_ns > kBadHandshakeMs * kNsPerMs;
    if (stays_failed) LFARM_RETURN_IF_ERROR(socket_->connection());
    if (probe_ns != 0 && now > probe_ns) {
      probe_ns = 0;
      bool is_open = socket_->counters().ready.load() != 0 || failed_ns != 0;
      Listener listener =
          is_open ? Listener::kUnknown : listener_at(coordinators_.endpoint, kGreetingMs);
      if (listener == Listener::kNobody && is_one_of_many()) {
        return common::unavailable(cat("nobody listens at ", coordinators_.endpoint));
      }
      if (listener == Listener::kSilent) {
        return common::unavailable(cat("something listens at ", coordinators_.endpoint,
                                       ", but does not answer as a farm does; check the address"));
      }
    }
    if (!hellos_.is_welcome && now > deadline) {
      return common::unavailable(cat("no farm answers at ", coordinators_.endpoint,
                                     "; start one with 'lfarm up' or check the address"));
    }
  }
  return {};
}

// One handshake may fail because a farm just goes or comes, and which side notices first that only
// one uses keys is chance: several that fail are no accident.
Status FarmLink::check_handshake() const {
  const common::ConnectionCounters& counters = socket_->counters();
  bool is_certain =
      counters.mismatches.load() > 0 || counters.bad_handshakes.load() >= kBadHandshakesMax;
  if (!is_certain) return {};
  return socket_->connection();
}

Status FarmLink::say_hello() {
  hellos_.said = socket_->counters().ready.load();
  hellos_.is_welcome = false;
  common::ClientHello hello;
  hello.client_id = cat("client-", ::getpid());
  hello.build = std::string(common::build_name());
  hello.protocol_min = options_.protocol.min;
  hello.protocol_max = options_.protocol.max;
  socket_->speak(options_.protocol.min);
  return send(hello, {});
}

Status FarmLink::send(const Message& message, const SharedBytes& blob) {
  if (socket_->send(message, blob) == common::SendOutcome::kSent) return {};
  return common::unavailable(
      cat("the farm at ", coordinators_.endpoint, " does not take messages; try again later"));
}

Status FarmLink::ask(std::vector<Packet> questions) {
  for (const Packet& question : questions) {
    LFARM_RETURN_IF_ERROR(common::validate(question.message));
  }
  questions_ = std::move(questions);
  coordinators_.asked_ns = 0;
  return repeat_questions();
}

// The next packet that is not about the connection itself; empty when none came for a while.
Result<std::optional<Packet>> FarmLink::receive() {
  if (taken_ == arrived_.size()) LFARM_RETURN_IF_ERROR(wait_for_arrivals(kWaitMs, -1));
  if (taken_ == arrived_.size()) return std::optional<Packet>();
  Result<Packet> packet = std::move(arrived_[taken_++]);
  if (!packet.ok()) return packet.error();
  return handle(std::move(packet).value());
}

Status FarmLink::wait_for_arrivals(int wait_ms, int wake_fd) {
  arrived_.clear();
  taken_ = 0;
  common::Poller poller;
  poller.watch(*socket_);
  if (wake_fd >= 0) poller.watch_fd(wake_fd);
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] size_t ready, poller.wait(wait_ms));
  socket_->receive(arrived_, kBatch);
  LFARM_RETURN_IF_ERROR(check_connection());
  if (options_.on_wait) LFARM_RETURN_IF_ERROR(options_.on_wait());
  return {};
}

Status FarmLink::check_connection() {
  int64_t now = common::SteadyClock().now_ns();
  if (socket_->counters().ready.load() > hellos_.said) {
    alive_ns_ = now;
    return say_hello();
  }
  Status connection = socket_->connection();
  if (connection.ok()) {
    alive_ns_ = now;
    return {};
  }
  // At the first meeting, or later when the key was revoked.
  if (socket_->counters().denied.load() > 0 && options_.keys) {
    return common::unavailable(cat("the farm at ", coordinators_.endpoint,
                                   " does not know this client's key; ask its administrator for "
                                   "'lfarm keys grant ",
                                   options_.keys->own.public_key, " TENANT ROLE,ROLE'"));
  }
  if (is_one_of_many() && is_gone(now)) return move_on();
  int64_t silence_ms = is_one_of_many() ? options_.connect_ms_max : options_.silence_ms_max;
  bool given_up = alive_ns_ != 0 && now - alive_ns_ > silence_ms * kNsPerMs;
  if (given_up) return is_one_of_many() ? move_on() : connection;
  return {};
}

// Whether there was a connection, and nobody listens any more where it went to.
bool FarmLink::is_gone(int64_t now_ns) {
  constexpr int64_t kPauseNs = kGreetingAfterMs * kNsPerMs;
  if (alive_ns_ == 0 || now_ns - std::max(alive_ns_, looked_ns_) < kPauseNs) return false;
  looked_ns_ = now_ns;
  return listener_at(coordinators_.endpoint, kRefusalMs) == Listener::kNobody;
}

bool FarmLink::is_one_of_many() const {
  return coordinators_.named.size() > 1 || coordinators_.endpoint != coordinators_.named.front();
}

// Another coordinator of the farm, when this one is gone: the named ones in turn, for as long as a
// connection may be silent.
Status FarmLink::move_on() {
  int64_t deadline_ns = common::SteadyClock().now_ns() + options_.silence_ms_max * kNsPerMs;
  while (true) {
    Status opened = open();
    if (opened.ok() || common::SteadyClock().now_ns() > deadline_ns) return opened;
    if (opened.error().code != common::Code::kUnavailable) return opened;
    if (options_.on_wait) LFARM_RETURN_IF_ERROR(options_.on_wait());
  }
}

Result<bool> FarmLink::ask_again(const common::JobFailed& failed) {
  if (failed.endpoint.empty() && failed.again_ms == 0) {
    coordinators_.asked_ns = 0;
    return false;
  }
  int64_t now_ns = common::SteadyClock().now_ns();
  if (coordinators_.asked_ns == 0) coordinators_.asked_ns = now_ns;
  // A farm in which shards go from hand to hand for so long has other troubles.
  bool is_over = now_ns - coordinators_.asked_ns > 2 * options_.silence_ms_max * kNsPerMs;
  if (is_over) {
    coordinators_.asked_ns = 0;
    return false;
  }
  for (int64_t left_ms = failed.again_ms; left_ms > 0; left_ms -= kWaitMs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(left_ms, kWaitMs)));
    if (options_.on_wait) LFARM_RETURN_IF_ERROR(options_.on_wait());
  }
  if (failed.endpoint.empty() || failed.endpoint == coordinators_.endpoint) {
    LFARM_RETURN_IF_ERROR(repeat_questions());
    return true;
  }
  common::log_debug(cat("the question goes to the coordinator at ", failed.endpoint));
  coordinators_.endpoint = failed.endpoint;
  coordinators_.server_key = failed.server_key;
  Status connected = connect_to_coordinator();
  if (!connected.ok() && connected.error().code == common::Code::kUnavailable) {
    connected = move_on();
  }
  if (!connected.ok()) return connected.error();
  return true;
}

Status FarmLink::repeat_questions() {
  for (const Packet& question : questions_) {
    LFARM_RETURN_IF_ERROR(send(question.message, question.blob));
  }
  return {};
}

Result<std::optional<Packet>> FarmLink::handle(Packet packet) {
  if (auto* welcome = std::get_if<common::Welcome>(&packet.message)) {
    bool first = welcome_.coordinator_id.empty();
    if (!options_.protocol.holds(welcome->protocol_version)) {
      return common::corrupt(cat("the farm at ", coordinators_.endpoint,
                                 " wants to speak protocol ", welcome->protocol_version,
                                 "; this side speaks ", common::text_of(options_.protocol)));
    }
    welcome_ = *welcome;
    socket_->speak(welcome_.protocol_version);
    hellos_.is_welcome = true;
    hellos_.refused = 0;
    ++hellos_.answered;
    if (!first) LFARM_RETURN_IF_ERROR(repeat_questions());
    return std::optional<Packet>();
  }
  if (auto* refused = std::get_if<common::Refused>(&packet.message)) {
    // One that was started anew refuses all that was on its way: each message, not the hello.
    bool is_known = hellos_.is_welcome || !welcome_.coordinator_id.empty();
    if (refused->code == common::Code::kUnavailable && is_known &&
        ++hellos_.refused <= kRefusalsMax) {
      LFARM_RETURN_IF_ERROR(say_hello());
      return std::optional<Packet>();
    }
    return common::Error{
        refused->code, cat("the farm at ", coordinators_.endpoint, " refuses: ", refused->message)};
  }
  return std::optional<Packet>(std::move(packet));
}

}  // namespace clients
