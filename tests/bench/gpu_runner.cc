#include "tests/bench/gpu_runner.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/runtime/device/cuda_device.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "worker/codegen/cuda/cuda.h"
#include "worker/compile/nvrtc_child.h"
#include "worker/compile/nvrtc_compiler.h"

namespace bench {
namespace {

using common::DeviceMemory;
using common::DType;
using common::Result;
using common::Status;

constexpr int kCompileMsMax = 300'000;
constexpr int kWarmUps = 2;
// Slow work is repeated less often, but this often at least.
constexpr int64_t kTimeMaxNs = 2'000'000'000;
constexpr int kRunsMin = 3;
// Random bytes are made on the host for this much memory, which is then repeated.
constexpr size_t kRandomBytes = size_t{4} << 20;

size_t bytes_of(DType dtype, const common::Shape& shape) {
  int64_t elements = 1;
  for (const common::Expr& size : shape) elements *= size.constant();
  return static_cast<size_t>(elements * common::dtype_size(dtype));
}

// What a variant became.
struct Candidate {
  Variant variant;
  worker::KernelSource source;
};

}  // namespace

std::string name_of(const Variant& variant) {
  std::string name(common::template_name(variant.form));
  for (const common::ScheduleParameter& p : variant.schedule) {
    name += common::cat(" ", p.name, "=", p.value);
  }
  return name;
}

GpuRunner::GpuRunner(std::unique_ptr<common::Device> device,
                     std::shared_ptr<const worker::Compiler> compiler, int runs)
    : device_(std::move(device)),
      compiler_(std::move(compiler)),
      timer_(device_->make_timer(2)),
      runs_(runs) {}

Result<std::unique_ptr<GpuRunner>> GpuRunner::open(int runs) {
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_cuda_device());
  LFARM_ASSIGN_OR_RETURN(
      auto compiler, worker::find_nvrtc_compiler(device->target(),
                                                 {"/proc/self/exe", worker::kNvrtcChildFlag}, 1));
  return std::unique_ptr<GpuRunner>(new GpuRunner(std::move(device), std::move(compiler), runs));
}

Result<DeviceMemory> GpuRunner::random_memory(DType dtype, size_t bytes) {
  LFARM_ASSIGN_OR_RETURN(DeviceMemory memory, device_->allocate(bytes));
  common::Random random(bytes);
  common::Bytes host(std::min(bytes, kRandomBytes));
  const auto width = static_cast<size_t>(common::dtype_size(dtype));
  for (size_t at = 0; at + width <= host.size(); at += width) {
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(2 * random.unit() - 1));
    // A bfloat16 is the upper half of a float32.
    if (dtype == DType::kBfloat16) bits >>= 16;
    std::memcpy(host.data() + at, &bits, std::min(width, sizeof bits));
  }
  LFARM_RETURN_IF_ERROR(device_->copy_in(memory.data(), host));
  for (size_t filled = host.size(); filled < bytes; filled *= 2) {
    LFARM_RETURN_IF_ERROR(
        device_->copy(memory.data() + filled, memory.data(), std::min(filled, bytes - filled)));
  }
  LFARM_RETURN_IF_ERROR(device_->synchronise());
  return memory;
}

Result<double> GpuRunner::median_us(const std::function<Status()>& work) {
  common::SteadyClock clock;
  for (int k = 0; k < kWarmUps; ++k) LFARM_RETURN_IF_ERROR(work());
  LFARM_RETURN_IF_ERROR(device_->synchronise());
  std::vector<int64_t> times;
  int64_t start = clock.now_ns();
  for (int k = 0; k < runs_ && (k < kRunsMin || clock.now_ns() - start < kTimeMaxNs); ++k) {
    LFARM_RETURN_IF_ERROR(device_->flush_caches());
    timer_->mark();
    LFARM_RETURN_IF_ERROR(work());
    timer_->mark();
    LFARM_ASSIGN_OR_RETURN(auto intervals, timer_->take_intervals_ns());
    times.push_back(intervals.at(0));
  }
  auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(*middle) * 1e-3;
}

Result<double> GpuRunner::time_copy(size_t bytes) {
  LFARM_ASSIGN_OR_RETURN(DeviceMemory from, random_memory(DType::kFloat32, bytes));
  LFARM_ASSIGN_OR_RETURN(DeviceMemory to, device_->allocate(bytes));
  return median_us([&] { return device_->copy(to.data(), from.data(), bytes); });
}

