// Plans that clients get while the search goes on: one on its way to the store, and the newest of
// those that came meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/service/job/publication.h"
#include "coordinator/service/job/sent_programs.h"

namespace coordinator::service {

// Not thread-safe. A plan may be lost on the way: better ones follow.
class InterimPublisher {
 public:
  InterimPublisher(const JobScope& scope, const SentPrograms& programs)
      : scope_(scope), programs_(programs) {}

  void publish(SearchOutcome outcome);
  // The search is over: nothing more is published but what is being written.
  void close();
  // Calls `then` once nothing is being written. After close().
  void when_idle(std::function<void()> then);

  bool wants_object(const common::Digest& digest) const {
    return under_way_ && under_way_->wants_object(digest);
  }
  void object_arrived(const common::Digest& digest, const common::Status& status) {
    if (under_way_) under_way_->object_arrived(digest, status);
  }
  void object_missing(const std::string& worker, const common::Digest& digest) {
    if (under_way_) under_way_->object_missing(worker, digest);
  }
  void task_done(const TaskDone& done) {
    if (under_way_) under_way_->task_done(done);
  }
  void tick(int64_t now_ns) {
    if (under_way_) under_way_->tick(now_ns);
  }

 private:
  void ended(const common::Status& status);

  const JobScope& scope_;
  const SentPrograms& programs_;
  std::unique_ptr<Publication> under_way_;
  std::optional<SearchOutcome> next_;
  std::function<void()> when_idle_;
};

}  // namespace coordinator::service
