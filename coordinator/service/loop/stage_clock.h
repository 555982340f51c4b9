// How long a job spent in each of its stages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/messages.h"

namespace coordinator::service {

class StageClock {
 public:
  // `on_end` learns of every stage, when it ended.
  using OnEnd = std::function<void(const std::string& stage, int64_t from_ns, int64_t to_ns)>;
  explicit StageClock(OnEnd on_end = {}) : on_end_(std::move(on_end)) {}

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
    if (!stage_.empty()) {
      add(stage_, static_cast<double>(now_ns - since_ns_) * 1e-6);
      if (on_end_) on_end_(stage_, since_ns_, now_ns);
    }
    stage_.clear();
  }
  const std::vector<common::StageTime>& times() const { return times_; }

 private:
  OnEnd on_end_;
  std::string stage_;
  int64_t since_ns_ = 0;
  std::vector<common::StageTime> times_;
};

}  // namespace coordinator::service
