#include "common/plan/arena.h"

#include <algorithm>
#include <numeric>

#include "common/ir/expr/index.h"
#include "common/ir/llir/load_time.h"
#include "common/plan/memory_gaps.h"

namespace common {
namespace {

// Facts about a plan's buffers that decide what may work in place.
struct Uses {
  std::vector<int> writer;     // the call that writes each buffer, -1 for inputs
  std::vector<int> last_read;  // the last call that reads each buffer's memory, -1 for none
  std::vector<char> at_load;   // of each call
  std::vector<char> in_runs;   // of each buffer: calls of every run read it

  explicit Uses(const Plan& plan)
      : writer(plan.buffers.size(), -1),
        last_read(plan.buffers.size(), -1),
        at_load(load_time_calls(plan)),
        in_runs(plan.buffers.size(), 0) {
    std::vector<int> input_last(plan.inputs.size(), -1);
    for (size_t c = 0; c < plan.calls.size(); ++c) {
      for (int id : plan.calls[c].outputs) writer[at(id)] = static_cast<int>(c);
      for (int id : plan.calls[c].inputs) {
        last_read[at(id)] = static_cast<int>(c);
        if (!at_load[c]) in_runs[at(id)] = 1;
        const Buffer& buffer = plan.buffers[at(id)];
        if (buffer.kind == BufferKind::kInput) {
          input_last[at(buffer.position)] = static_cast<int>(c);
        }
      }
    }
    for (size_t b = 0; b < plan.buffers.size(); ++b) {  // several buffers may name one input
      const Buffer& buffer = plan.buffers[b];
      if (buffer.kind == BufferKind::kInput) last_read[b] = input_last[at(buffer.position)];
    }
  }
};

// The input buffer that the call's output may overwrite, or -1: nothing reads it afterwards, and
// the call reads it through that one operand only.
int overwritten_by(const Plan& plan, const Uses& uses, int call_index, int output) {
  const Call& call = plan.calls[at(call_index)];
  const PlanKernel& kernel = plan.kernels[at(call.kernel)];
  auto place = static_cast<size_t>(std::find(call.outputs.begin(), call.outputs.end(), output) -
                                   call.outputs.begin());
  if (kernel.library || place >= kernel.in_place_inputs.size()) return -1;
  int input = kernel.in_place_inputs[place];
  if (input < 0) return -1;
  int base = call.inputs[at(input)];
  const Buffer& from = plan.buffers[at(base)];
  const Buffer& to = plan.buffers[at(output)];
  auto same_memory = [&](int other) {
    const Buffer& buffer = plan.buffers[at(other)];
    return other == base || (from.kind == BufferKind::kInput && buffer.kind == from.kind &&
                             buffer.position == from.position);
  };
  bool sole_operand = std::count_if(call.inputs.begin(), call.inputs.end(), same_memory) == 1;
  bool fits = from.dtype == to.dtype && from.shape == to.shape;
  // What was made at load is needed in every run that reads it, wherever in the plan that is.
  if (int made = uses.writer[at(base)]; made >= 0 && uses.at_load[at(made)]) {
    fits = fits && !uses.in_runs[at(base)];
  }
  return sole_operand && fits && uses.last_read[at(base)] == call_index ? base : -1;
}

// The chain of buffers from a state's new content back to its old one, when every step works in
// place; else empty.
std::vector<int> state_chain(const Plan& plan, const Uses& uses, int output, int state_position) {
  std::vector<int> chain = {output};
  while (true) {
    int base = overwritten_by(plan, uses, uses.writer[at(chain.back())], chain.back());
    if (base < 0) return {};
    chain.push_back(base);
    const Buffer& buffer = plan.buffers[at(base)];
    if (buffer.kind == BufferKind::kInput) {
      bool is_state = plan.inputs[at(buffer.position)].kind == InputKind::kState;
      return is_state && buffer.position == state_position ? chain : std::vector<int>{};
    }
    if (buffer.kind == BufferKind::kOutput) return {};
  }
}

void share_state_memory(const Plan& plan, const Uses& uses, std::vector<int>& storage) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.kind != BufferKind::kOutput || uses.writer[b] < 0) continue;
    const GraphOutput& output = plan.outputs[at(buffer.position)];
    if (output.kind != OutputKind::kMutate) continue;
    std::vector<int> chain = state_chain(plan, uses, static_cast<int>(b), output.input);
    for (int id : chain) storage[at(id)] = chain.back();
  }
}

