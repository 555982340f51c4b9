// The kernel plan: what a client pulls and runs without a compiler.
//
// A plan is a Program whose kernels have become machine code. Objects (shared objects on the CPU,
// cubins on a GPU) are content-addressed blobs that the plan names by digest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/digest.h"
#include "common/base/signing.h"
#include "common/ir/hlir/gemm_form.h"
#include "common/ir/llir/llir.h"
#include "common/plan/tensor_map.h"

namespace common {

// The machine a plan is for, such as "cpu-x86_64-avx512" or "cuda-sm_90a". Exact match only.
struct Target {
  std::string name;
  friend auto operator<=>(const Target&, const Target&) = default;
};

// What the name of a target begins with: "cuda". A name that is all family stands for whichever
// target of it there is.
std::string_view family_of(std::string_view target);
constexpr bool is_family(std::string_view name) {
  return !name.empty() && name.find('-') == std::string_view::npos;
}
// Whether `target` is `wanted`, or of that family.
bool is_target(std::string_view target, std::string_view wanted);

// What kind of machine that is: names of GPUs begin with "cuda".
Machine machine_of(const Target& target);

// Changes whenever rules, code generator or toolchain change what a plan would contain.
inline constexpr std::string_view kCompilerEpoch = "38";
// The numerics policy: "strict" rounds as the model asks, but for probabilities within attention.
inline constexpr std::string_view kDefaultPolicy = "strict";
// "relaxed" also takes rewrites that hold only while all values are finite.
inline constexpr std::string_view kRelaxedPolicy = "relaxed";
constexpr bool is_policy(std::string_view policy) {
  return policy == kDefaultPolicy || policy == kRelaxedPolicy;
}

// Identifies a plan: what was compiled, for what, how exactly, by which compiler.
struct PlanKey {
  Digest graph_hash;
  Target target;
  std::string policy;
  std::string epoch;
  Digest digest() const;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

// The key of a model's plan, as this build makes it.
PlanKey plan_key_of(const Graph& graph, Target target, std::string policy);

// How a device that runs blocks of threads is to launch a kernel: `units` of its units a block.
// threads = 0 where kernels are called for ranges of units instead.
struct BlockShape {
  int threads = 0;
  int64_t units = 1;
  int64_t shared_bytes =
      0;  // of memory that a block's threads share, beyond what the code declares
  // ceil(units / this->units)
  int64_t blocks(int64_t all_units) const { return (all_units + units - 1) / units; }
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

// A kernel's code within its object. It is called for any of `units` independent units; several
// threads, or blocks of threads, may share them.
struct EntryPoint {
  std::string name;        // symbol in the object
  Expr units = 1;          // over the body's symbols, as scratch_bytes
  Expr scratch_bytes = 0;  // private memory each concurrent call (each block) needs
  BlockShape block;
  // The code begins by waiting for the kernels that were launched before, so that a device may
  // begin it while they run.
  bool waits = false;
  // Each output that may share an input's memory (PlanKernel::in_place_inputs) holds the input's
  // content before a launch; code that does not ask for it copies what it needs itself.
  bool starts_from_bases = false;
  // What a launch passes behind all other arguments, one tensor map each.
  std::vector<TensorMap> maps = {};
  friend bool operator==(const EntryPoint&, const EntryPoint&) = default;
};

// How one distinct kernel is launched.
struct PlanKernel {
  Digest fingerprint;    // of the Kernel it was made from, for people and measurements
  bool library = false;  // true: `gemm` says what the library computes; else code
  GemmForm gemm;
  // Of the algorithms that the library lists for the product's sizes, the one to use; the first
  // where the list is shorter. Each computes the product, whatever the library's version lists.
  int algorithm = 0;
  int object = -1;  // into Plan::objects
  EntryPoint entry;
  // For each output the input whose memory it may share, because the kernel writes only what
  // changes there (the base of a scatter); -1: none. Empty: none at all.
  std::vector<int> in_place_inputs;
  // Of one call, side by side: what the cost model said before the kernel was first measured, and
  // the time in the plan's run. 0 where nothing was said or measured.
  int64_t predicted_ns = 0;
  int64_t measured_ns = 0;
  friend bool operator==(const PlanKernel&, const PlanKernel&) = default;
};

// The plain plan's time over a plan's, measured in alternation in one process, and the bounds of
// its 95 % confidence interval; 0: not compared.
struct PlanSpeedup {
  double ratio = 0, low = 0, high = 0;
  friend bool operator==(const PlanSpeedup&, const PlanSpeedup&) = default;
};

struct PlanPrediction {
  int64_t ns = 0;           // one run of the plan, by the cost model; 0 when it said nothing
  std::string calibration;  // what predictions rest on: "measured", "default", "none"
  // Rank correlations of the times of so many schedules of kernels that the search measured with
  // its predictions by then, and with those of the cost model's constants alone.
  double rank_correlation = 0;
  double constants_correlation = 0;
  uint32_t schedules = 0;
  friend bool operator==(const PlanPrediction&, const PlanPrediction&) = default;
};

struct PlanSearch {
  int64_t candidates = 0;  // tried to find the plan
  uint64_t seed = 0;
  int64_t budget_candidates = 0;  // what it was given; 0: no limit of this kind
  int64_t budget_ms = 0;
  bool is_interim = false;  // the plan was stored while it went on
  friend bool operator==(const PlanSearch&, const PlanSearch&) = default;
};

// Of a plan that did not come from a search of this farm as it is.
struct PlanOrigin {
  Digest plan;              // signed plan that this was imported, published or rebuilt from
  PublicKey signer{};       // of an imported plan: the farm that signed it first
  std::string imported_by;  // the farm that vouches for an imported plan
  std::string found_epoch;  // of the search that found it, where it was rebuilt since
  friend bool operator==(const PlanOrigin&, const PlanOrigin&) = default;
};

struct Provenance {
  int64_t best_ns = 0;      // one run of the plan, measured
  int64_t baseline_ns = 0;  // one run of the plain program, measured beside it
  PlanSpeedup speedup;
  double disturbed = 0;  // share of samples discarded because something else ran meanwhile
  PlanPrediction prediction;
  PlanSearch search;
  int64_t created_ns = 0;  // since 1970
  std::string farm;        // the coordinator's name
  std::string worker;      // who measured it
  std::string machine;     // machine class that it was measured on; empty: not known
  std::string toolchain;   // of the worker that made the machine code
  // Another worker of the toolchain that compiled the program to the same objects; empty: none did.
  std::string second_worker;
  std::string tenant;     // whose search found it; not in what other tenants get
  std::string submitter;  // id of the key that asked for it; not in what other tenants get
  PlanOrigin origin;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

struct Plan {
  PlanKey key;
  std::vector<SymbolRange> symbols;
  std::vector<GraphInput> inputs;    // names are empty: binding is by position
  std::vector<GraphOutput> outputs;  // `node` is -1
  std::vector<Buffer> buffers;
  std::vector<PlanKernel> kernels;
  std::vector<Call> calls;  // `kernel` indexes kernels
  std::vector<Digest> objects;
  Provenance provenance;
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Buffer, kernel, object and symbol references, define-before-use and single writers.
Status verify(const Plan& plan);
// For people: what `lfarm plan show` prints below the plan's id, the digest of its signed bytes.
std::string print(const Plan& plan);
// For people: `lfarm plan show --predicted`, one line per call.
std::string print_predictions(const Plan& plan);

}  // namespace common
