#include "tests/bench/gpu_static/static_kernel.h"

#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/cost/kernels/kernel_profile.h"
#include "common/cuda/cubin.h"
#include "common/cuda/sass.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/body_traffic.h"
#include "common/ir/llir/horizontal.h"
#include "common/ir/llir/in_place.h"
#include "tests/bench/gpu_static/steering_values.h"
#include "tests/emulator/accesses/access_run.h"

namespace bench {
namespace {

// Of a library: the share of the machine's rates that its products reach.
constexpr double kLibraryShare = 0.75;
// Multiplications and additions of one tensor instruction of a warp, m16n8k16.
constexpr double kTensorOperations = 16 * 8 * 16 * 2;
constexpr double kWarp = 32, kWarpgroup = 128;
constexpr double kSectorBytes = 32, kWavefrontBytes = 128;

emulator::AccessRun::Map encoded_map(const common::GraphInput& input, const common::TensorMap& map,
                                     const std::vector<int64_t>& symbols) {
  const int64_t width = common::dtype_size(map.dtype);
  auto elements =
      static_cast<int64_t>(common::count_bytes(input.dtype, input.shape, symbols)) / width;
  const common::TensorMapSizes sizes = common::evaluate(map, symbols, elements).value();
  emulator::AccessRun::Map made;
  made.buffer = static_cast<size_t>(map.input);
  emulator::EncodedMap& encoded = made.encoded;
  encoded.magic = emulator::EncodedMap::kMagic;
  encoded.address = static_cast<uint64_t>(sizes.offset * width);
  encoded.rank = static_cast<uint32_t>(sizes.rank);
  encoded.element_bytes = static_cast<uint32_t>(width);
  encoded.swizzle_bytes = static_cast<uint32_t>(sizes.swizzle_bytes);
  for (size_t k = 0; k < sizes.rank; ++k) {
    encoded.sizes[k] = static_cast<uint64_t>(sizes.dimensions[k].size);
    const common::TensorMapSizes::Dimension& d = sizes.dimensions[k];
    encoded.box[k] = static_cast<uint16_t>(d.box);
    if (k == 0) continue;
    encoded.strides[k - 1] = static_cast<uint64_t>(d.stride * width);
    if (d.step == 0) continue;
    encoded.steps[k - 1] = static_cast<uint8_t>(d.step);
    encoded.lower[k - 1] = static_cast<int16_t>(d.lower);
    encoded.upper[k - 1] = static_cast<int16_t>(d.upper);
  }
  return made;
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
  const std::vector<int> bases = common::in_place_inputs(kernel);
  for (size_t k = 0; k < bases.size(); ++k) {
    if (bases[k] < 0) continue;
    run.buffers[static_cast<size_t>(bases[k])].is_written = true;
    run.buffers[kernel.body.inputs.size() + k].same_as = bases[k];
  }
  for (auto& [k, bytes] : steering_values(kernel.body, symbols)) {
    run.buffers[k].first = std::move(bytes);
  }
  run.symbols = symbols;
  for (const common::TensorMap& map : source.entry.maps) {
    run.maps.push_back(
        encoded_map(kernel.body.inputs[static_cast<size_t>(map.input)], map, symbols));
  }
  run.units = value(source.entry.units);
  run.blocks = static_cast<int64_t>(result.facts.blocks);
  run.threads = static_cast<unsigned>(source.entry.block.threads);
  run.shared_bytes = static_cast<unsigned>(source.entry.block.shared_bytes);
  run.scratch_stride = value(source.entry.scratch_bytes);
  emulator::AccessFigures figures = emulator::run_accesses(run);
  result.accesses_problem = figures.problem;
  if (!figures.problem.empty()) return;
  const emulator::AccessSums& sums = figures.sums;
  auto blocks = static_cast<double>(figures.blocks);
  KernelAccesses accesses;
  accesses.is_whole = figures.is_whole;
  for (size_t width = 0; width < sums.load_bytes.size(); ++width) {
    accesses.load_bytes += sums.load_bytes[width] / blocks;
    if (width >= 5) continue;
    accesses.loads_by_width[width] = sums.load_bytes[width] / blocks;
    accesses.longest_loads_by_width[width] = figures.longest.load_bytes[width];
  }
  accesses.longest_load_bytes = figures.longest_load_bytes;
  accesses.store_bytes = sums.store_bytes / blocks;
  accesses.shared_load_bytes = sums.shared_load_bytes / blocks;
  accesses.sector_bytes = sums.sectors * kSectorBytes / blocks;
  accesses.wavefront_bytes = sums.wavefronts * kWavefrontBytes / blocks;
  accesses.products = sums.products / blocks;
  accesses.product_operations = sums.product_operations / blocks;
  accesses.boxes = sums.boxes / blocks;
  accesses.box_bytes = sums.box_bytes / blocks;
  accesses.box_bytes_under_way = figures.box_bytes_under_way;
  accesses.warpgroups = figures.warpgroups;
  if (sums.sectors_least > 0) accesses.sectors_ratio = sums.sectors / sums.sectors_least;
  if (sums.wavefronts_least > 0) accesses.shared_ratio = sums.wavefronts / sums.wavefronts_least;
  result.accesses = accesses;
}

void predict_library(const common::Kernel& kernel, const common::GpuMachine& machine,
                     StaticKernel& result) {
  bool is_half = kernel.body.inputs[0].dtype == common::DType::kBfloat16 ||
                 kernel.body.inputs[0].dtype == common::DType::kFloat16;
  (is_half ? result.facts.warpgroup_operations : result.facts.single_operations) =
      result.products / kLibraryShare;
  result.facts.dram_bytes /= kLibraryShare;
  result.facts.blocks = machine.processors;
}

// What the engine saw of a block's warpgroups and of the copy engine.
void add_products(const KernelAccesses& seen, const common::GpuMachine& machine,
                  ThreadTraffic& thread) {
  if (seen.products == 0) return;
  const double groups = seen.warpgroups;
  thread.products = seen.products / groups;
  // All warpgroups of the block take the processor's tensor cores in turn.
  double processor_rate = machine.half_tensor_per_ns / machine.processors / machine.clock_ghz;
  thread.product_clocks = seen.product_operations / seen.products * groups / processor_rate;
  if (seen.boxes == 0) return;
  thread.boxes = seen.boxes;
  thread.box_bytes = seen.box_bytes / seen.boxes;
}

// What the formula asks for, of the code and, where they were seen, of the accesses.
void find_facts(const CallTraffic& traffic, double block_shared_bytes, StaticKernel& result) {
  common::GpuKernelFacts& f = result.facts;
  const KernelCode& code = *result.code;
  const bool is_seen = result.accesses && result.accesses->is_whole;
  double threads = f.blocks * f.block_threads;
  f.registers = code.registers;
  f.block_shared_bytes = static_cast<double>(code.shared_bytes) + block_shared_bytes;
  f.in_flight_bytes = static_cast<double>(code.in_flight_bytes);
  // Boxes that nobody saw are taken to fill shared memory.
  if (code.has_warpgroups && !is_seen) f.in_flight_bytes += f.block_shared_bytes / f.block_threads;
  f.in_flight_bytes = std::max(1.0, f.in_flight_bytes);
  f.thread_instructions = code.instructions * threads;
  // One thread of a warpgroup that only copies does next to nothing, the others nothing.
  if (is_seen && code.copier_instructions > 0) {
    f.thread_instructions =
        f.blocks * (code.instructions * result.accesses->warpgroups * kWarpgroup +
                    code.copier_instructions * kWarp);
  } else if (is_seen && result.accesses->boxes > 0) {
    const double groups = std::floor(f.block_threads / kWarpgroup);
    f.thread_instructions *= std::min(1.0, result.accesses->warpgroups / groups);
  }
  if (code.tensor_instructions > 0) {
    double counted = code.tensor_instructions * kTensorOperations * threads / kWarp;
    if (code.has_warpgroups) {
      counted = is_seen ? result.accesses->product_operations * f.blocks : 0;
      f.warpgroup_operations = std::max(result.products, counted);
    } else {
      f.tensor_operations = std::max(result.products, counted);
    }
  }
  f.wait_clocks = code.warp_clocks;
  f.longest_wait_clocks = code.longest_warp_clocks;
  f.sector_bytes = is_seen ? result.accesses->sector_bytes * f.blocks : traffic.asked;
  if (is_seen) f.shared_bytes_moved = result.accesses->wavefront_bytes * f.blocks;
}

common::Status judge_generated(const common::Kernel& kernel, const std::vector<int64_t>& symbols,
                               const CallTraffic& traffic, const StaticTools& tools,
                               StaticKernel& result) {
  LFARM_ASSIGN_OR_RETURN(worker::KernelSource source, tools.generator.generate(kernel));
  result.name = source.entry.name;
  std::string preamble = tools.generator.preamble();
  result.text = preamble + source.text;
  LFARM_ASSIGN_OR_RETURN(result.cubin, tools.compile(result.text));
  LFARM_ASSIGN_OR_RETURN(std::vector<common::CubinKernel> facts, common::read_cubin(result.cubin));
  LFARM_ASSIGN_OR_RETURN(std::vector<common::SassKernel> codes, common::read_sass(result.cubin));
  if (facts.size() != 1 || codes.size() != 1) {
    return common::internal_error(common::cat(result.name, " is not the one kernel of its cubin"));
  }
  common::GpuKernelFacts& f = result.facts;
  double units = std::max(1.0, common::count_elements({source.entry.units}, symbols));
  f.block_threads = source.entry.block.threads;
  f.blocks = std::ceil(units / static_cast<double>(source.entry.block.units));
  bool is_one = kernel.form != common::Template::kHorizontal;
  if (tools.has_accesses && is_one) run_blocks(kernel, source, symbols, preamble, result);
  ThreadTraffic thread;
  thread.loads = traffic.asked / (f.blocks * f.block_threads);
  if (result.accesses && result.accesses->is_whole) {
    thread.loads = result.accesses->load_bytes / f.block_threads;
    // A launch ends with its longest block, which may load what others left.
    thread.longest_loads = result.accesses->longest_load_bytes / f.block_threads;
    thread.loads_by_width = result.accesses->loads_by_width;
    thread.longest_loads_by_width = result.accesses->longest_loads_by_width;
    for (auto* widths : {&*thread.loads_by_width, &*thread.longest_loads_by_width}) {
      for (double& bytes : *widths) bytes /= f.block_threads;
    }
    thread.stores = result.accesses->store_bytes / f.block_threads;
    thread.shared_loads = result.accesses->shared_load_bytes / f.block_threads;
    thread.boxes_under_way = result.accesses->box_bytes_under_way / f.block_threads;
    add_products(*result.accesses, tools.machine, thread);
  }
  result.code = kernel_code(codes[0], facts[0], thread);
  find_facts(traffic, static_cast<double>(source.entry.block.shared_bytes), result);
  f.block_prefetch_bytes = static_cast<double>(source.prefetch_bytes);
  return {};
}

// A launch of several parts does what they do. Each is judged as a kernel by itself, with its share
// of the traffic, because one block in the middle says nothing of the others.
common::Status judge_parts(const common::Kernel& kernel, const std::vector<int64_t>& symbols,
                           const CallTraffic& traffic, const StaticTools& tools,
                           StaticKernel& result) {
  std::vector<double> bytes;
  double all_bytes = 0;
  const auto parts = common::horizontal_parts(kernel.body);
  for (size_t k = 0; k < parts.size(); ++k) {
    common::Graph body = common::horizontal_part(kernel, parts, k).body;
    bytes.push_back(0);
    for (double read : common::bytes_read(body, symbols)) bytes.back() += read;
    for (double written : common::bytes_written(body, symbols)) bytes.back() += written;
    all_bytes += bytes.back();
  }
  common::GpuKernelFacts facts;
  double sectors = 0, sectors_least = 0, wavefronts = 0, wavefronts_least = 0;
  for (size_t k = 0; k < bytes.size(); ++k) {
    double share = bytes[k] / std::max(1.0, all_bytes);
    CallTraffic own{traffic.bytes * share, traffic.least * share, traffic.asked * share,
                    traffic.written * share};
    LFARM_ASSIGN_OR_RETURN(
        StaticKernel part,
        static_kernel(common::horizontal_part(kernel, parts, k), symbols, own, tools));
    facts = k == 0 ? part.facts : common::one_launch(facts, part.facts);
    if (!part.accesses) continue;
    const KernelAccesses& seen = *part.accesses;
    if (seen.sectors_ratio > 0) {
      sectors += seen.sector_bytes * part.facts.blocks;
      sectors_least += seen.sector_bytes * part.facts.blocks / seen.sectors_ratio;
    }
    if (seen.shared_ratio > 0) {
      wavefronts += seen.wavefront_bytes * part.facts.blocks;
      wavefronts_least += seen.wavefront_bytes * part.facts.blocks / seen.shared_ratio;
    }
  }
  facts.registers = result.facts.registers;
  result.facts = facts;
  if (tools.has_accesses) {
    result.accesses.emplace();
    if (sectors_least > 0) result.accesses->sectors_ratio = sectors / sectors_least;
    if (wavefronts_least > 0) result.accesses->shared_ratio = wavefronts / wavefronts_least;
  }
  return {};
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
  result.facts.written_bytes = traffic.written;
  result.asked_bytes = traffic.asked;
  common::KernelProfile profile = common::profile_kernel(kernel, symbols);
  result.products = 2 * profile.contraction_ops;
  result.operations = result.products + profile.simple_ops + profile.row_ops + profile.hard_ops;
  result.floor_ns = std::max(traffic.least / machine.dram_bytes_per_ns,
                             result.products / machine.half_tensor_per_ns);
  if (kernel.form == common::Template::kGemm) {
    result.name = "library";
    predict_library(kernel, machine, result);
  } else {
    LFARM_RETURN_IF_ERROR(judge_generated(kernel, symbols, traffic, tools, result));
  }
  if (kernel.form == common::Template::kHorizontal) {
    LFARM_RETURN_IF_ERROR(judge_parts(kernel, symbols, traffic, tools, result));
  }
  result.time = common::gpu_kernel_time(result.facts, machine);
  result.waves = result.facts.blocks / (machine.processors * result.time.resident_blocks);
  result.predicted_ns = result.time.total_ns + result.time.launch_ns;
  return result;
}

}  // namespace bench
