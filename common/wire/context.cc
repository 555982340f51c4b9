#include "common/wire/context.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/cat.h"
#include "common/wire/limits.h"
#include "common/wire/socket_state.h"
#include "common/wire/zmq_support.h"

namespace common {

WireContext::WireContext(int io_threads) {
  void* context = zmq_ctx_new();
  LFARM_CHECK(context != nullptr, "no ZeroMQ context");
  zmq_ctx_set(context, ZMQ_IO_THREADS, io_threads);
  zmq_ctx_set(context, ZMQ_MAX_SOCKETS, kSocketsMax);
  handle_ = std::shared_ptr<void>(context, [](void* handle) {
    while (zmq_ctx_term(handle) != 0 && zmq_errno() == EINTR) {
    }
  });
}

struct Poller::Items {
  std::vector<zmq_pollitem_t> items;
  // What was watched, as ranges of items: a socket has one for messages and one for events.
  std::vector<std::pair<size_t, size_t>> ranges;

  size_t add(std::initializer_list<zmq_pollitem_t> added) {
    ranges.emplace_back(items.size(), items.size() + added.size());
    items.insert(items.end(), added);
    return ranges.size() - 1;
  }
};

Poller::Poller() : items_(std::make_unique<Items>()) {}
Poller::~Poller() = default;

size_t Poller::watch(const RouterSocket& socket) {
  return items_->add({{socket.state_->socket.get(), 0, ZMQ_POLLIN, 0},
                      {socket.state_->monitor.handle(), 0, ZMQ_POLLIN, 0}});
}

size_t Poller::watch(const DealerSocket& socket) {
  return items_->add({{socket.state_->socket.get(), 0, ZMQ_POLLIN, 0},
                      {socket.state_->monitor.handle(), 0, ZMQ_POLLIN, 0}});
}

size_t Poller::watch_fd(int fd) { return items_->add({{nullptr, fd, ZMQ_POLLIN, 0}}); }

void Poller::clear() {
  items_->items.clear();
  items_->ranges.clear();
}

Result<size_t> Poller::wait(int timeout_ms) {
  int rc = zmq_poll(items_->items.data(), static_cast<int>(items_->items.size()),
                    timeout_ms < 0 ? -1 : timeout_ms);
  if (rc < 0) {
    for (auto& item : items_->items) item.revents = 0;
    if (zmq_errno() == EINTR) return size_t{0};
    return internal_error(cat("cannot wait for connections: ", zmq_strerror(zmq_errno())));
  }
  size_t count = 0;
  for (size_t i = 0; i < items_->ranges.size(); ++i) count += ready(i) ? 1 : 0;
  return count;
}

bool Poller::ready(size_t index) const {
  LFARM_CHECK(index < items_->ranges.size(), "ready() of something not watched");
  auto range = items_->ranges[index];
  for (size_t i = range.first; i < range.second; ++i) {
    if (items_->items[i].revents != 0) return true;
  }
  return false;
}

Waker::Waker() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  LFARM_CHECK(fd_ >= 0, "no eventfd");
}

Waker::~Waker() { ::close(fd_); }

void Waker::wake() {
  uint64_t one = 1;
  // Fails only when the counter is full, and then the poller wakes anyway.
  [[maybe_unused]] ssize_t n = ::write(fd_, &one, sizeof one);
}

void Waker::clear() {
  uint64_t count;
  [[maybe_unused]] ssize_t n = ::read(fd_, &count, sizeof count);
}

}  // namespace common
