#include "tests/bench/gpu_static/plan_traffic.h"

#include <algorithm>

#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/body_traffic.h"
#include "common/ir/llir/load_time.h"

namespace bench {
namespace {

using common::Graph;

// Of the second cache, what one temporary buffer may take and still be there when it is read.
constexpr double kCacheShare = 0.25;

size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace

PlanTraffic plan_traffic(const common::Program& program, const std::vector<int64_t>& sizes,
                         const common::GpuMachine& machine) {
  PlanTraffic traffic;
  traffic.at_load = common::load_time_calls(program);
  // What each buffer would be as the model stores it: of what is made at load its sources.
  std::vector<double> stored;
  for (const common::Buffer& buffer : program.buffers) {
    stored.push_back(common::count_bytes(buffer.dtype, buffer.shape, sizes));
  }
  std::vector<double> size = stored;
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const common::Call& call = program.calls[c];
    const Graph& body = program.kernels[at(call.kernel)].body;
    std::vector<int64_t> symbols = common::call_symbols(call, sizes);
    std::vector<double> read = common::bytes_read(body, symbols);
    std::vector<double> written = common::bytes_written(body, symbols);
    CallTraffic moved;
    double sources = 0;
    auto add = [&](int buffer, double bytes, bool is_written) {
      moved.asked += bytes;
      bool is_near = program.buffers[at(buffer)].kind == common::BufferKind::kTemporary &&
                     traffic.at_load[c] == 0 && stored[at(buffer)] == size[at(buffer)] &&
                     size[at(buffer)] <= machine.l2_bytes * kCacheShare;
      if (is_near) return;
      moved.bytes += bytes;
      if (is_written) moved.written += bytes;
      moved.least += bytes * stored[at(buffer)] / std::max(1.0, size[at(buffer)]);
    };
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      add(call.inputs[k], read[k], false);
      sources += stored[at(call.inputs[k])];
    }
    for (size_t k = 0; k < call.outputs.size(); ++k) {
      add(call.outputs[k], written[k], true);
      double& least = stored[at(call.outputs[k])];
      if (traffic.at_load[c] != 0) least = std::min(least, sources);
    }
    traffic.calls.push_back(moved);
  }
  return traffic;
}

CallTraffic lone_traffic(const Graph& body, const std::vector<int64_t>& symbols) {
  CallTraffic moved;
  for (double bytes : common::bytes_read(body, symbols)) moved.bytes += bytes;
  for (double bytes : common::bytes_written(body, symbols)) moved.written += bytes;
  moved.bytes += moved.written;
  moved.least = moved.asked = moved.bytes;
  return moved;
}

}  // namespace bench
