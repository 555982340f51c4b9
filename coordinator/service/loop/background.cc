#include "coordinator/service/loop/background.h"

#include <utility>

#include "common/process/priority.h"

namespace coordinator::service {

Background::Background(size_t threads, bool gives_way) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this, gives_way] { run(gives_way); });
}

Background::~Background() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Background::start(Work work) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Background::start_first(Work work) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_front(std::move(work));
  }
  changed_.notify_one();
}

void Background::deliver() {
  waker_.clear();
  std::vector<Done> finished;
  {
    std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (Done& done : finished) done();
}

bool Background::finish(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return running_ == 0 && waiting_.empty(); });
}

bool Background::busy() const {
  std::lock_guard lock(mutex_);
  return running_ > 0 || !waiting_.empty();
}

void Background::run(bool gives_way) {
  if (gives_way) common::give_way();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    lock.unlock();
    Done done = work();
    work = nullptr;
    lock.lock();
    --running_;
    finished_.push_back(std::move(done));
    waker_.wake();
    if (running_ == 0 && waiting_.empty()) changed_.notify_all();
  }
}

}  // namespace coordinator::service
