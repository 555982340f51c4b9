// The thread that collects what is beyond a store's bounds, when it is asked to.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace cache {

// Requests that come while `collect` runs are one.
class CollectorThread {
 public:
  CollectorThread() = default;
  ~CollectorThread() { stop(); }
  CollectorThread(const CollectorThread&) = delete;
  CollectorThread& operator=(const CollectorThread&) = delete;

  void start(std::function<void()> collect);
  void request();
  // Waits for the end of a collection under way. Does nothing where none was started.
  void stop();

 private:
  void run(const std::function<void()>& collect);

  std::mutex mutex_;
  std::condition_variable wakes_;
  bool is_wanted_ = false, is_ending_ = false;
  std::thread thread_;
};

}  // namespace cache