void share_temporary_memory(const Plan& plan, const Uses& uses, std::vector<int>& storage) {
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    for (int output : plan.calls[c].outputs) {
      int base = overwritten_by(plan, uses, static_cast<int>(c), output);
      if (base < 0 || plan.buffers[at(base)].kind != BufferKind::kTemporary) continue;
      int root = storage[at(base)];
      bool root_is_temporary = plan.buffers[at(root)].kind == BufferKind::kTemporary;
      if (storage[at(output)] != output || !root_is_temporary) continue;
      if (plan.buffers[at(output)].kind == BufferKind::kTemporary) {
        storage[at(output)] = root;
      } else {
        std::replace(storage.begin(), storage.end(), root, output);
      }
    }
  }
}

// Places blocks in the given order, each into the smallest gap between those live with it.
ArenaLayout place(std::span<const LiveBlock> blocks, const std::vector<size_t>& order,
                  size_t alignment) {
  ArenaLayout layout;
  layout.offsets.assign(blocks.size(), 0);
  std::vector<size_t> done;
  std::vector<ByteRange> busy;
  for (size_t index : order) {
    const LiveBlock& block = blocks[index];
    size_t need = round_up(block.bytes, alignment);
    busy.clear();
    for (size_t other : done) {
      if (blocks[other].first <= block.last && block.first <= blocks[other].last) {
        busy.push_back({layout.offsets[other], layout.offsets[other] + blocks[other].bytes});
      }
    }
    layout.offsets[index] = smallest_gap(busy, need, alignment).offset;
    layout.bytes = std::max(layout.bytes, layout.offsets[index] + need);
    done.push_back(index);
  }
  return layout;
}

size_t most_live(std::span<const LiveBlock> blocks, size_t alignment) {
  int calls = 0;
  for (const LiveBlock& block : blocks) calls = std::max(calls, block.last + 1);
  std::vector<size_t> enter(at(calls) + 1, 0), leave(at(calls) + 1, 0);
  for (const LiveBlock& block : blocks) {
    size_t need = round_up(block.bytes, alignment);
    enter[at(block.first)] += need;
    leave[at(block.last) + 1] += need;
  }
  size_t live = 0, most = 0;
  for (size_t c = 0; c < at(calls); ++c) {
    live = live + enter[c] - leave[c];
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

Lifetimes buffer_lifetimes(const Plan& plan) {
  Uses uses(plan);
  Lifetimes result;
  result.storage.resize(plan.buffers.size());
  std::iota(result.storage.begin(), result.storage.end(), 0);
  share_state_memory(plan, uses, result.storage);
  share_temporary_memory(plan, uses, result.storage);
  result.first.assign(plan.buffers.size(), -1);
  result.last.assign(plan.buffers.size(), -1);
  result.made_at_load.assign(plan.buffers.size(), 0);
  result.kept.assign(plan.buffers.size(), 0);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    size_t root = at(result.storage[b]);
    if (plan.buffers[root].kind != BufferKind::kTemporary || uses.writer[b] < 0) continue;
    int& first = result.first[root];
    first = first < 0 ? uses.writer[b] : std::min(first, uses.writer[b]);
    result.last[root] = std::max({result.last[root], uses.writer[b], uses.last_read[b]});
    if (uses.at_load[at(uses.writer[b])]) result.made_at_load[root] = 1;
  }
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    size_t root = at(result.storage[b]);
    if (uses.in_runs[b]) result.kept[root] = result.made_at_load[root];
  }
  result.at_load = uses.at_load;
  return result;
}

ArenaLayout plan_arena(std::span<const LiveBlock> blocks, size_t alignment) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto length = [](const LiveBlock& b) { return static_cast<double>(b.last - b.first + 1); };
  ArenaLayout best;
  best.bytes = SIZE_MAX;
  auto attempt = [&](auto before) {
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return before(blocks[x], blocks[y]); });
    ArenaLayout layout = place(blocks, order, alignment);
    if (layout.bytes < best.bytes) best = std::move(layout);
  };
  attempt([](const LiveBlock& x, const LiveBlock& y) { return x.bytes > y.bytes; });
  attempt([](const LiveBlock& x, const LiveBlock& y) { return x.first < y.first; });
  attempt([&](const LiveBlock& x, const LiveBlock& y) {
    return static_cast<double>(x.bytes) * length(x) > static_cast<double>(y.bytes) * length(y);
  });
  attempt([&](const LiveBlock& x, const LiveBlock& y) { return length(x) > length(y); });
  best.bytes_live_max = most_live(blocks, alignment);
  return best;
}

}  // namespace common
