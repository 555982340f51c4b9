#include "tests/bench/gpu_static/static_kernel.h"

#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/cuda/cubin.h"
#include "common/cuda/sass.h"
#include "common/ir/hlir/sizes.h"
#include "coordinator/search/cost/kernel_profile.h"
#include "tests/emulator/accesses/access_run.h"

namespace bench {
namespace {

using common::SassClass;
using common::SassInstruction;
using common::SassKernel;

// Steps of a loop that loads nothing, such as one over a warp's sums.
constexpr double kUnknownTrips = 4;
// Of a library: the share of the machine's rates that its products reach.
constexpr double kLibraryShare = 0.75;
// Multiplications and additions of one tensor instruction of a warp, m16n8k16.
constexpr double kTensorOperations = 16 * 8 * 16 * 2;
constexpr double kWarp = 32;

bool is_load(SassClass kind) {
  return kind == SassClass::kGlobalLoad || kind == SassClass::kAsyncCopy;
}

// Instructions and bytes of the innermost steps of each loop, and of what is in none (last).
struct Part {
  double instructions = 0, load_bytes = 0, tensor = 0;
  int64_t barriers = 0;
};

std::vector<Part> parts_of(const SassKernel& kernel) {
  std::vector<Part> parts(kernel.loops.size() + 1);
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    int loop = common::innermost_loop(kernel, k);
    Part& part = parts[loop < 0 ? kernel.loops.size() : static_cast<size_t>(loop)];
    const SassInstruction& x = kernel.code[k];
    part.instructions += 1;
    if (is_load(x.kind)) part.load_bytes += x.bytes;
    if (x.kind == SassClass::kTensor) part.tensor += 1;
    if (x.kind == SassClass::kBarrier) ++part.barriers;
  }
  return parts;
}

// The width of the accesses of this kind that move most bytes.
int main_width(const SassKernel& kernel, bool loads) {
  double moved[17] = {};
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    const SassInstruction& x = kernel.code[k];
    if (loads ? !is_load(x.kind) : x.kind != SassClass::kGlobalStore) continue;
    bool in_loop = common::innermost_loop(kernel, k) >= 0;
    moved[x.bytes] += x.bytes * (in_loop ? kUnknownTrips : 1);
  }
  auto most = std::max_element(std::begin(moved), std::end(moved));
  return *most > 0 ? static_cast<int>(most - std::begin(moved)) : 0;
}

// `thread_bytes`: what a thread must load.
KernelCode code_of(const SassKernel& kernel, const common::CubinKernel& facts,
                   double thread_bytes) {
  KernelCode code;
  code.name = kernel.name;
  code.registers = facts.registers;
  code.local_bytes = facts.local_bytes;
  code.shared_bytes = facts.shared_bytes;
  code.load_bytes = main_width(kernel, true);
  code.store_bytes = main_width(kernel, false);
  code.in_flight_bytes = common::loads_in_flight(kernel).bytes;
  std::vector<Part> parts = parts_of(kernel);
  double loop_bytes = 0, most_bytes = 0;
  size_t last_load = 0;
  for (size_t k = 0; k < kernel.loops.size(); ++k) {
    loop_bytes += parts[k].load_bytes;
    if (parts[k].load_bytes > 0) last_load = std::max(last_load, kernel.loops[k].last);
    if (parts[k].load_bytes > most_bytes) {
      most_bytes = parts[k].load_bytes;
      code.barriers_step = parts[k].barriers;
    }
  }
  double left = std::max(0.0, thread_bytes - parts.back().load_bytes);
  for (size_t k = 0; k < parts.size(); ++k) {
    double trips = 1;
    if (k < kernel.loops.size()) {
      trips = parts[k].load_bytes > 0 ? std::max(1.0, left / loop_bytes) : kUnknownTrips;
    }
    code.instructions += parts[k].instructions * trips;
    code.tensor_instructions += parts[k].tensor * trips;
  }
  double after = 0;
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    bool in_loop = common::innermost_loop(kernel, k) >= 0;
    if (last_load > 0 && k > last_load) after += in_loop ? kUnknownTrips : 1;
    bool divides =
        kernel.code[k].kind == SassClass::kCall || kernel.code[k].kind == SassClass::kDouble;
    if (in_loop && divides) ++code.divisions_in_loops;
  }
  code.epilogue_share = code.instructions > 0 ? after / code.instructions : 0;
  return code;
}

