#include "coordinator/service/searchers/seat.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/cat.h"

namespace coordinator::service {

void SeatInbox::answer_by(Answer answer) {
  std::lock_guard lock(answering_);
  answer_ = std::move(answer);
}

std::optional<std::string> SeatInbox::answer(std::string_view questions) {
  std::lock_guard one(answering_);
  if (!answer_) return std::nullopt;
  auto answers = answer_(questions);
  std::lock_guard lock(mutex_);
  answered_ = std::chrono::steady_clock::now();
  return answers;
}

void SeatInbox::deliver(common::SharedBytes frame) {
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return;
    frames_.push_back(std::move(frame));
  }
  changed_.notify_one();
}

void SeatInbox::close(std::string reason) {
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    reason_ = std::move(reason);
  }
  changed_.notify_one();
}

common::Result<common::SharedBytes> SeatInbox::take(int64_t wait_ms) {
  const std::chrono::milliseconds silence(wait_ms);
  const auto began = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  bool came = false, is_silent = false;
  while (!came && !is_silent) {
    const auto end = std::max(began, answered_) + silence;
    came = changed_.wait_until(lock, end, [this] { return is_closed_ || !frames_.empty(); });
    is_silent = std::max(began, answered_) + silence <= end;
  }
  if (!frames_.empty()) {
    common::SharedBytes frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  if (came) return common::unavailable(reason_);
  return common::unavailable(common::cat("it has said nothing for ", wait_ms, " ms"));
}

common::Result<Seat::Received> Seat::receive(int64_t wait_ms) {
  LFARM_ASSIGN_OR_RETURN(common::SharedBytes bytes, inbox_->take(wait_ms));
  auto frame = parse_frame(common::as_text(bytes.bytes));
  if (!frame.ok()) return common::unavailable(frame.error().message);
  return Received{std::move(bytes), *frame};
}

}  // namespace coordinator::service
