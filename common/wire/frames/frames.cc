#include "common/wire/frames/frames.h"

#include <utility>

#include "common/base/cat.h"
#include "common/wire/limits.h"
#include "common/wire/zmq_support.h"

namespace common {
namespace {

void wait_for(void* socket, void* events, int fd, int timeout_ms) {
  zmq_pollitem_t items[] = {
      {socket, 0, ZMQ_POLLIN, 0}, {nullptr, fd, ZMQ_POLLIN, 0}, {events, 0, ZMQ_POLLIN, 0}};
  zmq_poll(items, events == nullptr ? 2 : 3, timeout_ms);
}

SharedBytes shared(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {as_bytes(*owner), owner};
}

SharedBytes bytes_of(std::shared_ptr<ZmqFrame> frame) {
  SharedBytes bytes;
  bytes.bytes = frame->bytes();
  bytes.owner = std::move(frame);
  return bytes;
}

}  // namespace

struct FrameRouter::State {
  explicit State(std::shared_ptr<void> context) : socket(std::move(context), ZMQ_ROUTER) {}
  ZmqSocket socket;
  std::string endpoint;
  std::shared_ptr<Authenticator> authenticator;
  std::shared_ptr<const Principal> local;  // set where security is off
};

FrameRouter::FrameRouter(std::unique_ptr<State> state) : state_(std::move(state)) {}
FrameRouter::FrameRouter(FrameRouter&&) noexcept = default;
FrameRouter& FrameRouter::operator=(FrameRouter&&) noexcept = default;
FrameRouter::~FrameRouter() = default;

Result<FrameRouter> FrameRouter::bind(WireContext& context, FrameRouterOptions options) {
  LFARM_RETURN_IF_ERROR(check_listening(options.endpoint, options.keys.has_value(),
                                        options.authenticator != nullptr));
  auto state = std::make_unique<State>(context.handle());
  ZmqSocket& socket = state->socket;
  set_common_options(socket, options.endpoint);
  socket.set(ZMQ_ROUTER_MANDATORY, 1);
  if (options.keys) {
    LFARM_RETURN_IF_ERROR(use_server_keys(socket, *options.keys));
    state->authenticator = std::move(options.authenticator);
  } else {
    state->local = std::make_shared<const Principal>(local_principal());
  }
  if (zmq_bind(socket.get(), options.endpoint.c_str()) != 0) {
    return cannot_listen(options.endpoint, zmq_errno());
  }
  char endpoint[1024];
  size_t size = sizeof endpoint;
  if (zmq_getsockopt(socket.get(), ZMQ_LAST_ENDPOINT, endpoint, &size) != 0) {
    return internal_error(cat("cannot tell the port of ", options.endpoint));
  }
  state->endpoint = endpoint;
  return FrameRouter(std::move(state));
}

const std::string& FrameRouter::endpoint() const { return state_->endpoint; }

SendOutcome FrameRouter::send(const std::string& peer, std::string bytes) {
  void* socket = state_->socket.get();
  ZmqFrame identity{as_bytes(peer)};
  // The first frame tells whether the whole message can go.
  int error = identity.send(socket, ZMQ_DONTWAIT | ZMQ_SNDMORE);
  if (error == EAGAIN) return SendOutcome::kFull;
  if (error != 0) return SendOutcome::kPeerGone;
  ZmqFrame content(shared(std::move(bytes)));
  return content.send(socket, ZMQ_DONTWAIT) == 0 ? SendOutcome::kSent : SendOutcome::kPeerGone;
}

size_t FrameRouter::receive(std::vector<FrameArrival>& arrivals, size_t max) {
  std::vector<std::shared_ptr<ZmqFrame>> frames;
  size_t count = 0, total = 0;
  while (count < max && receive_frames(state_->socket.get(), 2, frames, total)) {
    if (total != 2) continue;
    std::shared_ptr<const Principal> principal = state_->local;
    if (!principal) {
      principal = state_->authenticator->principal_of(frames[1]->property("User-Id"));
    }
    if (!principal) continue;
    std::string peer(as_text(frames[0]->bytes()));
    arrivals.push_back({std::move(peer), std::move(principal), bytes_of(std::move(frames[1]))});
    ++count;
  }
  return count;
}

void FrameRouter::wait(int timeout_ms, int fd) const {
  wait_for(state_->socket.get(), nullptr, fd, timeout_ms);
}

struct FrameDealer::State {
  explicit State(std::shared_ptr<void> context)
      : socket(std::move(context), ZMQ_DEALER), monitor(socket, nullptr, {}) {}
  // Handles connection events, and tries again where ZeroMQ has given up.
  void tend();
  ZmqSocket socket;
  ConnectionMonitor monitor;
  std::string endpoint;
  int64_t retry_at_ns = 0;  // 0: nothing to retry
};

void FrameDealer::State::tend() {
  monitor.drain();
  int64_t now = SteadyClock().now_ns();
  if (monitor.take_gave_up()) retry_at_ns = now + int64_t{kReconnectMsMax} * 1'000'000;
  if (retry_at_ns == 0 || now < retry_at_ns) return;
  retry_at_ns = 0;
  zmq_disconnect(socket.get(), endpoint.c_str());
  zmq_connect(socket.get(), endpoint.c_str());
}

FrameDealer::FrameDealer(std::unique_ptr<State> state) : state_(std::move(state)) {}
FrameDealer::FrameDealer(FrameDealer&&) noexcept = default;
FrameDealer& FrameDealer::operator=(FrameDealer&&) noexcept = default;
FrameDealer::~FrameDealer() = default;

Result<FrameDealer> FrameDealer::connect(WireContext& context, const std::string& endpoint,
                                         const std::optional<ClientKeys>& keys) {
  LFARM_RETURN_IF_ERROR(check_connecting(endpoint, keys.has_value()));
  auto state = std::make_unique<State>(context.handle());
  set_connecting_options(state->socket, endpoint);
  if (keys) {
    LFARM_RETURN_IF_ERROR(use_client_keys(state->socket, *keys));
    state->monitor.set_has_keys();
  }
  if (zmq_connect(state->socket.get(), endpoint.c_str()) != 0) {
    return invalid_input(cat("cannot connect to ", endpoint, ": ", zmq_strerror(zmq_errno())));
  }
  if (endpoint.starts_with("inproc://")) state->monitor.assume_ready();
  state->endpoint = endpoint;
  return FrameDealer(std::move(state));
}

bool FrameDealer::send(std::string bytes) {
  ZmqFrame frame(shared(std::move(bytes)));
  return frame.send(state_->socket.get(), ZMQ_DONTWAIT) == 0;
}

size_t FrameDealer::receive(std::vector<SharedBytes>& messages, size_t max) {
  state_->tend();
  std::vector<std::shared_ptr<ZmqFrame>> frames;
  size_t count = 0, total = 0;
  while (count < max && receive_frames(state_->socket.get(), 1, frames, total)) {
    if (total != 1) continue;
    messages.push_back(bytes_of(std::move(frames[0])));
    ++count;
  }
  return count;
}

void FrameDealer::wait(int timeout_ms, int fd) const {
  wait_for(state_->socket.get(), state_->monitor.handle(), fd, timeout_ms);
}

uint64_t FrameDealer::connections() const { return state_->monitor.counters().ready; }

Status FrameDealer::connection() const {
  state_->tend();
  const std::string& problem = state_->monitor.problem();
  if (problem.empty()) return {};
  return unavailable(cat("no connection to the coordinator at ", state_->endpoint, ": ", problem));
}

}  // namespace common
