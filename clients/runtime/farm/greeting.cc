#include "clients/runtime/farm/greeting.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/files.h"

namespace clients {

namespace {

// Silent: accepted, and not a byte came; a connection that is closed is no silence.
Listener listener_behind(const sockaddr* address, socklen_t size, int wait_ms) {
  common::FileDescriptor socket(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return Listener::kUnknown;
  if (::connect(socket.get(), address, size) != 0 && errno != EINPROGRESS) {
    return errno == ECONNREFUSED ? Listener::kNobody : Listener::kUnknown;
  }
  pollfd waited{socket.get(), POLLOUT, 0};
  if (::poll(&waited, 1, wait_ms) != 1) return Listener::kUnknown;
  int error = 0;
  socklen_t error_size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &error_size);
  if (error == ECONNREFUSED) return Listener::kNobody;
  if (error != 0 || (waited.revents & (POLLERR | POLLHUP)) != 0) return Listener::kUnknown;
  waited.events = POLLIN;
  return ::poll(&waited, 1, wait_ms) == 0 ? Listener::kSilent : Listener::kUnknown;
}

Listener tcp_listener(const std::string& endpoint, int wait_ms) {
  size_t colon = endpoint.rfind(':');
  std::string host = endpoint.substr(6, colon - 6), port = endpoint.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return Listener::kUnknown;
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  return listener_behind(found->ai_addr, found->ai_addrlen, wait_ms);
}

Listener ipc_listener(const std::string& path, int wait_ms) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Listener::kUnknown;
  std::memcpy(address.sun_path, path.data(), path.size());
  return listener_behind(reinterpret_cast<const sockaddr*>(&address), sizeof address, wait_ms);
}

}  // namespace

Listener listener_at(const std::string& endpoint, int wait_ms) {
  if (endpoint.rfind("tcp://", 0) == 0) return tcp_listener(endpoint, wait_ms);
  if (endpoint.rfind("ipc://", 0) == 0) return ipc_listener(endpoint.substr(6), wait_ms);
  return Listener::kUnknown;
}

}  // namespace clients
