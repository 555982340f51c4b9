// Questions to the store that farms share: asked in threads of their own, and nobody waits for an
// answer longer than the options say.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "coordinator/service/loop/background.h"
#include "coordinator/service/sharing/peer_plans.h"

namespace coordinator::service {

// Not thread-safe; what is given as a question runs on other threads.
class SharedQuestions {
 public:
  using Answered = std::function<void(Claim)>;

  SharedQuestions(const common::Clock& clock, int64_t wait_ms);

  // Calls `done` with the answer, or with kOurs when the time is up. Who asks `what` is asked
  // already waits for the same answer. `late`: what becomes of an answer that nobody waits for any
  // more.
  void ask(const common::Digest& what, Answered done, std::function<Claim()> question,
           Answered late);
  // Answers those whose time is up.
  void expire(int64_t now_ns);

  // Whether somebody waits, so that expire() must be called soon.
  bool waited_for() const { return !waiting_.empty(); }
  uint64_t late() const { return late_; }  // requests that went on without an answer
  // Readable when deliver() has something to do.
  int fd() const { return threads_.fd(); }
  void deliver() { threads_.deliver(); }

 private:
  struct Question {
    std::vector<Answered> waiting;
    int64_t deadline_ns = 0;
  };
  bool answer(const common::Digest& what, Claim claim);

  const common::Clock& clock_;
  const int64_t wait_ms_;
  std::unordered_map<common::Digest, Question> waiting_;
  size_t asked_ = 0;  // questions that are with the threads, whoever still waits for them
  uint64_t late_ = 0;
  Background threads_;  // last, so that its threads end first
};

}  // namespace coordinator::service
