#include "clients/score/parity.h"

#include <algorithm>
#include <map>

#include "clients/score/score.h"

namespace clients {

namespace {

double difference_ms(const OperatorRatio& one) { return one.ms - one.other_ms; }

}  // namespace

Parity parity_with(const PlanRun& run, const OtherRuntime& other) {
  Parity parity;
  parity.runtime = other.name;
  std::map<std::string, OperatorRatio> all;
  for (const KernelRun& kernel : run.kernels) {
    if (!kernel.runs()) continue;
    parity.launches += static_cast<double>(kernel.calls);
    if (!kernel.operation.empty()) all[kernel.operation].ms += kernel.latency.median_ns / 1e6;
  }
  for (const OperatorTime& time : other.operators) {
    if (time.ms > 0) all[operation_name(time.name)].other_ms += time.ms;
  }
  bool is_slower = false;
  for (auto& [name, both] : all) {
    both.name = name;
    if (difference_ms(both) > 0) parity.gaps.push_back(both);
    if (both.other_ms <= 0) {
      parity.only_here.push_back(name);
    } else if (both.ms <= 0) {
      parity.only_there.push_back(name);
    } else {
      is_slower = is_slower || both.ratio() > kParityRatio;
      parity.common.push_back(both);
    }
  }
  std::stable_sort(parity.gaps.begin(), parity.gaps.end(),
                   [](const OperatorRatio& a, const OperatorRatio& b) {
                     return difference_ms(a) > difference_ms(b);
                   });
  if (parity.gaps.size() > kGaps) parity.gaps.resize(kGaps);
  if (other.launches > 0) parity.other_launches = other.launches;
  if (other.run_ms > 0 && run.latency.median_ns > 0) {
    parity.whole = {"a run", run.latency.median_ns / 1e6, other.run_ms};
  }
  if (parity.common.empty()) return parity;
  parity.verdict = is_slower ? ParityVerdict::kSlower : ParityVerdict::kParity;
  return parity;
}

}  // namespace clients