void run_blocks(const common::Kernel& kernel, const worker::KernelSource& source,
                const std::vector<int64_t>& symbols, const std::string& preamble,
                StaticKernel& result) {
  auto value = [&](const common::Expr& x) {
    return static_cast<int64_t>(common::count_elements({x}, symbols));
  };
  emulator::AccessRun run;
  run.preamble = preamble;
  run.text = source.text;
  run.entry = source.entry.name;
  for (const auto& input : kernel.body.inputs) {
    run.buffers.push_back(
        {static_cast<uint64_t>(common::count_bytes(input.dtype, input.shape, symbols)), false});
  }
  for (const common::GraphOutput& output : kernel.body.outputs) {
    const common::Node& node = kernel.body.node(output.node);
    run.buffers.push_back(
        {static_cast<uint64_t>(common::count_bytes(node.dtype, node.shape, symbols)), true});
  }
  run.symbols = symbols;
  run.units = value(source.entry.units);
  run.blocks = static_cast<int64_t>(result.facts.blocks);
  run.threads = static_cast<unsigned>(source.entry.block.threads);
  run.shared_bytes = static_cast<unsigned>(source.entry.block.shared_bytes);
  run.scratch_stride = value(source.entry.scratch_bytes);
  emulator::AccessFigures figures = emulator::run_accesses(run);
  result.accesses_problem = figures.problem;
  if (!figures.problem.empty()) return;
  const emulator::AccessSums& sums = figures.sums;
  KernelAccesses accesses;
  if (sums.sectors_least > 0) accesses.sectors_ratio = sums.sectors / sums.sectors_least;
  if (sums.wavefronts_least > 0) accesses.shared_ratio = sums.wavefronts / sums.wavefronts_least;
  result.accesses = accesses;
}

void predict_library(const common::Kernel& kernel, const std::vector<int64_t>& symbols,
                     const common::GpuMachine& machine, StaticKernel& result) {
  double operations = 2 * coordinator::profile_kernel(kernel, symbols).contraction_ops;
  bool is_half = kernel.body.inputs[0].dtype == common::DType::kBfloat16 ||
                 kernel.body.inputs[0].dtype == common::DType::kFloat16;
  (is_half ? result.facts.tensor_operations : result.facts.single_operations) =
      operations / kLibraryShare;
  result.facts.dram_bytes /= kLibraryShare;
  result.facts.blocks = machine.processors;
}

}  // namespace

std::function<common::Result<common::Bytes>(const std::string& text)> static_compiler(
    std::shared_ptr<const common::Nvrtc> nvrtc, const std::string& arch) {
  return [nvrtc, arch](const std::string& text) -> common::Result<common::Bytes> {
    LFARM_ASSIGN_OR_RETURN(common::NvrtcOutput output,
                           nvrtc->compile(text, arch,
                                          {"--std=c++17", "--ftz=false", "--prec-div=true",
                                           "--prec-sqrt=true", "--disable-warnings"}));
    return std::move(output.cubin);
  };
}

common::Result<StaticKernel> static_kernel(const common::Kernel& kernel,
                                           const std::vector<int64_t>& symbols,
                                           const CallTraffic& traffic, const StaticTools& tools) {
  const common::GpuMachine& machine = tools.machine;
  StaticKernel result;
  result.form = kernel.form;
  result.facts.dram_bytes = traffic.bytes;
  result.floor_ns = traffic.least / machine.dram_bytes_per_ns;
  if (kernel.form == common::Template::kGemm) {
    result.name = "library";
    predict_library(kernel, symbols, machine, result);
  } else {
    LFARM_ASSIGN_OR_RETURN(worker::KernelSource source, tools.generator.generate(kernel));
    result.text = source.text;
    result.name = source.entry.name;
    std::string preamble = tools.generator.preamble();
    LFARM_ASSIGN_OR_RETURN(result.cubin, tools.compile(preamble + source.text));
    LFARM_ASSIGN_OR_RETURN(std::vector<common::CubinKernel> facts,
                           common::read_cubin(result.cubin));
    LFARM_ASSIGN_OR_RETURN(std::vector<SassKernel> codes, common::read_sass(result.cubin));
    if (facts.size() != 1 || codes.size() != 1) {
      return common::internal_error(
          common::cat(result.name, " is not the one kernel of its cubin"));
    }
    common::GpuKernelFacts& f = result.facts;
    double units = std::max(1.0, common::count_elements({source.entry.units}, symbols));
    f.block_threads = source.entry.block.threads;
    f.blocks = std::ceil(units / static_cast<double>(source.entry.block.units));
    if (tools.has_accesses) run_blocks(kernel, source, symbols, preamble, result);
    double threads = f.blocks * f.block_threads;
    result.code = code_of(codes[0], facts[0], traffic.asked / threads);
    f.registers = result.code->registers;
    f.block_shared_bytes = static_cast<double>(result.code->shared_bytes) +
                           static_cast<double>(source.entry.block.shared_bytes);
    f.in_flight_bytes = static_cast<double>(result.code->in_flight_bytes);
    f.thread_instructions = result.code->instructions * threads;
    f.tensor_operations = result.code->tensor_instructions * kTensorOperations * threads / kWarp;
    f.rounds = std::max(1.0, traffic.asked / threads / std::max(1.0, f.in_flight_bytes));
    f.sector_bytes = traffic.asked;
  }
  result.time = common::gpu_kernel_time(result.facts, machine);
  result.predicted_ns = result.time.total_ns + common::kGpuLaunchNs;
  return result;
}

}  // namespace bench
