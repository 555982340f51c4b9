// One search's place at a searcher: what is sent there and what comes from it, for the one thread
// that waits for the searcher.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/wire/socket.h"
#include "coordinator/service/searchers/search_frames.h"

namespace coordinator::service {

// What came for a search, until it is taken. Thread-safe.
class SeatInbox {
 public:
  // The body of the answer to the body of a lookup; empty: the lookup is broken.
  using Answer = std::function<std::optional<std::string>(std::string_view questions)>;

  // Lookups are answered by this from now on, in the thread that they come to; null: no more, and
  // none is being answered once this returns. kLookup frames are delivered while there is none.
  void answer_by(Answer answer);
  // The answer to a lookup, which counts as something that has come; empty where the frame is to
  // be delivered.
  std::optional<std::string> answer(std::string_view questions);
  void deliver(common::SharedBytes frame);
  // Nothing more comes: waiting for it ends with this reason. The first reason counts.
  void close(std::string reason);
  // kUnavailable when the inbox was closed, or nothing came for so long.
  common::Result<common::SharedBytes> take(int64_t wait_ms);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<common::SharedBytes> frames_;
  bool is_closed_ = false;
  std::string reason_;
  std::chrono::steady_clock::time_point answered_;  // a lookup, the last time
  // Taken before mutex_, so that who waits is told of frames while a lookup is answered.
  std::mutex answering_;
  Answer answer_;
};

// Used by one thread at a time. Its destruction ends the search at the searcher and gives the place
// to others.
class Seat {
 public:
  using Send = std::function<void(std::string frame)>;
  using Leave = std::function<void()>;
  Seat(uint64_t search, std::string searcher, std::shared_ptr<SeatInbox> inbox, Send send,
       Leave leave)
      : search_(search),
        searcher_(std::move(searcher)),
        inbox_(std::move(inbox)),
        send_(std::move(send)),
        leave_(std::move(leave)) {}
  ~Seat() {
    inbox_->answer_by(nullptr);
    leave_();
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  const std::string& searcher() const { return searcher_; }  // its name
  void send(FrameKind kind, std::string body) {
    send_(search_frame(kind, search_, std::move(body)));
  }
  // What the search asks is answered by this, without waking the thread that waits for it.
  void answer_by(SeatInbox::Answer answer) { inbox_->answer_by(std::move(answer)); }
  struct Received {
    common::SharedBytes bytes;
    SearchFrame frame;  // of these bytes
  };
  // kUnavailable when the searcher was lost or says nothing for so long.
  common::Result<Received> receive(int64_t wait_ms);

 private:
  const uint64_t search_;
  const std::string searcher_;
  const std::shared_ptr<SeatInbox> inbox_;
  const Send send_;
  const Leave leave_;
};

}  // namespace coordinator::service
