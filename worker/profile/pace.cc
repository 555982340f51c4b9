#include "worker/profile/pace.h"

#include <algorithm>

#include "common/base/clock.h"

namespace worker {
namespace {

constexpr size_t kFloats = size_t{32} << 10;
constexpr int kSteps = 2'000;
constexpr int kTries = 5;

}  // namespace

// Multiply-adds in chains, as many as hide their latency, then reads of memory.
int64_t PaceMeter::work() {
  common::SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  float chains[16];
  for (int k = 0; k < 16; ++k) chains[k] = sink_ + static_cast<float>(k);
  for (int step = 0; step < kSteps; ++step) {
    for (float& chain : chains) chain = chain * 0.999f + 0.5f;
  }
  float sum = 0;
  for (float chain : chains) sum += chain;
  float parts[16] = {};
  for (size_t k = 0; k < memory_.size(); k += 16) {
    for (size_t lane = 0; lane < 16; ++lane) parts[lane] += memory_[k + lane];
  }
  for (float part : parts) sum += part;
  sink_ = sum * 1e-9f;
  return clock.now_ns() - start_ns;
}

double PaceMeter::measure() {
  if (memory_.empty()) memory_.assign(kFloats, 0.25f);
  int64_t quickest_ns = work();
  for (int k = 1; k < kTries; ++k) quickest_ns = std::min(quickest_ns, work());
  quickest_ns = std::max<int64_t>(1, quickest_ns);
  least_ns_ = least_ns_ == 0 ? quickest_ns : std::min(least_ns_, quickest_ns);
  return static_cast<double>(quickest_ns) / static_cast<double>(least_ns_);
}

}  // namespace worker
