#include "cache/store/collector_thread.h"

#include <utility>

namespace cache {

void CollectorThread::start(std::function<void()> collect) {
  thread_ = std::thread([this, collect = std::move(collect)] { run(collect); });
}

void CollectorThread::request() {
  {
    std::lock_guard lock(mutex_);
    is_wanted_ = true;
  }
  wakes_.notify_one();
}

void CollectorThread::stop() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CollectorThread::run(const std::function<void()>& collect) {
  std::unique_lock lock(mutex_);
  while (true) {
    wakes_.wait(lock, [&] { return is_wanted_ || is_ending_; });
    if (is_ending_) return;
    is_wanted_ = false;
    lock.unlock();
    collect();
    lock.lock();
  }
}

}  // namespace cache
