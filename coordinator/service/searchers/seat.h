// One search's place at a searcher: what is sent there and what comes from it, for the one thread
// that waits for the searcher.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/result.h"
#include "common/wire/socket.h"
#include "coordinator/service/searchers/search_frames.h"

namespace coordinator::service {

// What came for a search, until it is taken. Thread-safe.
class SeatInbox {
 public:
  void deliver(common::SharedBytes frame);
  // Nothing more comes: waiting for it ends with this reason. The first reason counts.
  void close(std::string reason);
  // kUnavailable when the inbox was closed, or nothing came in time.
  common::Result<common::SharedBytes> take(int64_t wait_ms);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<common::SharedBytes> frames_;
  bool is_closed_ = false;
  std::string reason_;
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
  ~Seat() { leave_(); }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  const std::string& searcher() const { return searcher_; }  // its name
  void send(FrameKind kind, std::string body) {
    send_(search_frame(kind, search_, std::move(body)));
  }
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
