// Connections to one server that nobody uses now.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cache {

// Thread-safe.
template <class Connection>
class IdleConnections {
 public:
  explicit IdleConnections(size_t max) : max_(max) {}

  // The one that was used last; null: there is none.
  std::unique_ptr<Connection> take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  void give_back(std::unique_ptr<Connection> connection) {
    std::lock_guard lock(mutex_);
    if (idle_.size() < max_) idle_.push_back(std::move(connection));
  }
  void clear() {
    std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  const size_t max_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace cache
