#include "worker/profile/sampler.h"

#include <algorithm>
#include <numeric>

#include "common/base/clock.h"

namespace worker {
namespace {

constexpr int64_t kUsualRuns = 8;             // that a run which waited counts for
constexpr int64_t kSampleMaxNs = 50'000'000;  // by the clock, however little filled it
// Settling takes fewer runs than this, and is worth the time where runs are shorter than that.
constexpr int kSettlingRuns = 64;
constexpr int64_t kLongNs = 3'000'000;

}  // namespace

Sampler::Sampler(common::Executor& executor, std::span<const common::HostTensor> inputs)
    : executor_(executor), inputs_(inputs), meter_(executor.device()) {}

common::Result<int64_t> Sampler::warm_up() {
  LFARM_ASSIGN_OR_RETURN(int64_t ns, executor_.run_total_ns(inputs_, outputs_));
  filling_ns(ns);
  return ns;
}

common::Status Sampler::settle() {
  for (int run = 0; run < kSettlingRuns && !executor_.is_settled(); ++run) {
    LFARM_ASSIGN_OR_RETURN(int64_t ns, warm_up());
    if (ns > kLongNs) break;
  }
  return {};
}

int64_t Sampler::filling_ns(int64_t run_ns) {
  if (least_ns_ == 0 || run_ns < least_ns_) least_ns_ = std::max<int64_t>(1, run_ns);
  return std::min(run_ns, kUsualRuns * least_ns_);
}

common::Result<Sampler::Sample> Sampler::take(int64_t least_ns) {
  Sample sample;
  common::SteadyClock clock;
  int64_t end_ns = clock.now_ns() + kSampleMaxNs;
  meter_.begin();
  for (int64_t spent_ns = 0; sample.run_ns.empty() || spent_ns < least_ns;) {
    LFARM_ASSIGN_OR_RETURN(int64_t ns, executor_.run_total_ns(inputs_, outputs_));
    sample.is_disturbed = !executor_.device().slowdown().empty();
    if (sample.is_disturbed && !sample.run_ns.empty()) {
      sample.is_disturbed = false;  // the runs before it are fine
      break;
    }
    int64_t filling = filling_ns(ns);
    spent_ns += filling;
    sample.run_ns.push_back(static_cast<uint64_t>(ns));
    if (sample.is_disturbed || (filling < ns && clock.now_ns() >= end_ns)) break;
  }
  sample.is_disturbed = meter_.end() || sample.is_disturbed;
  return sample;
}

common::Result<Sampler::CallSample> Sampler::take_calls(int64_t least_ns) {
  CallSample sample;
  common::SteadyClock clock;
  // A run that repeats its calls takes much longer than their times.
  int64_t end_ns = clock.now_ns() + kSampleMaxNs;
  meter_.begin();
  for (int64_t spent_ns = 0;
       sample.runs.empty() || (spent_ns < least_ns && clock.now_ns() < end_ns);) {
    LFARM_ASSIGN_OR_RETURN(auto times, executor_.run_calls_ns(inputs_, outputs_));
    spent_ns += std::accumulate(times.begin(), times.end(), int64_t{1});
    sample.runs.push_back(std::move(times));
  }
  sample.is_disturbed = meter_.end();
  return sample;
}

}  // namespace worker
