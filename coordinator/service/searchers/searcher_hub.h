// The coordinator's side of its searchers: who is connected, how many searches each takes, and the
// frames between them and the threads that wait for a search's next step.
//
// A thread of its own moves the frames, so that candidates by the megabyte and lookups by the
// thousand never stand in the way of workers' messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/frames/frames.h"
#include "coordinator/service/searchers/seat.h"

namespace coordinator::service {

struct SearcherCounts {
  size_t searchers = 0;  // connected
  size_t places = 0;     // searches that they take together
  size_t searches = 0;   // that they have now
  uint64_t lost = 0;     // searchers that left while they had searches, ever
  double cpu_s = 0;      // that those connected have used
};

// Thread-safe.
class SearcherHub {
 public:
  // Listens; errors as FrameRouter::bind(). A searcher that is silent for `silence_ms` is lost.
  static common::Result<std::unique_ptr<SearcherHub>> start(common::WireContext& context,
                                                            common::FrameRouterOptions options,
                                                            int64_t silence_ms);
  // Seats that are left are closed, and must not outlive their users' threads.
  ~SearcherHub();
  SearcherHub(const SearcherHub&) = delete;
  SearcherHub& operator=(const SearcherHub&) = delete;

  const std::string& endpoint() const;
  // A place at the searcher with the most room; null when none has room within `wait_ms`.
  std::unique_ptr<Seat> take_seat(int64_t wait_ms = 0);
  SearcherCounts counts() const;
  // Ends all waiting, now and from now on.
  void close();
  bool is_closed() const;

 private:
  struct State;
  explicit SearcherHub(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;  // shared with seats
  std::thread thread_;
};

}  // namespace coordinator::service
