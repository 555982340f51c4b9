// How long a job spent in each of its stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/messages.h"

namespace coordinator::service {

class StageClock {
 public:
  // Ends the present stage and begins `stage`; nothing happens when it is the present one.
  void enter(const std::string& stage, int64_t now_ns) {
    if (stage == stage_) return;
    end(now_ns);
    stage_ = stage;
    since_ns_ = now_ns;
  }
  // Counts what another clock measured.
  void add(const std::string& stage, double ms) {
    for (common::StageTime& time : times_) {
      if (time.stage == stage) {
        time.ms += ms;
        return;
      }
    }
    if (times_.size() < common::kStagesMax) times_.push_back({stage, ms});
  }
  void end(int64_t now_ns) {
    if (!stage_.empty()) add(stage_, static_cast<double>(now_ns - since_ns_) * 1e-6);
    stage_.clear();
  }
  const std::vector<common::StageTime>& times() const { return times_; }

 private:
  std::string stage_;
  int64_t since_ns_ = 0;
  std::vector<common::StageTime> times_;
};

}  // namespace coordinator::service
