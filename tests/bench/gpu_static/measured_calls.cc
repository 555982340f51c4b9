#include "tests/bench/gpu_static/measured_calls.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/hlir/sizes.h"
#include "common/runtime/machine_class.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"
#include "worker/profile/device_lock.h"
#include "worker/profile/measure.h"

namespace bench {
namespace {

using common::HostTensor;
using common::Result;
using common::Status;

// At most this many elements of a weight are random numbers; the rest of the weight repeats them.
constexpr int64_t kDrawnMax = 2'000'000;
constexpr uint64_t kSeed = 0;

// The same graph with fewer rows in its large weights. The values that are drawn for a weight
// depend on the length of its rows, not on their number.
common::Graph with_fewer_rows(common::Graph graph, const std::vector<int64_t>& sizes) {
  for (common::GraphInput& input : graph.inputs) {
    const auto elements = static_cast<int64_t>(common::count_elements(input.shape, sizes));
    if (input.kind != common::InputKind::kWeight || elements <= kDrawnMax) continue;
    const int64_t rows = input.shape[0].evaluate(sizes);
    input.shape[0] = common::Expr(std::max<int64_t>(1, kDrawnMax / (elements / rows)));
  }
  return graph;
}

// Device memory of `bytes`, filled with repetitions of the sample.
Result<common::DeviceMemory> repeated(common::Device& device, const HostTensor& sample,
                                      size_t bytes) {
  LFARM_ASSIGN_OR_RETURN(common::DeviceMemory memory, device.allocate(std::max<size_t>(1, bytes)));
  size_t filled = std::min(sample.bytes().size(), bytes);
  LFARM_RETURN_IF_ERROR(device.copy_in(memory.data(), sample.bytes().first(filled)));
  for (; filled < bytes; filled *= 2) {
    LFARM_RETURN_IF_ERROR(
        device.copy(memory.data() + filled, memory.data(), std::min(filled, bytes - filled)));
  }
  LFARM_RETURN_IF_ERROR(device.synchronise());
  return memory;
}

// The memory that an executor was bound to, which must live as long as its runs.
struct BoundInputs {
  std::vector<common::DeviceMemory> weights;
  std::vector<HostTensor> user;
};

Result<BoundInputs> bind_random(common::Device& device, const common::Graph& graph,
                                const std::vector<int64_t>& sizes, common::Executor& executor) {
  LFARM_ASSIGN_OR_RETURN(auto samples,
                         common::synthetic_inputs(with_fewer_rows(graph, sizes), sizes, kSeed,
                                                  common::InputPattern::kNormal));
  BoundInputs bound;
  for (size_t k = 0; k < graph.inputs.size(); ++k) {
    const common::GraphInput& input = graph.inputs[k];
    const int position = static_cast<int>(k);
    if (input.kind == common::InputKind::kUser) {
      bound.user.push_back(samples[k]);
      continue;
    }
    if (input.kind == common::InputKind::kState) {
      LFARM_RETURN_IF_ERROR(executor.set_state(position, samples[k]));
      continue;
    }
    std::vector<int64_t> shape = common::evaluate_shape(input.shape, sizes);
    common::TensorRef weight{input.dtype, shape};
    weight.bytes = static_cast<size_t>(common::count_bytes(input.dtype, input.shape, sizes));
    LFARM_ASSIGN_OR_RETURN(auto memory, repeated(device, samples[k], weight.bytes));
    weight.data = memory.data();
    weight.on_device = true;
    LFARM_RETURN_IF_ERROR(executor.bind_weight(position, weight));
    bound.weights.push_back(std::move(memory));
  }
  LFARM_RETURN_IF_ERROR(executor.prepare());
  return bound;
}

}  // namespace

Result<std::unique_ptr<GpuPlans>> open_gpu(const common::Target& target) {
  LFARM_ASSIGN_OR_RETURN(auto plans, GpuPlans::open());
  if (plans->target() == target) return plans;
  return common::invalid_input(common::cat("this machine's GPU runs ", plans->target().name,
                                           " and the plan is for ", target.name,
                                           "; give that --target"));
}

Result<MeasuredCalls> measure_calls(GpuPlans& plans, const common::Graph& graph,
                                    common::Program program, const std::vector<int64_t>& sizes,
                                    const common::MeasureOptions& options) {
  common::ExecutorOptions cold;
  cold.cold_caches = true;
  LFARM_ASSIGN_OR_RETURN(auto executor, plans.load(std::move(program), cold));
  LFARM_ASSIGN_OR_RETURN(BoundInputs bound, bind_random(plans.device(), graph, sizes, *executor));
  worker::DeviceLock alone(common::cat("cuda", plans.device().hardware_id()));
  LFARM_ASSIGN_OR_RETURN(worker::Measurement measured,
                         worker::measure(*executor, bound.user, options));
  MeasuredCalls result;
  result.device = common::machine_class_of("cuda", 1, plans.device().ordinal());
  result.total_us = static_cast<double>(measured.total_ns) * 1e-3;
  result.spread_us = static_cast<double>(measured.spread_ns) * 1e-3;
  result.prepare_us = static_cast<double>(executor->prepare_ns()) * 1e-3;
  for (uint64_t ns : measured.call_ns) result.call_us.push_back(static_cast<double>(ns) * 1e-3);
  return result;
}

}  // namespace bench
