#include "common/http/deadline_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/clock.h"

namespace common {
namespace {

// How soon a crowd is noticed.
constexpr int kSliceMs = 50;

int64_t now_ns() { return SteadyClock().now_ns(); }

template <class AddressOf>
void describe(AddressOf&& address_of, std::string& ip, int& port) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (address_of(reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
  char host[NI_MAXHOST], service[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, service,
                    sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host;
  port = std::atoi(service);
}

}  // namespace

DeadlineStream::DeadlineStream(socket_t socket, const StreamLimits& limits,
                               const std::atomic<int>& waiting, TlsServer* tls)
    : socket_(socket), limits_(limits), waiting_(waiting), since_ns_(now_ns()) {
  if (tls != nullptr) tls_ = tls->begin(socket);
}

int64_t DeadlineStream::left_ms() const {
  bool crowded = waiting_ > 0;
  int64_t limit_ms = answers_ ? (crowded ? limits_.crowded_answer_ms : limits_.answer_ms)
                              : (crowded ? limits_.crowded_request_ms : limits_.request_ms);
  return limit_ms - (now_ns() - since_ns_) / 1'000'000;
}

bool DeadlineStream::wait(short events) const {
  while (events > 0) {
    int64_t left = left_ms();
    if (left <= 0) return false;
    pollfd wanted{socket_, events, 0};
    int ready = ::poll(&wanted, 1, static_cast<int>(std::min<int64_t>(kSliceMs, left)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

bool DeadlineStream::handshake() {
  if (tls_ == nullptr) return true;
  while (true) {
    short events = tls_handshake(*tls_);
    if (events == 0) return true;
    if (!wait(events)) return false;
  }
}

bool DeadlineStream::is_readable() const { return begin_ < end_ || wait(POLLIN); }

// The library asks for single bytes.
ssize_t DeadlineStream::read(char* data, size_t size) {
  while (begin_ == end_) {
    ssize_t got = -1;
    short events = POLLIN;
    if (tls_ != nullptr) {
      events = tls_read(*tls_, buffer_.data(), buffer_.size(), got);
    } else {
      got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got < 0 && errno != EAGAIN && errno != EINTR) return -1;
    }
    if (got == 0) return 0;
    // Who drips is over its time although something comes each time.
    if (got > 0 && left_ms() <= 0) return -1;
    if (got > 0) {
      begin_ = 0;
      end_ = static_cast<size_t>(got);
    } else if (!wait(events)) {
      return -1;
    }
  }
  size_t given = std::min(size, end_ - begin_);
  std::copy_n(buffer_.data() + begin_, given, data);
  begin_ += given;
  return static_cast<ssize_t>(given);
}

ssize_t DeadlineStream::write(const char* data, size_t size) {
  if (!answers_) {
    answers_ = true;
    since_ns_ = now_ns();
  }
  while (true) {
    ssize_t put = -1;
    short events = POLLOUT;
    if (tls_ != nullptr) {
      events = tls_write(*tls_, data, size, put);
    } else {
      put = ::send(socket_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put < 0 && errno != EAGAIN && errno != EINTR) return -1;
    }
    if (put > 0) return left_ms() > 0 ? put : -1;
    if (!wait(events)) return -1;
  }
}

void DeadlineStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  describe([&](sockaddr* to, socklen_t* size) { return ::getpeername(socket_, to, size); }, ip,
           port);
}

void DeadlineStream::get_local_ip_and_port(std::string& ip, int& port) const {
  describe([&](sockaddr* to, socklen_t* size) { return ::getsockname(socket_, to, size); }, ip,
           port);
}

}  // namespace common
