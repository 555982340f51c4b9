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
// Connections without unread bytes that are looked at every kInflowLookMs.
constexpr size_t kQuietAtOnce = 256;

// 0 where there is none.
uint64_t socket_inode(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

// Bytes that the kernel has received; 0 where it does not say.
uint64_t received_by(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}
// Of these, those that nobody has read.
uint64_t waiting_at(int fd) {
  int waiting = 0;
  return ::ioctl(fd, SIOCINQ, &waiting) == 0 ? static_cast<uint64_t>(std::max(waiting, 0)) : 0;
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
    connections_[fd] = {socket, 0, 0, SteadyClock().now_ns()};
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
    changed_.wait_for(lock, std::chrono::milliseconds(kInflowLookMs), [this] { return stopping_; });
  }
}

// Those of which something was unread, and some of the others, in turn: asking the kernel about
// thousands of connections each time would take a large part of a processor.
std::vector<InflowGuard::Connections::iterator> InflowGuard::next() {
  std::vector<Connections::iterator> chosen;
  for (auto one = connections_.begin(); one != connections_.end(); ++one) {
    if (one->second.unread != 0) chosen.push_back(one);
  }
  auto one = connections_.lower_bound(next_quiet_);
  for (size_t k = 0; k < std::min(kQuietAtOnce, connections_.size()); ++k) {
    if (one == connections_.end()) one = connections_.begin();
    if (one->second.unread == 0) chosen.push_back(one);
    ++one;
  }
  next_quiet_ = one == connections_.end() ? 0 : one->first;
  return chosen;
}

void InflowGuard::look() {
  int64_t now_ns = SteadyClock().now_ns();
  std::vector<std::pair<uint64_t, Connections::iterator>> waiting;  // bytes
  uint64_t all = 0;
  for (auto connection : next()) {
    uint64_t bytes = unread(connection->first, connection->second, now_ns);
    connection->second.unread = bytes;
    if (bytes == 0) continue;
    waiting.emplace_back(bytes, connection);
    all += bytes;
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [bytes, connection] : waiting) {
    if (bytes <= limits_.peer_bytes && all <= limits_.bytes) return;
    end(connection);
    all -= bytes;
  }
}

uint64_t InflowGuard::unread(int fd, Connection& connection, int64_t now_ns) {
  uint64_t seconds = static_cast<uint64_t>(now_ns - connection.since_ns) / 1'000'000'000;
  uint64_t beside = kHandshakeBytes + seconds * kProbeBytesPerSecond;
  uint64_t received = received_by(fd);
  if (received <= connection.taken + beside) {
    // More was taken only where an ended connection with this descriptor had left something.
    connection.taken = std::min(connection.taken, received);
    return 0;
  }
  uint64_t handed_on = received - std::min(received, waiting_at(fd));
  uint64_t known = connection.taken + beside;
  return handed_on > known ? handed_on - known : 0;
}

// Its events may still be on their way, so the descriptor is looked at once more.
void InflowGuard::end(Connections::iterator connection) {
  const auto& [fd, its] = *connection;
  if (its.socket != 0 && socket_inode(fd) == its.socket) {
    ::shutdown(fd, SHUT_RDWR);
    ++ended_count_;
    log_warning(cat("a connection is ended: its peer has sent ", its.unread >> 20,
                    " MiB beyond what could be taken"));
  }
  connections_.erase(connection);
}

}  // namespace common
