#include "coordinator/search/memory/fit_memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "common/plan/run_memory.h"
#include "coordinator/search/memory/call_order.h"
#include "coordinator/search/memory/recompute.h"

namespace coordinator {
namespace {

using common::Plan;
using common::Program;

// What is tried, the least change first. A level is the share of the bound that is aimed at: what
// fits into less stays closer to the caches, and the measured time decides.
struct Variant {
  bool is_reordered = true;
  RecomputeOrder order = RecomputeOrder::kTimePerByte;
  double level = 1;
};
constexpr Variant kVariants[] = {{true, RecomputeOrder::kTimePerByte, 1},
                                 {false, RecomputeOrder::kTimePerByte, 1},
                                 {true, RecomputeOrder::kTime, 1},
                                 {true, RecomputeOrder::kTimePerByte, 0.85}};

// Blocks leave gaps: less has to be live than the arena may take.
constexpr int kLayoutAttempts = 12;

std::vector<double> times_of_calls(const Plan& plan, const std::vector<double>& kernel_ns) {
  std::vector<double> times;
  for (const common::Call& call : plan.calls) {
    times.push_back(kernel_ns[static_cast<size_t>(call.kernel)]);
  }
  return times;
}

double sum(const std::vector<double>& all) { return std::accumulate(all.begin(), all.end(), 0.0); }

FittedProgram lowered(const Program& program, Plan plan, const Variant& variant, size_t bound,
                      const std::vector<double>& kernel_ns, const std::vector<int64_t>& sizes) {
  if (variant.is_reordered) lower_peak_by_order(&plan, sizes);
  std::vector<double> call_ns = times_of_calls(plan, kernel_ns);
  double before_ns = sum(call_ns);
  auto wanted = static_cast<size_t>(std::floor(static_cast<double>(bound) * variant.level));
  size_t live = wanted, bytes = 0;
  for (int attempt = 0; attempt < kLayoutAttempts; ++attempt) {
    recompute_until(live, variant.order, sizes, &plan, &call_ns);
    common::RunLiveness now = common::run_liveness(plan, sizes);
    bytes = now.arena_bytes();
    bool is_stuck = now.most() > live;
    if (bytes <= wanted || is_stuck) break;
    size_t excess = bytes - wanted;
    live = std::min(now.most(), live) > excess ? std::min(now.most(), live) - excess : 0;
  }
  FittedProgram fitted{program, bytes, sum(call_ns) - before_ns};
  fitted.program.buffers = std::move(plan.buffers);
  fitted.program.calls = std::move(plan.calls);
  return fitted;
}

// Other orders must give back as much, in bytes and of the arena: what is close to the last bytes
// stays close to the caches.
constexpr size_t kWorthOrdering = size_t{1} << 20;
constexpr double kWorthShare = 0.05;

}  // namespace

Program in_lower_order(Program program, const std::vector<int64_t>& sizes) {
  Plan plan = common::plan_of_buffers(program);
  const size_t before = common::run_liveness(plan, sizes).arena_bytes();
  if (before < kWorthOrdering || !lower_peak_by_order(&plan, sizes)) return program;
  const size_t after = common::run_liveness(plan, sizes).arena_bytes();
  const double worth =
      std::max(static_cast<double>(kWorthOrdering), kWorthShare * static_cast<double>(before));
  if (static_cast<double>(after) + worth > static_cast<double>(before)) return program;
  program.calls = std::move(plan.calls);
  return program;
}

MemoryFit fit_memory(const Program& program, size_t bound, const std::vector<double>& kernel_ns,
                     const std::vector<int64_t>& sizes) {
  Plan plan = common::plan_of_buffers(program);
  MemoryFit fit;
  fit.least_bytes = common::run_liveness(plan, sizes).arena_bytes();
  if (fit.least_bytes <= bound) {
    fit.programs.push_back({program, fit.least_bytes, 0});
    return fit;
  }
  std::set<common::Digest> known;
  for (const Variant& variant : kVariants) {
    FittedProgram fitted = lowered(program, plan, variant, bound, kernel_ns, sizes);
    fit.least_bytes = std::min(fit.least_bytes, fitted.bytes);
    bool is_within = fitted.bytes <= bound;
    if (is_within && known.insert(common::program_fingerprint(fitted.program)).second) {
      fit.programs.push_back(std::move(fitted));
    }
  }
  std::stable_sort(fit.programs.begin(), fit.programs.end(),
                   [](const auto& a, const auto& b) { return a.added_ns < b.added_ns; });
  return fit;
}

size_t least_arena_bytes(const Program& program, const std::vector<int64_t>& sizes) {
  Plan plan = common::plan_of_buffers(program);
  common::RunLiveness live = common::run_liveness(plan, sizes);
  size_t most = 0;
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    if (live.lifetimes.at_load[c]) continue;
    std::set<int> touched(plan.calls[c].inputs.begin(), plan.calls[c].inputs.end());
    touched.insert(plan.calls[c].outputs.begin(), plan.calls[c].outputs.end());
    std::set<int> places;
    for (int id : touched) places.insert(live.lifetimes.storage[static_cast<size_t>(id)]);
    size_t bytes = 0;
    for (int id : places) {
      auto b = static_cast<size_t>(id);
      if (live.is_in_arena(b)) bytes += live.bytes[b];
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace coordinator
