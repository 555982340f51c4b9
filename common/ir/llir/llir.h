// LLIR: a model as kernels and library calls over buffers, with their schedule parameters.
//
// An LLIR program is one candidate: what a worker generates code for, verifies and measures. It is
// acyclic by construction (calls are in execution order), has a text form, a verifier and a
// fingerprint per kernel and per program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/digest.h"
#include "common/ir/hlir/graph.h"
#include "common/ir/llir/tiling.h"
#include "common/ir/nest/loop_nest.h"

namespace common {

// How a kernel's body becomes code.
enum class Template : uint8_t {
  kLoops,      // loop nests over the outputs; everything the body holds is computed in place
  kTile,       // a register-tiled, packed contraction with prologue and epilogue in place
  kScan,       // one kScan node, its operand computed in place
  kScatter,    // one kScatter node, its operands computed in place
  kSort,       // one kSort node
  kGemm,       // library call: one kContract of matmul form over stored operands
  kAttention,  // see attention_form.h: scores, softmax and product, a block of keys at a time
  kFourier,    // see fourier_form.h: transforms of a few rows at a time, and what follows from them
  kHorizontal,  // see horizontal.h: outputs by units of their own, in one launch
};
inline constexpr int kTemplateCount = 9;
std::string_view template_name(Template t);

// Schedule parameters, sorted by name. Unknown names are errors; missing ones take their default
// (see schedule_parameters).
struct ScheduleParameter {
  std::string name;
  int64_t value = 0;
  friend auto operator<=>(const ScheduleParameter&, const ScheduleParameter&) = default;
};
using Schedule = std::vector<ScheduleParameter>;

// Kinds of machine, for which programs and templates' parameters differ. kCpuPairs: a processor
// that multiplies pairs of bfloat16 (AVX512_BF16). kGpuWarpgroups: a GPU on which four warps
// multiply together (compute capability 9.0a).
enum class Machine : uint8_t { kCpu, kCpuPairs, kGpu, kGpuWarpgroups };
inline bool is_gpu(Machine machine) {
  return machine == Machine::kGpu || machine == Machine::kGpuWarpgroups;
}

// Values of the tiles' parameter "stores": a register tile's rows are stored together, or each in a
// step of a loop.
inline constexpr int64_t kStoresRowsAtOnce = 1, kStoresRowByRow = 2;

// The values a schedule parameter of a template may take; the first is the default.
struct ScheduleChoice {
  std::string_view name;
  std::vector<int64_t> values;
  bool on_cpu = true;
  bool on_gpu = false;
  bool on_warpgroups = on_gpu;
  bool is_on(Machine machine) const {
    return !is_gpu(machine) ? on_cpu : machine == Machine::kGpu ? on_gpu : on_warpgroups;
  }
};
// On a CPU. For kLoops: unroll (inner loop unroll factor), vector (SIMD width hint in elements, 0 =
// compiler's choice), stage (1 = values read twice within a row are kept in a row buffer). For
// kTile: mr, nr (register tile), kc, mc, nc (cache blocks, in elements) and stores (of a register
// tile), 0 = what suits the sizes. For kAttention: keys, rows (block of each; 0 = what suits the
// sizes), online (0 = all of a row's scores are kept, so that its probabilities are normalised
// before the product).
// On a GPU, 0 = what suits the sizes where nothing else is said. For kLoops: team (threads that
// compute a unit together), access (neighbours in memory that a thread takes at once), rows (units
// that they compute at once). For kTile: block_rows, block_columns (of the product, that a block of
// threads computes), splits (blocks that share what one would sum); with warpgroups that multiply,
// warpgroups (their block, rows * 1000 + columns, instead of the former; 1: single warps multiply),
// stages (steps of the summed axis that shared memory holds for them) and clusters (blocks that
// copy operands for one another, below or, 100 + n, beside each other; 1: none). For kAttention:
// block_rows, block_keys, splits, and online, where 0 computes the scores twice. For kGemm:
// algorithm (its place in the library's list). Those of CPUs alone come first, so that codes of
// them are dense.
const std::vector<ScheduleChoice>& schedule_parameters(Template t);
int64_t schedule_value(const Schedule& schedule, Template t, std::string_view name);

// The body is a graph whose inputs are the kernel's input buffers in order (all kUser) and whose
// outputs are its output buffers in order. It is canonical (see graph_hash.h), so equal kernels
// are equal values whatever model they come from. Bodies contain no loops (kLoop).
struct Kernel {
  Template form{};
  Schedule schedule;
  Graph body;
  // The loops that compute the body, or what a tile leaves of it. Searches vary schedules, from
  // which nests and tilings are made (common/schedule) when a kernel is sent to be compiled; a
  // kernel that is all template has no nest.
  std::optional<LoopNest> nest;
  // Of a horizontal kernel that has its nests: one a part; empty for a scatter without loops.
  std::vector<LoopNest> part_nests;
  // Of a kernel that its template computes, or the part of it that has no loops.
  std::optional<Tiling> tiling;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};
// Content identity: body, template and schedule; independent of where the kernel is used. The nest
// and the tiling follow from these on a kind of machine, so that times are kept without them.
Digest kernel_fingerprint(const Kernel& kernel);
// That of the kernel's code on a kind of machine: with the nest and the tiling, if it has them.
Digest code_fingerprint(const Kernel& kernel);

enum class BufferKind : uint8_t {
  kInput,     // input `position` of the graph (user, weight or state)
  kOutput,    // output `position` of the graph
  kTemporary  // lives between the calls that write and read it
};
// Row-major and contiguous.
struct Buffer {
  BufferKind kind{};
  int position = 0;
  DType dtype{};
  Shape shape;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

// One launch: kernel `kernel` reads `inputs` and writes `outputs` (indices into buffers).
// symbols[k] is the program's expression for the kernel body's symbol s<k>.
struct Call {
  int kernel = 0;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<Expr> symbols;
  friend bool operator==(const Call&, const Call&) = default;
};

// Inputs, outputs and symbols are those of the graph it implements.
struct Program {
  std::vector<SymbolRange> symbols;
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;  // `node` is unused and -1
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;  // distinct
  std::vector<Call> calls;      // in execution order
  friend bool operator==(const Program&, const Program&) = default;
};

// Buffer and kernel indices, signatures, define-before-use, single writers, symbol counts,
// schedule names and every kernel body.
Status verify(const Program& program);
Digest program_fingerprint(const Program& program);
std::string print(const Kernel& kernel);
std::string print(const Program& program);

}  // namespace common
