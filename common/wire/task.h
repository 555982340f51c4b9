// What a worker is asked to do with one candidate, and what it answers: the payload of a Task and
// the report of a TaskResult.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"

namespace common {

enum class TaskKind : uint8_t {
  kCandidate,  // verify and measure
  kBaseline,   // the plain program, whose time the candidates are held against
  kFinalist,   // verify and measure thoroughly, and keep the objects for the plan
  // Measure the program and its rivals in alternation, in one process. All were verified before.
  kComparison,
};
// "candidate", "baseline", "finalist", "comparison".
const char* task_kind_name(TaskKind kind);

struct VerifyOptions {
  // Values for the program's symbols, all of which are verified. One empty list for a program
  // without symbols.
  std::vector<std::vector<int64_t>> sizes{{}};
  std::vector<uint64_t> seeds{1, 2};  // of the random inputs; each is verified at every size
  bool adversarial = true;            // also inputs of zeros, extremes, infinities and NaN
  // For computing references that a worker does not have yet: inputs for which no time is left are
  // not verified. 0: all are.
  uint32_t references_ms = 0;
  uint32_t always = 1;  // sizes, the first ones, that are with the first seed, whatever the time
  friend bool operator==(const VerifyOptions&, const VerifyOptions&) = default;
};

struct MeasureOptions {
  uint32_t warmups = 2;
  uint32_t repetitions = 10;
  uint32_t time_max_ms = 2000;  // stop measuring after this long
  uint64_t give_up_ns = 0;      // stop once the mean must be longer; 0: never
  bool per_kernel = true;       // also measure each kernel alone
  uint32_t threads = 0;         // CPU threads of a run; 0: all that the worker has
  // Times are weighted means over these. Empty: what is verified first is measured.
  std::vector<WeightedSizes> sizes;
  friend bool operator==(const MeasureOptions&, const MeasureOptions&) = default;
};

struct TaskPayload {
  TaskKind kind = TaskKind::kCandidate;
  Digest graph;  // blob with the encoded graph that the program implements
  Program program;
  VerifyOptions verify;
  MeasureOptions measure;
  std::vector<Program> rivals;  // of a comparison, at most kRivalsMax
  friend bool operator==(const TaskPayload&, const TaskPayload&) = default;
};

// How a rival did beside a comparison's program.
struct RivalReport {
  uint64_t total_ns = 0;   // of one run, the mean of the middle half
  uint64_t spread_ns = 0;  // from the first to the third quartile
  // The program's time over the rival's, the median over rounds in which both ran, and the bounds
  // of its 95 % confidence interval.
  double speedup = 0, speedup_low = 0, speedup_high = 0;
  friend bool operator==(const RivalReport&, const RivalReport&) = default;
};

// For a candidate that is right. What went wrong with another is TaskResult's outcome and message.
struct TaskReport {
  // In the program's order; `object` indexes `objects`, which the worker holds as blobs.
  std::vector<PlanKernel> kernels;
  std::vector<Digest> objects;
  std::vector<uint64_t> kernel_ns;  // in the program's order; empty when not measured one by one
  uint64_t total_ns = 0;            // of one run, the mean of the middle half
  uint64_t spread_ns = 0;           // from the first to the third quartile
  uint32_t runs = 0;
  double compile_ms = 0;
  uint32_t kernels_compiled = 0;    // the others came from the worker's cache
  double max_error = 0;             // largest against float64, over all outputs, sizes and inputs
  std::string detail;               // for people; cut to kTextBytesMax on encoding
  std::vector<RivalReport> rivals;  // of a comparison, in the payload's order
  double disturbed = 0;  // share of samples discarded because something else ran meanwhile
  // What a reference kernel took beside the samples, over the least it ever took in this process;
  // 0: not measured.
  double pace = 0;
  // That compiled it, as the worker's hello named it: the coordinator fills it in on arrival, so
  // that it outlives the worker's connection and the coordinator.
  std::string toolchain;
  friend bool operator==(const TaskReport&, const TaskReport&) = default;
};

}  // namespace common
