// Threads for the work that would hold up the event loop, with results handed back to it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "common/wire/context.h"

namespace coordinator::service {

class Background {
 public:
  // What runs on the loop's thread once the work is done.
  using Done = std::function<void()>;
  using Work = std::function<Done()>;

  // gives_way: to threads of usual priority, such as those of measurements on this machine.
  explicit Background(size_t threads, bool gives_way = false);
  // Waits for the work under way; what has not begun is dropped.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void start(Work work);
  // Before what waits.
  void start_first(Work work);
  // Readable when deliver() has something to do.
  int fd() const { return waker_.fd(); }
  // Runs what finished work left behind, on the caller's thread.
  void deliver();
  // Waits until nothing is under way and nothing waits. False when the time is up first.
  bool finish(std::chrono::milliseconds time);
  // Whether work is under way or waits.
  bool busy() const;

 private:
  void run(bool gives_way);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::vector<Done> finished_;
  size_t running_ = 0;
  bool stopping_ = false;
  common::Waker waker_;
  std::vector<std::thread> threads_;
};

}  // namespace coordinator::service
