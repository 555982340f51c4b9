// One search in a searcher's process, on a thread of its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "coordinator/service/loop/options.h"
#include "coordinator/service/searchers/seat.h"

namespace coordinator::service {

class Searching {
 public:
  // Thread-safe.
  using Send = std::function<void(FrameKind kind, std::string body)>;
  // Waits for kOpen.
  Searching(SearchFactory create, Send send);
  // Waits for the step under way.
  ~Searching();
  Searching(const Searching&) = delete;
  Searching& operator=(const Searching&) = delete;

  // What came for the search.
  void deliver(common::SharedBytes frame) { inbox_.deliver(std::move(frame)); }
  // The coordinator has given it up: it ends with its step.
  void close() { inbox_.close("the search was given up"); }
  // Whether destruction would not wait.
  bool is_over() const { return is_over_; }

 private:
  void run();
  bool open(std::unique_ptr<MeasurementSource>& source, std::shared_ptr<SearchSteps>& steps);
  void advance(SearchSteps& steps, std::string_view body);
  void fail(const common::Error& error);

  const SearchFactory create_;
  const Send send_;
  SeatInbox inbox_;
  KnownGraphs graphs_;  // that the coordinator has
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace coordinator::service
