#include "clients/score/score.h"

#include <algorithm>

namespace clients {

namespace {

double peak_of(const KernelRun& kernel, const Roofline& roofline) {
  bool half = kernel.is_half && roofline.half_operations_per_s > 0;
  return half ? roofline.half_operations_per_s : roofline.operations_per_s;
}

double operations_ns(const KernelRun& kernel, const Roofline& roofline) {
  double peak = peak_of(kernel, roofline);
  return kernel.operations && peak > 0 ? *kernel.operations / peak * 1e9 : 0;
}

// Weights are read among all that stays; what calls give each other is as near as a call is small.
double bytes_ns(const KernelRun& kernel, double resident_bytes, const Roofline& roofline) {
  double far = read_bandwidth(roofline, resident_bytes);
  double near = read_bandwidth(roofline, kernel.call_bytes);
  if (far <= 0 || near <= 0) return 0;
  return (kernel.weight_bytes / far + kernel.other_bytes / near) * 1e9;
}

double call_ns(const PlanRun& run) { return run.latency.median_ns + run.transfer_ns; }

const EarlierRun* best_of(const std::vector<EarlierRun>& earlier) {
  const EarlierRun* best = nullptr;
  for (const EarlierRun& one : earlier) {
    if (one.latency.median_ns <= 0) continue;
    if (best == nullptr || one.latency.median_ns < best->latency.median_ns) best = &one;
  }
  return best;
}

}  // namespace

std::optional<double> efficiency_of(const PlanRun& run, const Roofline& roofline) {
  auto kernels = kernel_efficiency_of(run, roofline);
  if (!kernels || !run.work) return kernels;
  return least_ns(*run.work, roofline) / run.latency.median_ns;
}

std::optional<double> kernel_efficiency_of(const PlanRun& run, const Roofline& roofline) {
  double least_ns = 0;
  for (const KernelRun& kernel : run.kernels) {
    if (!kernel.runs()) continue;
    least_ns +=
        std::max(operations_ns(kernel, roofline), bytes_ns(kernel, run.resident_bytes, roofline));
  }
  if (run.latency.median_ns <= 0 || least_ns <= 0) return std::nullopt;
  return least_ns / run.latency.median_ns;
}

char grade_of(const std::optional<double>& efficiency) {
  if (!efficiency) return '-';
  if (*efficiency >= 0.60) return 'A';
  if (*efficiency >= 0.40) return 'B';
  if (*efficiency >= 0.20) return 'C';
  return *efficiency >= 0.10 ? 'D' : 'F';
}

Shares shares_of(const PlanRun& run, const Roofline& roofline) {
  Shares shares;
  double all_ns = call_ns(run), launches = 0, kernels_ns = 0, compute_ns = 0;
  for (const KernelRun& kernel : run.kernels) {
    if (!kernel.runs()) continue;
    launches += static_cast<double>(kernel.calls);
    kernels_ns += kernel.latency.median_ns;
    bool is_compute =
        operations_ns(kernel, roofline) > bytes_ns(kernel, run.resident_bytes, roofline);
    if (is_compute) compute_ns += kernel.latency.median_ns;
  }
  if (run.latency.median_ns <= 0 || kernels_ns <= 0) return shares;
  double launch_ns = std::min(run.latency.median_ns, launches * roofline.launch_ns);
  shares.transfer = run.transfer_ns / all_ns;
  shares.launch = launch_ns / all_ns;
  double busy = (run.latency.median_ns - launch_ns) / all_ns;
  shares.compute = busy * compute_ns / kernels_ns;
  shares.memory = busy * (kernels_ns - compute_ns) / kernels_ns;
  return shares;
}

const char* bottleneck_name(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kNothing:
      return "nothing measured";
    case Bottleneck::kTransfer:
      return "transfer";
    case Bottleneck::kLaunch:
      return "launch";
    case Bottleneck::kCompute:
      return "compute";
    case Bottleneck::kMemory:
      return "memory bandwidth";
  }
  return "";
}

const char* recommendation_for(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kNothing:
      return "Give a model whose plan runs at least one kernel.";
    case Bottleneck::kTransfer:
      return "Keep inputs and outputs in the device's memory: lfarm_instance_run_on, or DLPack in "
             "Python.";
    case Bottleneck::kLaunch:
      return "Give the kernels more to do at once (a larger batch), or search longer for plans "
             "with fewer kernels: lfarm submit --budget.";
    case Bottleneck::kCompute:
      return "The kernels multiply most of the time: a narrower type (bfloat16) or a model with "
             "fewer operations is what gains.";
    case Bottleneck::kMemory:
      return "The kernels wait for memory: a narrower type of the weights, a larger batch or more "
             "fusion (lfarm submit --budget) moves fewer bytes.";
  }
  return "";
}

