#include "worker/agent/pipeline/measurement_pauses.h"

#include <chrono>
#include <utility>

#include "common/base/clock.h"

namespace worker {
namespace {

// A measurement takes 10 ms and more, and each look beside it takes from it.
constexpr std::chrono::milliseconds kLook{2}, kLookWhilePaused{10};
constexpr int64_t kPauseMaxNs = 1'000'000'000;

}  // namespace

MeasurementPauses::MeasurementPauses(std::shared_ptr<const Compiler> compiler,
                                     std::shared_ptr<common::PausableGroups> executors,
                                     std::string device)
    : compiler_(std::move(compiler)),
      executors_(std::move(executors)),
      probe_(device),
      thread_([this] { watch(); }) {}

MeasurementPauses::~MeasurementPauses() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MeasurementPauses::add(int activities) {
  {
    std::lock_guard lock(mutex_);
    activities_ += activities;
  }
  changed_.notify_all();
}

void MeasurementPauses::pause() {
  compiler_->pause();
  executors_->pause();
}

void MeasurementPauses::resume() {
  executors_->resume();
  compiler_->resume();
}

void MeasurementPauses::watch() {
  common::SteadyClock clock;
  int64_t since_ns = clock.now_ns();  // the last pause's begin or end
  int64_t owed_ns = 0;                // to what stood still, from `since_ns` on
  bool is_paused = false;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (activities_ > 0) {
      changed_.wait_for(lock, is_paused ? kLookWhilePaused : kLook);
    } else {
      changed_.wait(lock, [&] { return stop_ || activities_ > 0; });
    }
    int64_t now_ns = clock.now_ns(), passed_ns = now_ns - since_ns;
    bool may_pause = is_paused ? passed_ns < kPauseMaxNs : passed_ns >= owed_ns;
    bool wanted = !stop_ && activities_ > 0 && may_pause && probe_.is_alone();
    if (wanted == is_paused) continue;
    owed_ns = is_paused ? passed_ns : 0;
    since_ns = now_ns;
    is_paused = wanted;
    is_paused ? pause() : resume();
  }
}

}  // namespace worker
