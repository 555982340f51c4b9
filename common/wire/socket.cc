#include "common/wire/socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "common/base/cat.h"
#include "common/wire/limits.h"
#include "common/wire/socket_state.h"
#include "common/wire/zmq_support.h"

namespace common {
namespace {

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// The host of a tcp endpoint, without brackets; empty for others.
std::string_view tcp_host(std::string_view endpoint) {
  if (!starts_with(endpoint, "tcp://")) return {};
  endpoint.remove_prefix(6);
  size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos) return {};
  std::string_view host = endpoint.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// 127.a.b.c and nothing that merely starts like it.
bool is_loopback_v4(std::string_view host) {
  if (!starts_with(host, "127.")) return false;
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// A number up to 65535, or "*"; ZeroMQ itself takes 70000 for 4464.
bool is_port(std::string_view text) {
  if (text == "*") return true;
  uint32_t port = 0;
  auto end = std::from_chars(text.data(), text.data() + text.size(), port);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() && port <= 65535;
}

Status check_endpoint(std::string_view endpoint) {
  bool known = starts_with(endpoint, "ipc://") || starts_with(endpoint, "inproc://") ||
               (!tcp_host(endpoint).empty() && is_port(endpoint.substr(endpoint.rfind(':') + 1)));
  if (known && is_clean_text(endpoint, kNameBytesMax)) return {};
  return invalid_input(cat("endpoint '", clean_text(endpoint.substr(0, kNameBytesMax)),
                           "' is not tcp://HOST:PORT, ipc://PATH or inproc://NAME"));
}

// ZeroMQ takes an ipc path away from a process that listens on it; ask whether someone does.
bool ipc_path_is_served(const std::string& endpoint) {
  std::string path = endpoint.substr(6);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path == "*" || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  size_t length = offsetof(sockaddr_un, sun_path) + path.size();
  if (path[0] == '@') {
    address.sun_path[0] = '\0';
  } else {
    ++length;
  }
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  int rc =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(length));
  bool served = rc == 0 || errno == EAGAIN;
  ::close(fd);
  return served;
}

// Frames of one packet, after a router's identity frame.
Result<Packet> decode_packet(std::vector<std::shared_ptr<ZmqFrame>>& frames, size_t first,
                             size_t total, const ProtocolRange& spoken,
                             uint32_t* version = nullptr) {
  if (total <= first || total > first + 2) {
    return invalid_input(cat("packet of ", total - first, " frames; it has one or two"));
  }
  LFARM_ASSIGN_OR_RETURN(Message message, decode(frames[first]->bytes(), spoken, version));
  bool has_blob = total == first + 2;
  BlobFrame rule = blob_frame_of(message);
  if (has_blob && rule == BlobFrame::kNone) {
    return invalid_input(cat(message_name(message), " came with a blob, which it cannot have"));
  }
  if (!has_blob && rule == BlobFrame::kRequired) {
    return invalid_input(cat(message_name(message), " came without its blob"));
  }
  Packet packet{std::move(message), {}, {}};
  if (has_blob) {
    auto frame = std::move(frames[first + 1]);
    packet.blob.bytes = frame->bytes();
    packet.blob.owner = std::move(frame);
    auto parts = blob_parts_of(packet.message, packet.blob.bytes.size());
    LFARM_ASSIGN_OR_RETURN(packet.parts, split_blob(packet.blob.bytes, parts));
  }
  return packet;
}

// The descriptor that the frame came by; -1 when unknown.
int connection_of(ZmqFrame& frame) {
  std::string text = frame.property("__fd");
  int fd = -1;
  std::from_chars(text.data(), text.data() + text.size(), fd);
  return fd;
}

// ZeroMQ has no call that ends one connection, but takes the end of its stream for one.
void drop_connection(int fd) {
  if (fd >= 0) ::shutdown(fd, SHUT_RDWR);
}

void check_blob_rule(const Message& message, const SharedBytes& blob) {
  BlobFrame rule = blob_frame_of(message);
  bool fits = blob ? rule != BlobFrame::kNone : rule != BlobFrame::kRequired;
  LFARM_CHECK(fits, message_name(message));
}

// Sends the envelope and the blob. 0 or the error number.
int send_packet(void* socket, const Message& message, const SharedBytes& blob, uint32_t version) {
  Bytes envelope = encode(message, version);
  ZmqFrame first{ByteView(envelope)};
  int error = first.send(socket, ZMQ_DONTWAIT | (blob ? ZMQ_SNDMORE : 0));
  if (error != 0 || !blob) return error;
  ZmqFrame second(blob);
  return second.send(socket, ZMQ_DONTWAIT);
}

}  // namespace

// ---- Endpoints and keys
// ---------------------------------------------------------------------------

bool is_local_endpoint(std::string_view endpoint) {
  if (starts_with(endpoint, "ipc://") || starts_with(endpoint, "inproc://")) return true;
  std::string_view host = tcp_host(endpoint);
  return host == "localhost" || host == "::1" || is_loopback_v4(host);
}

void set_common_options(ZmqSocket& socket, std::string_view endpoint) {
  socket.set(ZMQ_LINGER, kLingerMs);
  socket.set(ZMQ_SNDHWM, kSendQueueMessages);
  socket.set(ZMQ_RCVHWM, kReceiveQueueMessages);
  socket.set(ZMQ_MAXMSGSIZE, static_cast<int64_t>(kBlobBytesMax));
  socket.set(ZMQ_RECONNECT_IVL, kReconnectMs);
  socket.set(ZMQ_RECONNECT_IVL_MAX, kReconnectMsMax);
  socket.set(ZMQ_HANDSHAKE_IVL, kConnectionTimeoutMs);
  socket.set(ZMQ_HEARTBEAT_IVL, kConnectionProbeMs);
  socket.set(ZMQ_HEARTBEAT_TIMEOUT, kConnectionTimeoutMs);
  socket.set(ZMQ_TCP_KEEPALIVE, 1);
  socket.set(ZMQ_TCP_KEEPALIVE_IDLE, kConnectionTimeoutMs / 1000);
  socket.set(ZMQ_TCP_KEEPALIVE_INTVL, kConnectionProbeMs / 1000);
  socket.set(ZMQ_TCP_KEEPALIVE_CNT, 3);
  // Only for addresses that need it: with it on, names resolve to IPv6 where both exist, and IPv4
  // endpoints are reported in their mapped form.
  socket.set(ZMQ_IPV6, tcp_host(endpoint).find(':') != std::string_view::npos ? 1 : 0);
}

// The receive queue has no bound. libzmq stops reading a connection whose queue is full, sees no
// answers to its heartbeats and closes it; libzmq 4.3 may then abort the process when it reconnects
// (https://github.com/zeromq/libzmq/issues/3937). A coordinator sends few messages unasked, and
// credit bounds tasks.
void set_connecting_options(ZmqSocket& socket, std::string_view endpoint) {
  set_common_options(socket, endpoint);
  if (!starts_with(endpoint, "inproc://")) socket.set(ZMQ_RCVHWM, 0);
}

Error cannot_listen(const std::string& endpoint, int error) {
  if (error == EADDRINUSE) {
    return invalid_input(
        cat("cannot listen on ", endpoint, ": address in use; choose another with --listen"));
  }
  return invalid_input(cat("cannot listen on ", endpoint, ": ", zmq_strerror(error),
                           "; choose an address of this machine with --listen"));
}

Status use_server_keys(ZmqSocket& socket, const KeyPair& keys) {
  LFARM_RETURN_IF_ERROR(check_curve_key(keys.public_key, "server public key"));
  LFARM_RETURN_IF_ERROR(check_curve_key(keys.secret_key, "server secret key"));
  socket.set(ZMQ_CURVE_SERVER, 1);
  socket.set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
  socket.set(ZMQ_ZAP_DOMAIN, "lfarm");
  return {};
}

Status use_client_keys(ZmqSocket& socket, const ClientKeys& keys) {
  LFARM_RETURN_IF_ERROR(check_curve_key(keys.own.public_key, "client public key"));
  LFARM_RETURN_IF_ERROR(check_curve_key(keys.own.secret_key, "client secret key"));
  LFARM_RETURN_IF_ERROR(check_curve_key(keys.server_public_key, "farm public key"));
  socket.set(ZMQ_CURVE_PUBLICKEY, keys.own.public_key);
  socket.set(ZMQ_CURVE_SECRETKEY, keys.own.secret_key);
  socket.set(ZMQ_CURVE_SERVERKEY, keys.server_public_key);
  return {};
}

Status check_listening(const std::string& endpoint, bool has_keys, bool has_list) {
  LFARM_RETURN_IF_ERROR(check_endpoint(endpoint));
  if (has_keys != has_list) {
    return invalid_input(cat("cannot listen on ", endpoint,
                             ": server keys and an allow-list go together; give both or neither"));
  }
  if (!has_keys && !is_local_endpoint(endpoint)) {
    return invalid_input(cat("cannot listen on ", endpoint,
                             " without keys: other machines could run code here; make keys with "
                             "'lfarm keys' or listen on tcp://127.0.0.1:*"));
  }
  if (starts_with(endpoint, "ipc://") && ipc_path_is_served(endpoint)) {
    return cannot_listen(endpoint, EADDRINUSE);
  }
  return {};
}

Status check_connecting(const std::string& endpoint, bool has_keys) {
  LFARM_RETURN_IF_ERROR(check_endpoint(endpoint));
  if (has_keys || is_local_endpoint(endpoint)) return {};
  return invalid_input(cat("cannot connect to ", endpoint,
                           " without keys: it is on another machine; give this side's keys and "
                           "the farm's public key"));
}

SharedBytes share(Bytes bytes) {
  auto owner = std::make_shared<const Bytes>(std::move(bytes));
  return {ByteView(*owner), owner};
}

std::vector<std::string> split_endpoints(std::string_view endpoints) {
  std::vector<std::string> all;
  while (true) {
    size_t comma = endpoints.find(',');
    all.emplace_back(endpoints.substr(0, comma));
    if (comma == std::string_view::npos) return all;
    endpoints.remove_prefix(comma + 1);
  }
}

// ---- Router ------------------------------------------------------------------------------------

RouterSocket::RouterSocket(std::unique_ptr<State> state) : state_(std::move(state)) {}
RouterSocket::RouterSocket(RouterSocket&&) noexcept = default;
RouterSocket& RouterSocket::operator=(RouterSocket&&) noexcept = default;
RouterSocket::~RouterSocket() = default;

Result<RouterSocket> RouterSocket::bind(WireContext& context, RouterOptions options) {
  LFARM_RETURN_IF_ERROR(check_listening(options.endpoint, options.keys.has_value(),
                                        options.authenticator != nullptr));

  InflowLimits inflow{options.peer_inflow_bytes, options.inflow_bytes};
  auto state = std::make_unique<State>(context.handle(), std::move(options.on_connection), inflow);
  state->peer_queue_bytes = options.peer_queue_bytes;
  state->queue_bytes = options.queue_bytes;
  state->protocol = options.protocol;
  ZmqSocket& socket = state->socket;
  set_common_options(socket, options.endpoint);
  socket.set(ZMQ_BACKLOG, kListenBacklog);
  // A message to a peer that is gone is an outcome that the sender sees. A peer never takes over
  // the name of another's connection (ROUTER_HANDOVER stays off): names are the router's to give.
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
  return RouterSocket(std::move(state));
}

const std::string& RouterSocket::endpoint() const { return state_->endpoint; }
const ConnectionCounters& RouterSocket::counters() const { return state_->monitor.counters(); }

SendOutcome RouterSocket::send(const std::string& peer, const Message& message,
                               const SharedBytes& blob) {
  check_blob_rule(message, blob);
  uint32_t version = state_->version_of(peer);
  if (introduced_in(message) > version) return SendOutcome::kNotKnown;
  Bytes envelope = encode(message, version);
  auto queue = state_->room_for(peer, envelope.size() + blob.bytes.size());
  if (!queue) return SendOutcome::kFull;
  void* socket = state_->socket.get();
  ZmqFrame identity{as_bytes(peer)};
  // The first frame tells whether the whole packet can go; the others then cannot fail.
  int error = identity.send(socket, ZMQ_DONTWAIT | ZMQ_SNDMORE);
  if (error == EAGAIN) return SendOutcome::kFull;
  if (error != 0) {
    state_->queues.erase(peer);
    state_->versions.erase(peer);
    return SendOutcome::kPeerGone;
  }
  ZmqFrame first{std::make_unique<QueuedFrame>(queue, std::move(envelope))};
  error = first.send(socket, ZMQ_DONTWAIT | (blob ? ZMQ_SNDMORE : 0));
  if (error != 0) return SendOutcome::kPeerGone;
  if (!blob) return SendOutcome::kSent;
  ZmqFrame second{std::make_unique<QueuedFrame>(std::move(queue), blob)};
  return second.send(socket, ZMQ_DONTWAIT) == 0 ? SendOutcome::kSent : SendOutcome::kPeerGone;
}

size_t RouterSocket::queued_bytes() const { return *state_->queued; }

std::shared_ptr<QueuedBytes> RouterSocket::State::room_for(const std::string& peer, size_t bytes) {
  if (queues.size() >= sweep_at) {
    std::erase_if(queues, [](const auto& entry) { return entry.second->peer == 0; });
    sweep_at = std::max<size_t>(1024, 2 * queues.size());
  }
  auto& queue = queues[peer];
  if (!queue) {
    queue = std::make_shared<QueuedBytes>();
    queue->all = queued;
  }
  size_t waiting = queue->peer;
  bool is_full = waiting + bytes > peer_queue_bytes || *queued + bytes > queue_bytes;
  return waiting != 0 && is_full ? nullptr : queue;
}

size_t RouterSocket::receive(std::vector<Arrival>& arrivals, size_t max) {
  state_->monitor.drain();
  std::vector<std::shared_ptr<ZmqFrame>> frames;
  size_t count = 0, total = 0;
  while (count < max) {
    WireSize size(state_->authenticator != nullptr);
    if (!receive_frames(state_->socket.get(), 3, frames, total, &size)) break;
    ZmqFrame& last = *frames.back();
    std::shared_ptr<const Principal> principal = state_->local;
    std::string peer(as_text(frames[0]->bytes()));
    int fd = connection_of(last);
    state_->inflow.taken(fd, size.bytes());
    if (!principal) {
      std::string key = last.property("User-Id");
      principal = state_->authenticator->principal_of(key);
      if (!principal) {
        ++state_->monitor.counters().denied;
        drop_connection(fd);
        continue;
      }
      state_->note(fd, peer, key);
    }
    std::string address = last.property("Peer-Address");
    uint32_t version = 0;
    auto packet = decode_packet(frames, 1, total, state_->protocol, &version);
    if (version != 0) state_->note_version(peer, version);
    arrivals.push_back(
        {std::move(peer), std::move(principal), std::move(address), std::move(packet)});
    ++count;
  }
  return count;
}

void RouterSocket::State::note(int fd, const std::string& peer, const std::string& key) {
  Connection& known = connections[fd];
  if (known.peer == peer) return;
  known = {peer, key};
}

void RouterSocket::State::note_version(const std::string& peer, uint32_t version) {
  if (version == protocol.max) {
    versions.erase(peer);
    return;
  }
  // Most of so many are gone; the others are known again by what they say next.
  if (versions.size() >= kSocketsMax) versions.clear();
  versions[peer] = version;
}

uint32_t RouterSocket::State::version_of(const std::string& peer) const {
  auto found = versions.find(peer);
  return found == versions.end() ? protocol.max : found->second;
}

std::vector<std::string> RouterSocket::drop_revoked() {
  std::vector<std::string> dropped;
  auto& connections = state_->connections;
  for (auto it = connections.begin(); it != connections.end();) {
    if (state_->authenticator->principal_of(it->second.key)) {
      ++it;
      continue;
    }
    drop_connection(it->first);
    dropped.push_back(std::move(it->second.peer));
    it = connections.erase(it);
  }
  return dropped;
}

// ---- Dealer ------------------------------------------------------------------------------------

DealerSocket::DealerSocket(std::unique_ptr<State> state) : state_(std::move(state)) {}
DealerSocket::DealerSocket(DealerSocket&&) noexcept = default;
DealerSocket& DealerSocket::operator=(DealerSocket&&) noexcept = default;
DealerSocket::~DealerSocket() = default;

Result<DealerSocket> DealerSocket::connect(WireContext& context, DealerOptions options) {
  LFARM_RETURN_IF_ERROR(check_connecting(options.endpoint, options.keys.has_value()));
  auto state = std::make_unique<State>(context.handle(), std::move(options.on_connection));
  ZmqSocket& socket = state->socket;
  set_connecting_options(socket, options.endpoint);
  if (options.keys) {
    LFARM_RETURN_IF_ERROR(use_client_keys(socket, *options.keys));
    state->monitor.set_has_keys();
  }
  if (zmq_connect(socket.get(), options.endpoint.c_str()) != 0) {
    return invalid_input(cat("cannot connect to ", options.endpoint, ": ",
                             zmq_strerror(zmq_errno()), "; check the farm's address"));
  }
  if (options.endpoint.starts_with("inproc://")) state->monitor.assume_ready();
  state->endpoint = std::move(options.endpoint);
  state->protocol = options.protocol;
  state->version = options.protocol.min;
  return DealerSocket(std::move(state));
}

void DealerSocket::State::tend() {
  monitor.drain();
  int64_t now = SteadyClock().now_ns();
  if (monitor.take_gave_up()) retry_at_ns = now + int64_t{kReconnectMsMax} * 1'000'000;
  if (retry_at_ns == 0 || now < retry_at_ns) return;
  retry_at_ns = 0;
  zmq_disconnect(socket.get(), endpoint.c_str());
  zmq_connect(socket.get(), endpoint.c_str());
}

const ConnectionCounters& DealerSocket::counters() const { return state_->monitor.counters(); }

Status DealerSocket::connection() const {
  state_->tend();
  const std::string& problem = state_->monitor.problem();
  if (problem.empty()) return {};
  return unavailable(cat("no connection to the farm at ", state_->endpoint, ": ", problem));
}

SendOutcome DealerSocket::send(const Message& message, const SharedBytes& blob) {
  check_blob_rule(message, blob);
  if (introduced_in(message) > state_->version) return SendOutcome::kNotKnown;
  int error = send_packet(state_->socket.get(), message, blob, state_->version);
  return error == 0 ? SendOutcome::kSent : SendOutcome::kFull;
}

void DealerSocket::speak(uint32_t version) {
  LFARM_CHECK(state_->protocol.holds(version), "a version that this side does not speak");
  state_->version = version;
}

const ProtocolRange& DealerSocket::protocol() const { return state_->protocol; }

size_t DealerSocket::receive(std::vector<Result<Packet>>& packets, size_t max) {
  state_->tend();
  std::vector<std::shared_ptr<ZmqFrame>> frames;
  size_t count = 0, total = 0;
  while (count < max && receive_frames(state_->socket.get(), 2, frames, total)) {
    packets.push_back(decode_packet(frames, 0, total, state_->protocol));
    ++count;
  }
  return count;
}

}  // namespace common
