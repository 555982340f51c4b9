#include "common/wire/inflow_guard.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/limits.h"

namespace common {
namespace {

// What a connection receives beside packets: the handshake, and then a probe and an answer to one,
// 82 bytes, every kConnectionProbeMs.
constexpr uint64_t kHandshakeBytes = 4096;
constexpr uint64_t kProbeBytesPerSecond = 20;

// 0 where there is none.
uint64_t socket_inode(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

// Bytes that the kernel has received and handed on; 0 where it does not say.
uint64_t handed_on(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  int waiting = 0;
  if (::ioctl(fd, SIOCINQ, &waiting) != 0) return 0;
  uint64_t received = info.tcpi_bytes_received;
  return received - std::min<uint64_t>(received, static_cast<uint64_t>(std::max(waiting, 0)));
}

}  // namespace

InflowGuard::InflowGuard(InflowLimits limits) : limits_(limits), thread_([this] { run(); }) {}

InflowGuard::~InflowGuard() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void InflowGuard::accepted(int fd) {
  uint64_t socket = socket_inode(fd);
  {
    std::lock_guard lock(mutex_);
    connections_[fd] = {socket, 0, SteadyClock().now_ns()};
  }
  changed_.notify_all();
}

void InflowGuard::ended(int fd) {
  std::lock_guard lock(mutex_);
  connections_.erase(fd);
}

void InflowGuard::taken(int fd, uint64_t wire_bytes) {
  std::lock_guard lock(mutex_);
  auto found = connections_.find(fd);
  if (found != connections_.end()) found->second.taken += wire_bytes;
}

// Without connections it sleeps until there are some.
void InflowGuard::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (connections_.empty()) {
      changed_.wait(lock, [this] { return stopping_ || !connections_.empty(); });
      continue;
    }
    look();
    ++rounds_;
    changed_.wait_for(lock, std::chrono::milliseconds(kInflowLookMs), [this] { return stopping_; });
  }
}

void InflowGuard::look() {
  int64_t now_ns = SteadyClock().now_ns();
  std::vector<std::pair<uint64_t, int>> waiting;  // bytes, descriptor
  uint64_t all = 0;
  for (auto& [fd, connection] : connections_) {
    uint64_t bytes = unread(fd, connection, now_ns);
    if (bytes == 0) continue;
    waiting.emplace_back(bytes, fd);
    all += bytes;
  }
  std::sort(waiting.rbegin(), waiting.rend());
  for (const auto& [bytes, fd] : waiting) {
    if (bytes <= limits_.peer_bytes && all <= limits_.bytes) return;
    end(fd, connections_.at(fd), bytes);
    all -= bytes;
  }
}

uint64_t InflowGuard::unread(int fd, Connection& connection, int64_t now_ns) const {
  uint64_t seconds = static_cast<uint64_t>(now_ns - connection.since_ns) / 1'000'000'000;
  uint64_t received = handed_on(fd);
  // More was taken only where an ended connection with this descriptor had left something.
  connection.taken = std::min(connection.taken, received);
  uint64_t known = connection.taken + kHandshakeBytes + seconds * kProbeBytesPerSecond;
  return received > known ? received - known : 0;
}

// Its events may still be on their way, so the descriptor is looked at once more.
void InflowGuard::end(int fd, const Connection& connection, uint64_t unread_bytes) {
  if (connection.socket != 0 && socket_inode(fd) == connection.socket) {
    ::shutdown(fd, SHUT_RDWR);
    ++ended_count_;
    log_warning(cat("a connection is ended: its peer has sent ", unread_bytes >> 20,
                    " MiB beyond what could be taken"));
  }
  connections_.erase(fd);
}

}  // namespace common
