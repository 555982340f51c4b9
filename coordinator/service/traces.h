// Jobs' traces for whoever asks, and how long those of ended jobs stay.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/service/environment.h"
#include "coordinator/service/timeline.h"

namespace coordinator::service {

// Not thread-safe.
class Traces {
 public:
  explicit Traces(Environment& environment) : env_(environment) {}

  // Takes up what ended jobs have left. `open`: jobs that go on.
  void resume(const TimelineSegments& all, const std::set<farm::JobId>& open);
  // Of traces of ended jobs the ServiceOptions::traces_max latest stay.
  void ended(farm::JobId job, std::vector<uint64_t> segments);
  // Answers with JobTrace, or JobFailed. Everything that was put to the commits before is in it.
  void send(const std::string& peer, const common::Principal& who, const common::AskTrace& request);

 private:
  void read(const std::string& peer, const common::Principal& who, const common::AskTrace& request);

  static constexpr size_t kAtOnce = 2;  // reading one takes a tenth of a second
  Environment& env_;
  std::deque<std::pair<farm::JobId, std::vector<uint64_t>>> ended_;  // the oldest first
  size_t reading_ = 0;
};

}  // namespace coordinator::service
