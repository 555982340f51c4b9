#include "coordinator/service/searchers/searcher.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/frames/frames.h"
#include "coordinator/service/searchers/searching.h"

namespace coordinator::service {

using common::cat;
using common::Status;

namespace {

constexpr int kTurnMs = 100;
constexpr size_t kFramesAtOnce = 64;
constexpr int64_t kNsPerMs = 1'000'000;

uint64_t own_cpu_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto us = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

// Frames of the searches' threads on their way to the one that has the socket.
class Outgoing {
 public:
  void put(std::string frame) {
    {
      std::lock_guard lock(mutex_);
      frames_.push_back(std::move(frame));
    }
    waker_.wake();
  }
  std::vector<std::string> take() {
    waker_.clear();
    std::lock_guard lock(mutex_);
    return std::exchange(frames_, {});
  }
  int fd() const { return waker_.fd(); }

 private:
  std::mutex mutex_;
  std::vector<std::string> frames_;
  common::Waker waker_;
};

// Used by one thread.
class Searcher {
 public:
  Searcher(const SearcherSetup& setup, SearcherState& state, common::FrameDealer dealer)
      : setup_(setup), state_(state), dealer_(std::move(dealer)) {}

  Status turn() {
    dealer_.wait(kTurnMs, outgoing_.fd());
    std::vector<common::SharedBytes> frames;
    dealer_.receive(frames, kFramesAtOnce);
    if (dealer_.connections() != connections_) {
      connections_ = dealer_.connections();
      begin_anew();
    }
    for (common::SharedBytes& frame : frames) LFARM_RETURN_IF_ERROR(take(std::move(frame)));
    for (std::string& frame : outgoing_.take()) dealer_.send(std::move(frame));
    std::erase_if(ending_, [](const auto& search) { return search->is_over(); });
    beat();
    if (!dealer_.connection().ok()) state_.is_joined = false;
    state_.searches = searches_.size();
    state_.turned_ns = clock_.now_ns();
    return {};
  }

 private:
  // A new connection, or one that the coordinator does not know: what it had here it has elsewhere.
  void begin_anew() {
    for (auto& [number, search] : searches_) end(std::move(search));
    searches_.clear();
    state_.is_joined = false;
    SearcherHello hello{searcher_build(), setup_.name, setup_.searches};
    dealer_.send(search_frame(FrameKind::kHello, 0, encode(hello)));
    greeted_ns_ = clock_.now_ns();
  }

  void end(std::unique_ptr<Searching> search) {
    search->close();
    ending_.push_back(std::move(search));
  }

  void beat() {
    int64_t now_ns = clock_.now_ns();
    if (greeted_ns_ == 0 || now_ns - beat_ns_ < kSearcherBeatMs * kNsPerMs) return;
    beat_ns_ = now_ns;
    dealer_.send(search_frame(FrameKind::kBeat, 0, encode(SearcherBeat{own_cpu_us()})));
  }

  Status refused(std::string_view body) {
    LFARM_ASSIGN_OR_RETURN(SearchFailure failure, decode<SearchFailure>(body));
    if (failure.code != common::Code::kUnavailable)
      return common::Error{failure.code, failure.message};
    // A refusal of what was sent before the last hello is answered by that hello.
    if (clock_.now_ns() - greeted_ns_ > kSearcherBeatMs * kNsPerMs) begin_anew();
    return {};
  }

  Status take(common::SharedBytes bytes) {
    LFARM_ASSIGN_OR_RETURN(SearchFrame frame, parse_frame(common::as_text(bytes.bytes)));
    if (frame.kind == FrameKind::kRefused) return refused(frame.body);
    if (frame.kind == FrameKind::kWelcome) {
      state_.has_joined = state_.is_joined = true;
      common::log_info(cat("searches for the coordinator at ", setup_.coordinator));
      return {};
    }
    auto found = searches_.find(frame.search);
    if (frame.kind == FrameKind::kClose) {
      if (found == searches_.end()) return {};
      end(std::move(found->second));
      searches_.erase(found);
      return {};
    }
    if (frame.kind == FrameKind::kOpen && found == searches_.end()) {
      auto send = [this, search = frame.search](FrameKind kind, std::string body) {
        outgoing_.put(search_frame(kind, search, std::move(body)));
      };
      found =
          searches_
              .emplace(frame.search, std::make_unique<Searching>(setup_.create, std::move(send)))
              .first;
    }
    if (found != searches_.end()) found->second->deliver(std::move(bytes));
    return {};
  }

  const SearcherSetup& setup_;
  SearcherState& state_;
  const common::SteadyClock clock_;
  common::FrameDealer dealer_;
  Outgoing outgoing_;
  std::map<uint64_t, std::unique_ptr<Searching>> searches_;  // by the coordinator's number
  std::vector<std::unique_ptr<Searching>> ending_;           // given up, their step goes on
  uint64_t connections_ = 0;
  int64_t greeted_ns_ = 0;
  int64_t beat_ns_ = 0;
};

}  // namespace

Status run_searcher(const SearcherSetup& setup, SearcherState& state,
                    const std::function<bool()>& ends) {
  common::WireContext context;
  LFARM_ASSIGN_OR_RETURN(common::FrameDealer dealer,
                         common::FrameDealer::connect(context, setup.coordinator, setup.keys));
  Searcher searcher(setup, state, std::move(dealer));
  while (!ends()) LFARM_RETURN_IF_ERROR(searcher.turn());
  return {};
}

}  // namespace coordinator::service
