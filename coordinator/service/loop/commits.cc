#include "coordinator/service/loop/commits.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace coordinator::service {

namespace {
constexpr int64_t kRetryMs = 100;
constexpr int64_t kRetryMsMax = 3'000;
}  // namespace

Commits::Commits(cache::Store& store) : store_(store), thread_([this] { run(); }) {}

Commits::~Commits() {
  {
    std::lock_guard lock(mutex_);
    hurrying_ = stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Commits::put(Write write, Done done) {
  bool is_first;
  {
    std::lock_guard lock(mutex_);
    is_first = waiting_.empty();
    waiting_.push_back({std::move(write), std::move(done)});
  }
  if (is_first) changed_.notify_all();
}

void Commits::observe(Observer observer) {
  std::lock_guard lock(observing_);
  observer_ = std::move(observer);
}

void Commits::probe() {
  {
    std::lock_guard lock(mutex_);
    if (writing_ || !waiting_.empty()) return;
  }
  put([](cache::Changes&) {}, [](const common::Status&) {});
}

void Commits::deliver() {
  waker_.clear();
  std::vector<Written> written;
  {
    std::lock_guard lock(mutex_);
    written.swap(written_);
  }
  for (Written& one : written) one.done(one.status);
}

void Commits::flush() {
  std::unique_lock lock(mutex_);
  hurrying_ = true;
  changed_.notify_all();
  emptied_.wait(lock, [this] { return waiting_.empty() && !writing_; });
}

void Commits::run() {
  std::unique_lock lock(mutex_);
  std::vector<Entry> group;
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    group.clear();
    group.swap(waiting_);
    writing_ = true;
    lock.unlock();
    common::Status status = write(group);
    lock.lock();
    writing_ = false;
    for (Entry& entry : group) written_.push_back({std::move(entry.done), status});
    waker_.wake();
    emptied_.notify_all();
  }
}

common::Status Commits::write(std::vector<Entry>& group) {
  std::vector<cache::Changes> changes(1);
  for (Entry& entry : group) {
    entry.write(changes.back());
    entry.write = nullptr;
    // What is removed comes last among its changes.
    if (!changes.back().removed_jobs.empty()) changes.emplace_back();
  }
  common::Status status = store_.commit(changes);
  // The store has said so in the log; a refusal that is not the disk's would only come again.
  for (int64_t ms = kRetryMs; !status.ok() && !store_.trouble().empty();
       ms = std::min(2 * ms, kRetryMsMax)) {
    if (!pause(ms)) break;
    status = store_.commit(changes);
  }
  std::lock_guard lock(observing_);
  if (status.ok() && observer_) observer_(changes);
  return status;
}

// False when there is no time left for it.
bool Commits::pause(int64_t ms) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return hurrying_; });
}

}  // namespace coordinator::service
