// Long-lived child processes that each answer one request after another, for work that may hang or
// crash in code that is not ours.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/sandbox/sandbox.h"

namespace worker {

// Thread-safe: requests of different threads go to different children. Children are started when
// they are needed, and end when the pool or its process does.
class ChildPool {
 public:
  // `command` starts a child that answers each frame (common/process/pipe.h) on its standard input
  // with one frame there, and ends when that closes. At most `children_max` run at a time, each
  // with a temporary directory of its own, and in `sandbox` where there is one.
  ChildPool(std::vector<std::string> command, size_t children_max,
            std::shared_ptr<const common::Sandbox> sandbox = nullptr);
  ~ChildPool();
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  // One request and its answer. kTimedOut when there is none after `timeout_ms`, waiting for a free
  // child included: the child is killed and another one started in its place. A child that dies of
  // the request is replaced, and the request given to the next one once; when that dies as well,
  // kInvalidInput says of what, or kInternal where both were killed from outside. kInvalidInput
  // when no child can be started.
  common::Result<common::Bytes> exchange(common::ByteView request, int timeout_ms);

  size_t children_max() const { return children_max_; }

 private:
  struct Child;
  struct Attempt;

  common::Result<std::unique_ptr<Child>> start() const;
  // A free child, or a new one where there may be more; null when none became free in time.
  common::Result<std::unique_ptr<Child>> acquire(int64_t deadline_ns);
  // Takes a child back; null stands for one that is gone, in whose place another starts.
  void release(std::unique_ptr<Child> child);
  static Attempt ask(Child& child, common::ByteView request, int64_t deadline_ns);

  const std::vector<std::string> command_;
  const size_t children_max_;
  const std::shared_ptr<const common::Sandbox> sandbox_;  // may be null
  std::mutex mutex_;                                      // guards what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Child>> free_;
  size_t busy_ = 0;
};

}  // namespace worker
