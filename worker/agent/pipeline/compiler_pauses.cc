#include "worker/agent/pipeline/compiler_pauses.h"

#include <chrono>

#include "common/base/clock.h"

namespace worker {
namespace {

// A measurement takes 10 ms and more.
constexpr std::chrono::milliseconds kLook{2};
constexpr int64_t kPauseMaxNs = 1'000'000'000;

}  // namespace

CompilerPauses::CompilerPauses(std::shared_ptr<const Compiler> compiler, std::string device)
    : compiler_(std::move(compiler)), probe_(device), thread_([this] { watch(); }) {}

CompilerPauses::~CompilerPauses() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CompilerPauses::set_compiling(bool is_compiling) {
  {
    std::lock_guard lock(mutex_);
    is_compiling_ = is_compiling;
  }
  changed_.notify_all();
}

void CompilerPauses::watch() {
  common::SteadyClock clock;
  int64_t since_ns = clock.now_ns();  // the last pause's begin or end
  int64_t owed_ns = 0;                // to compilers, from `since_ns` on
  bool is_paused = false;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (is_compiling_) {
      changed_.wait_for(lock, kLook);
    } else {
      changed_.wait(lock, [&] { return stop_ || is_compiling_; });
    }
    int64_t now_ns = clock.now_ns(), passed_ns = now_ns - since_ns;
    bool may_pause = is_paused ? passed_ns < kPauseMaxNs : passed_ns >= owed_ns;
    bool wanted = !stop_ && is_compiling_ && may_pause && probe_.is_alone();
    if (wanted == is_paused) continue;
    owed_ns = is_paused ? passed_ns : 0;
    since_ns = now_ns;
    is_paused = wanted;
    if (is_paused) {
      compiler_->pause();
    } else {
      compiler_->resume();
    }
  }
}

}  // namespace worker
