#include "coordinator/service/commits.h"

#include <chrono>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace coordinator::service {

namespace {
constexpr auto kRetryPause = std::chrono::milliseconds(200);
}  // namespace

Commits::Commits(cache::Store& store, int64_t retry_ms)
    : store_(store), retry_ms_(retry_ms), thread_([this] { run(); }) {}

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
  common::SteadyClock clock;
  int64_t end_ns = clock.now_ns() + retry_ms_ * 1'000'000;
  common::Status status = store_.commit(changes);
  if (!status.ok()) common::log_error(common::cat("results wait: ", status.error().message));
  while (!status.ok() && status.error().code == common::Code::kUnavailable &&
         clock.now_ns() < end_ns) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kRetryPause, [this] { return hurrying_; })) break;
    lock.unlock();
    status = store_.commit(changes);
  }
  return status;
}

}  // namespace coordinator::service
