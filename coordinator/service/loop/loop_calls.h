// Questions of other threads to the event loop, which alone may look at the farm's state.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/context.h"

namespace coordinator::service {

class LoopCalls {
 public:
  using Question = std::function<std::string()>;

  // Any thread but the loop's: its answer, or nothing when the loop did not come to it in time or
  // too many questions wait already. A question must not refer to what its asker may drop.
  std::optional<std::string> ask(Question question, std::chrono::milliseconds patience);

  // No question is answered any more: the loop has ended. Any thread.
  void close();

  // Readable when deliver() has something to do.
  int fd() const { return waker_.fd(); }
  // The loop: answers all that wait.
  void deliver();

 private:
  struct Call {
    Question question;
    std::promise<std::optional<std::string>> answer;
  };
  std::mutex mutex_;
  std::vector<Call> waiting_;
  bool is_closed_ = false;
  common::Waker waker_;
};

}  // namespace coordinator::service
