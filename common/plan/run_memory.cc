#include "common/plan/run_memory.h"

#include <algorithm>
#include <map>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/in_place.h"
#include "common/text/units.h"

namespace common {
namespace {

size_t aligned(double bytes) {
  auto whole = static_cast<size_t>(bytes);
  return (whole + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

Plan plan_of_buffers(const Program& program) {
  Plan plan;
  plan.symbols = program.symbols;
  plan.inputs = program.inputs;
  plan.outputs = program.outputs;
  plan.buffers = program.buffers;
  plan.calls = program.calls;
  for (const Kernel& kernel : program.kernels) {
    PlanKernel& entry = plan.kernels.emplace_back();
    entry.library = kernel.form == Template::kGemm;
    if (!entry.library) entry.in_place_inputs = in_place_inputs(kernel);
  }
  return plan;
}

size_t RunLiveness::most() const {
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

size_t RunLiveness::peak_call() const {
  return static_cast<size_t>(std::max_element(live.begin(), live.end()) - live.begin());
}

size_t RunLiveness::arena_bytes() const {
  std::vector<LiveBlock> blocks;
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (is_in_arena(b)) blocks.push_back({bytes[b], lifetimes.first[b], lifetimes.last[b]});
  }
  return plan_arena(blocks, kArenaAlignment).bytes;
}

RunLiveness run_liveness(const Plan& plan, const std::vector<int64_t>& symbols) {
  RunLiveness result;
  result.lifetimes = buffer_lifetimes(plan);
  for (const Buffer& buffer : plan.buffers) {
    result.bytes.push_back(aligned(count_bytes(buffer.dtype, buffer.shape, symbols)));
  }
  std::vector<size_t> enter(plan.calls.size() + 1, 0), leave(plan.calls.size() + 1, 0);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (!result.is_in_arena(b)) continue;
    enter[at(result.lifetimes.first[b])] += result.bytes[b];
    leave[at(result.lifetimes.last[b]) + 1] += result.bytes[b];
  }
  size_t live = 0;
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    live = live + enter[c] - leave[c];
    result.live.push_back(live);
  }
  return result;
}

size_t scratch_bytes(const Plan& plan, const std::vector<int64_t>& symbols, int threads) {
  size_t most = 0;
  for (const Call& call : plan.calls) {
    const PlanKernel& kernel = plan.kernels[at(call.kernel)];
    if (kernel.library) continue;
    std::vector<int64_t> own;
    for (const Expr& symbol : call.symbols) own.push_back(symbol.evaluate(symbols));
    size_t area = aligned(static_cast<double>(kernel.entry.scratch_bytes.evaluate(own)));
    auto areas = static_cast<size_t>(threads);
    if (kernel.entry.block.threads != 0) {
      areas = static_cast<size_t>(kernel.entry.block.blocks(kernel.entry.units.evaluate(own)));
    }
    most = std::max(most, area * areas);
  }
  return most;
}

std::vector<int> repeated_calls(const std::vector<Call>& calls, size_t buffers) {
  std::vector<int> value(buffers);  // the first buffer that holds the same
  for (size_t b = 0; b < buffers; ++b) value[b] = static_cast<int>(b);
  std::map<std::string, int> known;
  std::vector<int> repeated;
  for (size_t c = 0; c < calls.size(); ++c) {
    const Call& call = calls[c];
    std::string key = cat(call.kernel, ":", shape_text(call.symbols));
    for (int id : call.inputs) key += cat(" ", value[at(id)]);
    auto [it, is_new] = known.emplace(std::move(key), static_cast<int>(c));
    repeated.push_back(is_new ? -1 : it->second);
    if (is_new) continue;
    const Call& first = calls[at(it->second)];
    for (size_t k = 0; k < call.outputs.size(); ++k) {
      value[at(call.outputs[k])] = value[at(first.outputs[k])];
    }
  }
  return repeated;
}

std::string memory_text(const Plan& plan) {
  std::vector<int64_t> sizes = representative_sizes(plan.symbols);
  size_t arena = run_liveness(plan, sizes).arena_bytes();
  bool has_blocks = std::any_of(plan.kernels.begin(), plan.kernels.end(),
                                [](const auto& kernel) { return kernel.entry.block.threads != 0; });
  std::vector<int> repeated = repeated_calls(plan.calls, plan.buffers.size());
  auto count =
      std::count_if(repeated.begin(), repeated.end(), [](int first) { return first >= 0; });
  std::string text = cat(bytes_text(static_cast<double>(arena)), " between kernels, ",
                         bytes_text(static_cast<double>(scratch_bytes(plan, sizes, 1))),
                         " of scratch", has_blocks ? "" : " a thread");
  if (count > 0) text += cat("; ", count, " of ", repeated.size(), " calls repeat earlier ones");
  return text;
}

}  // namespace common
