// Writes what jobs learn to the store in groups, away from the event loop: a sync of the disk takes
// milliseconds, whether for one record or for a thousand.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "cache/store/store.h"
#include "common/wire/context.h"

namespace coordinator::service {

// put(), deliver() and flush() are for one thread.
class Commits {
 public:
  // Adds what is to be written; runs on the writing thread, so it may take its time to encode but
  // must own what it reads.
  using Write = std::function<void(cache::Changes& changes)>;
  // Learns that it is on the disk, or why it is not.
  using Done = std::function<void(const common::Status& status)>;

  explicit Commits(cache::Store& store);
  // Writes what waits, and calls nobody.
  ~Commits();
  Commits(const Commits&) = delete;
  Commits& operator=(const Commits&) = delete;

  // What is put first reaches the disk first, or together. What the disk does not take is tried
  // again, ever less often, until it does: a full disk may be emptied.
  void put(Write write, Done done);
  // Sees what was written, on the writing thread, before its Done is called; an empty one ends
  // that.
  using Observer = std::function<void(std::span<const cache::Changes> changes)>;
  void observe(Observer observer);
  // Where nothing waits, writes something, to learn whether the disk takes it again.
  void probe();
  // Readable when deliver() has something to do.
  int fd() const { return waker_.fd(); }
  // Calls the Done of what has been written, in the order of put(), on the caller's thread.
  void deliver();
  // Returns when all that was put so far has been written or has failed. From now on nothing is
  // tried again: the process is about to end.
  void flush();

 private:
  struct Entry {
    Write write;
    Done done;
  };
  struct Written {
    Done done;
    common::Status status;
  };
  void run();
  common::Status write(std::vector<Entry>& group);
  bool pause(int64_t ms);

  cache::Store& store_;
  std::mutex observing_;  // guards what follows
  Observer observer_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::condition_variable emptied_;
  std::vector<Entry> waiting_;
  std::vector<Written> written_;
  bool writing_ = false;
  bool hurrying_ = false;  // no more retries
  bool stopping_ = false;
  common::Waker waker_;
  std::thread thread_;
};

}  // namespace coordinator::service
