#include "coordinator/service/loop/loop_calls.h"

#include <utility>

namespace coordinator::service {
namespace {

constexpr size_t kWaitingMax = 64;

}  // namespace

std::optional<std::string> LoopCalls::ask(Question question, std::chrono::milliseconds patience) {
  Call call{std::move(question), {}};
  std::future<std::optional<std::string>> answer = call.answer.get_future();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_closed_ || waiting_.size() >= kWaitingMax) return std::nullopt;
    waiting_.push_back(std::move(call));
  }
  waker_.wake();
  if (answer.wait_for(patience) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

void LoopCalls::close() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_closed_ = true;
  for (Call& call : waiting_) call.answer.set_value(std::nullopt);
  waiting_.clear();
}

void LoopCalls::deliver() {
  waker_.clear();
  std::vector<Call> calls;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(waiting_);
  }
  for (Call& call : calls) call.answer.set_value(call.question());
}

}  // namespace coordinator::service