Bottleneck bottleneck_of(const Shares& shares) {
  if (shares.transfer > 0.30) return Bottleneck::kTransfer;
  if (shares.launch > 0.40) return Bottleneck::kLaunch;
  if (shares.compute > shares.memory) return Bottleneck::kCompute;
  return Bottleneck::kMemory;
}

std::vector<HotKernel> hot_kernels(const PlanRun& run) {
  double all_ns = 0;
  std::vector<HotKernel> hot;
  for (const KernelRun& kernel : run.kernels) {
    if (!kernel.runs()) continue;
    all_ns += kernel.latency.median_ns;
    hot.push_back({kernel, 0});
  }
  std::stable_sort(hot.begin(), hot.end(), [](const HotKernel& a, const HotKernel& b) {
    return a.kernel.latency.median_ns > b.kernel.latency.median_ns;
  });
  if (hot.size() > kHotKernels) hot.resize(kHotKernels);
  for (HotKernel& one : hot) one.share = one.kernel.latency.median_ns / all_ns;
  return hot;
}

const char* change_name(Change change) {
  switch (change) {
    case Change::kNone:
      return "none";
    case Change::kWithinNoise:
      return "within noise";
    case Change::kWarning:
      return "warning";
    case Change::kCritical:
      return "critical";
  }
  return "";
}

Change change_of(const common::Latency& now, const common::Latency& before) {
  if (now.median_ns <= 0 || before.median_ns <= 0) return Change::kNone;
  double ratio = now.median_ns / before.median_ns;
  if (ratio < 1.10) return Change::kNone;
  bool overlaps = now.median_ns - now.spread_ns / 2 <= before.median_ns + before.spread_ns / 2;
  if (overlaps) return Change::kWithinNoise;
  return ratio >= 1.20 ? Change::kCritical : Change::kWarning;
}

std::vector<Regression> regressions(const PlanRun& run, const std::vector<EarlierRun>& earlier) {
  std::vector<Regression> found;
  const EarlierRun* best = best_of(earlier);
  if (best == nullptr || run.latency.median_ns <= 0) return found;
  found.push_back({"the plan", run.latency, best->latency, change_of(run.latency, best->latency)});
  for (const auto& [id, before] : best->kernels) {
    for (const KernelRun& kernel : run.kernels) {
      if (kernel.id != id) continue;
      Change change = change_of(kernel.latency, before);
      if (change != Change::kNone) found.push_back({kernel.name, kernel.latency, before, change});
    }
  }
  return found;
}

std::optional<double> coverage_of(const PlanRun& run) {
  double kernels_ns = 0;
  for (const KernelRun& kernel : run.kernels) kernels_ns += kernel.latency.median_ns;
  if (run.latency.median_ns <= 0 || kernels_ns <= 0) return std::nullopt;
  return kernels_ns / run.latency.median_ns;
}

std::optional<TokenRate> token_rate(const PlanRun& run, const Roofline& roofline, double tokens) {
  if (tokens <= 0 || run.latency.median_ns <= 0) return std::nullopt;
  TokenRate rate{tokens, tokens / run.latency.median_ns * 1e9, 0};
  if (run.work && run.work->bytes > 0) {
    rate.floor_per_s = tokens * read_bandwidth(roofline, run.work->bytes) / run.work->bytes;
  }
  return rate;
}

Scorecard score(PlanRun run, Roofline roofline, const std::vector<EarlierRun>& earlier,
                const OtherRuntime* other, double tokens) {
  Scorecard card;
  card.run = std::move(run);
  card.roofline = std::move(roofline);
  card.hot = hot_kernels(card.run);
  card.efficiency = efficiency_of(card.run, card.roofline);
  card.grade = grade_of(card.efficiency);
  card.shares = shares_of(card.run, card.roofline);
  if (card.run.latency.median_ns > 0 && !card.hot.empty()) {
    card.bottleneck = bottleneck_of(card.shares);
  }
  card.regressions = regressions(card.run, earlier);
  card.coverage = coverage_of(card.run);
  card.tokens = token_rate(card.run, card.roofline, tokens);
  if (other != nullptr) card.parity = parity_with(card.run, *other);
  return card;
}

}  // namespace clients