Result<std::vector<TimedVariant>> GpuRunner::time(const common::Graph& body,
                                                  const std::vector<Variant>& variants) {
  worker::CudaCodeGenerator generator(device_->target());
  std::vector<Candidate> candidates;
  std::string text = generator.preamble();
  common::Graph canonical = common::canonical(body);
  std::string refused = "no variant";
  for (const Variant& variant : variants) {
    common::Kernel kernel{variant.form, variant.schedule, canonical, {}};
    common::Status nest = common::add_nest(
        kernel, {common::machine_of(device_->target()), device_->target().name, {}});
    auto source = nest.ok() ? generator.generate(kernel) : nest.error();
    if (!source.ok() && source.error().code != common::Code::kUnsupported) return source.error();
    if (!source.ok()) {
      refused = source.error().message;
      continue;
    }
    text += source->text;
    candidates.push_back({variant, std::move(*source)});
  }
  if (candidates.empty()) return common::unsupported(refused);
  LFARM_ASSIGN_OR_RETURN(common::Bytes object, compiler_->compile(text, kCompileMsMax));
  LFARM_ASSIGN_OR_RETURN(auto module, device_->load(common::digest_of(object), object));

  std::vector<DeviceMemory> memory;
  for (const common::GraphInput& input : canonical.inputs) {
    LFARM_ASSIGN_OR_RETURN(DeviceMemory piece,
                           random_memory(input.dtype, bytes_of(input.dtype, input.shape)));
    memory.push_back(std::move(piece));
  }
  for (const common::GraphOutput& output : canonical.outputs) {
    const common::Node& node = canonical.node(output.node);
    LFARM_ASSIGN_OR_RETURN(DeviceMemory piece, device_->allocate(bytes_of(node.dtype, node.shape)));
    memory.push_back(std::move(piece));
  }
  std::vector<void*> buffers;
  for (const DeviceMemory& piece : memory) buffers.push_back(piece.data());

  std::vector<TimedVariant> timed;
  for (const Candidate& candidate : candidates) {
    const common::EntryPoint& entry = candidate.source.entry;
    common::Launch launch;
    LFARM_ASSIGN_OR_RETURN(launch.function, module->entry(entry.name));
    launch.buffers = buffers;
    LFARM_ASSIGN_OR_RETURN(std::vector<common::BoundTensorMap> maps,
                           common::bind_tensor_maps(entry.maps, {}, [&](int input) {
                             return static_cast<int64_t>(memory[static_cast<size_t>(input)].size());
                           }));
    launch.maps = maps;
    launch.units = entry.units.constant();
    launch.block = entry.block;
    launch.scratch_stride = static_cast<size_t>(entry.scratch_bytes.constant());
    auto blocks = static_cast<size_t>(launch.block.blocks(launch.units));
    // Counters lie in front of the blocks' areas.
    const size_t front = (blocks * common::kCounterBytes + 255) / 256 * 256;
    LFARM_ASSIGN_OR_RETURN(DeviceMemory scratch,
                           device_->allocate(front + launch.scratch_stride * blocks));
    LFARM_RETURN_IF_ERROR(device_->fill(scratch.data(), std::byte{0}, front));
    launch.scratch = scratch.data() + front;
    auto us = median_us([&] { return device_->launch(launch); });
    // The device has the last word on shared memory and blocks.
    if (!us.ok() && us.error().code == common::Code::kUnsupported) {
      refused = us.error().message;
      continue;
    }
    if (!us.ok()) {
      return common::Error{us.error().code,
                           common::cat(name_of(candidate.variant), ": ", us.error().message)};
    }
    timed.push_back({candidate.variant, *us});
  }
  if (timed.empty()) return common::unsupported(refused);
  return timed;
}

Result<std::optional<double>> GpuRunner::time_library(const common::GemmSizes& sizes) {
  if (!device_->has_gemm()) return std::optional<double>();
  const auto width = static_cast<size_t>(common::dtype_size(sizes.dtype));
  auto elements = [&](int64_t rows, int64_t columns) {
    return static_cast<size_t>(sizes.batch * rows * columns) * width;
  };
  LFARM_ASSIGN_OR_RETURN(DeviceMemory a, random_memory(sizes.dtype, elements(sizes.m, sizes.k)));
  LFARM_ASSIGN_OR_RETURN(DeviceMemory b, random_memory(sizes.dtype, elements(sizes.k, sizes.n)));
  LFARM_ASSIGN_OR_RETURN(DeviceMemory out, device_->allocate(elements(sizes.m, sizes.n)));
  LFARM_ASSIGN_OR_RETURN(
      double us, median_us([&] { return device_->gemm(sizes, a.data(), b.data(), out.data()); }));
  return std::optional<double>(us);
}

}  // namespace bench
