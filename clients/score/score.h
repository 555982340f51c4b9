// The scorecard of a plan: rules over what was measured, and nothing else. The thresholds are those
// of docs/measuring.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clients/score/model_work.h"
#include "clients/score/parity.h"
#include "clients/score/roofline.h"
#include "common/records/record.h"

namespace clients {

// A kernel over all calls of one run.
struct KernelRun {
  std::string name;
  std::string id;         // stands for what it computes and how
  std::string operation;  // "matmul", "softmax", ...; empty where nobody knows
  std::string modules;  // of the model, whose weights it reads; empty where the model is not known
  std::string sources;  // lines of the model that read these weights, likewise
  int64_t calls = 0;
  common::Latency latency;           // of all calls; a median of 0: it ran when weights were bound
  double weight_bytes = 0;           // of inputs, weights and states, each buffer once a call
  double other_bytes = 0;            // of what calls give each other
  double call_bytes = 0;             // of all that the largest call touches
  std::optional<double> operations;  // additions and multiplications; empty where nobody knows
  bool is_half = false;              // products of 16-bit numbers
  bool runs() const { return latency.median_ns > 0; }
};

// A plan's run, measured kernel by kernel and as a whole.
struct PlanRun {
  std::string plan, graph, target, sizes;
  common::Latency latency;    // of the device, all kernels together
  double transfer_ns = 0;     // that a call from host memory takes longer
  double resident_bytes = 0;  // of inputs, weights and states
  // What the model needs, whatever its kernels do; empty where only the plan is known.
  std::optional<ModelWork> work;
  std::vector<KernelRun> kernels;
  std::vector<std::pair<std::string, double>> memory;  // bytes by what they are for
};

// ---- Efficiency --------------------------------------------------------------------------------

// The least time that the device could take for what the model needs, over the time taken: the
// share of the roofline that `lfarm submit` and `lfarm-bench models` tell, too. Where the model is
// not known, kernel_efficiency_of(). Empty when nothing was measured, or no kernel runs. Above 1
// where data came from a nearer cache.
std::optional<double> efficiency_of(const PlanRun& run, const Roofline& roofline);
// The same for the work of the plan's kernels, traffic of intermediate buffers included.
std::optional<double> kernel_efficiency_of(const PlanRun& run, const Roofline& roofline);
// 'A' from 0.60, 'B' from 0.40, 'C' from 0.20, 'D' from 0.10, else 'F'; '-' for nothing.
char grade_of(const std::optional<double>& efficiency);

// ---- Bottleneck --------------------------------------------------------------------------------

// Of a call's time, 1 together: copies, launches, and the rest as kernels take it, each of which
// waits for its operations (compute) or for its bytes, whichever takes the device longer. All 0
// when nothing was measured, or no kernel runs.
struct Shares {
  double transfer = 0, launch = 0, compute = 0, memory = 0;
};
Shares shares_of(const PlanRun& run, const Roofline& roofline);

enum class Bottleneck { kNothing, kTransfer, kLaunch, kCompute, kMemory };
const char* bottleneck_name(Bottleneck bottleneck);
// What to do about it, one sentence.
const char* recommendation_for(Bottleneck bottleneck);
// The first that holds of: transfer over 30 %, launch over 40 %, compute over memory; else memory.
Bottleneck bottleneck_of(const Shares& shares);

// ---- Hot kernels -------------------------------------------------------------------------------

struct HotKernel {
  KernelRun kernel;
  double share = 0;  // of all kernels' time
};
inline constexpr size_t kHotKernels = 10;
// The ten that take longest, longest first.
std::vector<HotKernel> hot_kernels(const PlanRun& run);

// ---- Regressions -------------------------------------------------------------------------------

enum class Change { kNone, kWithinNoise, kWarning, kCritical };
const char* change_name(Change change);
// 10 % slower warns, 20 % is critical: at the threshold too. Not when the quartiles of both runs
// overlap: a median that moved by less than its own scatter tells nothing. The spread lies around
// the median in equal parts.
Change change_of(const common::Latency& now, const common::Latency& before);

struct Regression {
  std::string what;  // "the plan", or a kernel's name
  common::Latency now, before;
  Change change = Change::kNone;
};
// A run before this one. Kernels by id.
struct EarlierRun {
  common::Latency latency;
  std::vector<std::pair<std::string, common::Latency>> kernels;
};
// Against the run with the least median, whichever it is: of the plan first, then of kernels that
// both have and that changed. Empty when there is no earlier one.
std::vector<Regression> regressions(const PlanRun& run, const std::vector<EarlierRun>& earlier);

// ---- Tokens and time ---------------------------------------------------------------------------

// The kernels' times together over the run's: what is missing from 1 goes to launches and to
// waiting between them; kernels that are timed one by one may come to more than 1. Empty when
// nothing was measured.
std::optional<double> coverage_of(const PlanRun& run);

// Of a model that computes some tokens in each call.
struct TokenRate {
  double tokens = 0;       // a call
  double per_s = 0;        // as measured
  double floor_per_s = 0;  // if a call took only as long as reading and writing its bytes does; 0:
                           // not known, as where only the plan is
};
std::optional<TokenRate> token_rate(const PlanRun& run, const Roofline& roofline, double tokens);

// ---- All of it ---------------------------------------------------------------------------------

struct Scorecard {
  PlanRun run;
  Roofline roofline;
  std::optional<double> efficiency;
  char grade = '-';
  Shares shares;
  Bottleneck bottleneck = Bottleneck::kNothing;
  std::vector<HotKernel> hot;
  std::vector<Regression> regressions;
  std::optional<double> coverage;
  std::optional<TokenRate> tokens;  // where calls compute tokens
  std::optional<Parity> parity;     // where there is something to compare with
};
// `tokens`: that a call computes; 0: none.
Scorecard score(PlanRun run, Roofline roofline, const std::vector<EarlierRun>& earlier,
                const OtherRuntime* other, double tokens = 0);

}  // namespace clients
