#include "coordinator/search/memory/recompute.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/ir/expr/index.h"
#include "common/plan/run_memory.h"

namespace coordinator {
namespace {

using common::at;
using common::Buffer;
using common::BufferKind;
using common::Call;
using common::Plan;
using common::RunLiveness;

// Calls that are repeated for one value.
constexpr size_t kChainMax = 24;
// An input of a repeated call, such as a row's statistics, is kept alive rather than computed again
// where the value has at least this many times its bytes.
constexpr size_t kKeptShare = 8;
// Values that are moved from one use to another in all: bounds the time of a search's step.
constexpr int kStepsMax = 5'000;

// One value that is to be computed again.
struct Repetition {
  int buffer = -1;
  int before = 0;          // the call that needs it
  std::vector<int> calls;  // that are repeated, in this order
  double ns = 0;
  size_t bytes = 0;  // that are live no longer at the peak
};

// A plan as it is now, with the uses of its buffers.
class Uses {
 public:
  Uses(const Plan& plan, const std::vector<int64_t>& sizes)
      : plan(plan), live(common::run_liveness(plan, sizes)), writer(plan.buffers.size(), -1) {
    touches.resize(plan.buffers.size());
    sharers.assign(plan.buffers.size(), 0);
    overwritten.assign(plan.inputs.size(), std::numeric_limits<int>::max());
    for (size_t c = 0; c < plan.calls.size(); ++c) {
      auto call = static_cast<int>(c);
      for (int id : plan.calls[c].inputs) note(id, call);
      for (int id : plan.calls[c].outputs) {
        note(id, call);
        writer[at(id)] = call;
        note_overwritten(plan.buffers[at(id)], call);
      }
    }
    for (int root : live.lifetimes.storage) ++sharers[at(root)];
  }

  // The buffer lies in the arena and shares its place with no other.
  bool is_alone(int buffer) const {
    return live.is_in_arena(at(buffer)) && live.lifetimes.storage[at(buffer)] == buffer &&
           sharers[at(buffer)] == 1;
  }
  bool is_made_at_load(int buffer) const {
    int by = writer[at(buffer)];
    return by >= 0 && live.lifetimes.at_load[at(by)] != 0;
  }
  // Whether the content is there when `call` begins, whatever else is repeated.
  bool is_there(int buffer, int call) const {
    const Buffer& of = plan.buffers[at(buffer)];
    if (of.kind == BufferKind::kInput) return call <= overwritten[at(of.position)];
    if (of.kind == BufferKind::kOutput || is_made_at_load(buffer)) return true;
    return is_alone(buffer) && live.lifetimes.last[at(buffer)] >= call;
  }

  const Plan& plan;
  RunLiveness live;
  std::vector<int> writer;
  std::vector<std::vector<int>> touches;  // of each buffer, ascending
  std::vector<int> sharers;               // of each buffer's place
  std::vector<int> overwritten;           // the call that writes each state's new content

 private:
  void note(int id, int call) {
    std::vector<int>& all = touches[at(id)];
    if (all.empty() || all.back() != call) all.push_back(call);
  }
  void note_overwritten(const Buffer& buffer, int call) {
    if (buffer.kind != BufferKind::kOutput) return;
    const common::GraphOutput& output = plan.outputs[at(buffer.position)];
    if (output.kind == common::OutputKind::kMutate) overwritten[at(output.input)] = call;
  }
};

// Finds the calls that make one value again.
class Chain {
 public:
  Chain(const Uses& uses, int buffer, int before, const std::vector<double>& call_ns)
      : uses_(uses), call_ns_(call_ns) {
    found_.buffer = buffer;
    found_.before = before;
  }

  // Empty where it cannot be made, or where that would not lower the peak.
  std::optional<Repetition> find(size_t peak_call) {
    const RunLiveness& live = uses_.live;
    size_t peak = live.live[peak_call];
    if (!repeat(uses_.writer[at(found_.buffer)], 0)) return std::nullopt;
    size_t meanwhile = 0;  // live while the calls are repeated
    for (int call : found_.calls) {
      found_.ns += call_ns_[at(call)];
      for (int id : uses_.plan.calls[at(call)].outputs) {
        if (id != found_.buffer) meanwhile += live.bytes[at(id)];
      }
    }
    if (live.live[at(found_.before)] + meanwhile >= peak) return std::nullopt;
    size_t kept = 0;
    for (int id : kept_) {
      if (at(live.lifetimes.last[at(id)]) < peak_call) kept += live.bytes[at(id)];
    }
    size_t all_kept = 0;
    for (int id : kept_) all_kept += live.bytes[at(id)];
    for (int c = first_kept(); c < found_.before; ++c) {
      bool is_freed = c > last_touch(peak_call);
      size_t freed = is_freed ? live.bytes[at(found_.buffer)] : 0;
      if (live.live[at(c)] + all_kept >= peak + freed) return std::nullopt;
    }
    if (live.bytes[at(found_.buffer)] <= kept) return std::nullopt;
    found_.bytes = live.bytes[at(found_.buffer)] - kept;
    return found_;
  }

 private:
  bool repeat(int call, size_t depth) {
    if (call < 0 || depth > kChainMax || uses_.live.lifetimes.at_load[at(call)]) return false;
    if (!seen_.insert(call).second) return true;
    for (int input : uses_.plan.calls[at(call)].inputs) {
      if (!provide(input, depth)) return false;
    }
    if (found_.calls.size() == kChainMax) return false;
    found_.calls.push_back(call);
    return true;
  }

  bool provide(int input, size_t depth) {
    if (input != found_.buffer && uses_.is_there(input, found_.before)) return true;
    const Buffer& buffer = uses_.plan.buffers[at(input)];
    if (buffer.kind != BufferKind::kTemporary) return false;
    bool is_small = uses_.live.bytes[at(input)] * kKeptShare <= uses_.live.bytes[at(found_.buffer)];
    if (is_small && uses_.is_alone(input)) {
      kept_.insert(input);
      return true;
    }
    return repeat(uses_.writer[at(input)], depth + 1);
  }

  int first_kept() const {
    int first = found_.before;
    for (int id : kept_) first = std::min(first, uses_.live.lifetimes.last[at(id)] + 1);
    return first;
  }

  int last_touch(size_t peak_call) const {
    int last = -1;
    for (int call : uses_.touches[at(found_.buffer)]) {
      if (at(call) < peak_call) last = call;
    }
    return last;
  }

  const Uses& uses_;
  const std::vector<double>& call_ns_;
  Repetition found_;
  std::set<int> seen_;
  std::set<int> kept_;
};

// The call that needs the buffer next after the peak, where it is not needed at the peak; -1.
int next_use(const Uses& uses, int buffer, size_t peak_call) {
  const std::vector<int>& touches = uses.touches[at(buffer)];
  auto next = std::lower_bound(touches.begin(), touches.end(), static_cast<int>(peak_call));
  bool is_crossed = next != touches.begin() && next != touches.end() && at(*next) != peak_call;
  return is_crossed ? *next : -1;
}

bool is_better(const Repetition& a, const Repetition& b, RecomputeOrder order) {
  auto cost = [&](const Repetition& one) {
    return order == RecomputeOrder::kTime ? one.ns : one.ns / static_cast<double>(one.bytes);
  };
  if (cost(a) != cost(b)) return cost(a) < cost(b);
  return std::pair(a.bytes, -a.buffer) > std::pair(b.bytes, -b.buffer);
}

// The plan with the calls repeated and later uses of the value led there.
void apply(const Repetition& repetition, Plan* plan, std::vector<double>* call_ns) {
  std::map<int, int> again;  // buffer -> the one that holds the same anew
  std::vector<Call> calls;
  std::vector<double> times;
  for (int c : repetition.calls) {
    Call call = plan->calls[at(c)];
    for (int& id : call.inputs) {
      if (auto it = again.find(id); it != again.end()) id = it->second;
    }
    for (int& id : call.outputs) {
      Buffer buffer = plan->buffers[at(id)];
      buffer.kind = BufferKind::kTemporary;
      buffer.position = 0;
      plan->buffers.push_back(std::move(buffer));
      int twin = static_cast<int>(plan->buffers.size()) - 1;
      again[id] = twin;
      id = twin;
    }
    calls.push_back(std::move(call));
    times.push_back((*call_ns)[at(c)]);
  }
  int twin = again.at(repetition.buffer);
  for (size_t c = at(repetition.before); c < plan->calls.size(); ++c) {
    auto& inputs = plan->calls[c].inputs;
    std::replace(inputs.begin(), inputs.end(), repetition.buffer, twin);
  }
  plan->calls.insert(plan->calls.begin() + repetition.before, calls.begin(), calls.end());
  call_ns->insert(call_ns->begin() + repetition.before, times.begin(), times.end());
}

std::optional<Repetition> best_repetition(const Uses& uses, RecomputeOrder order,
                                          const std::vector<double>& call_ns,
                                          const std::set<std::pair<int, int>>& refused) {
  size_t peak_call = uses.live.peak_call();
  std::optional<Repetition> best;
  for (size_t b = 0; b < uses.plan.buffers.size(); ++b) {
    int buffer = static_cast<int>(b);
    if (!uses.is_alone(buffer)) continue;
    int before = next_use(uses, buffer, peak_call);
    if (before < 0 || refused.count({buffer, before}) != 0) continue;
    auto found = Chain(uses, buffer, before, call_ns).find(peak_call);
    if (found && (!best || is_better(*found, *best, order))) best = std::move(found);
  }
  return best;
}

}  // namespace

void recompute_until(size_t bytes, RecomputeOrder order, const std::vector<int64_t>& sizes,
                     Plan* plan, std::vector<double>* call_ns) {
  std::set<std::pair<int, int>> refused;  // for the calls of now
  for (int step = 0; step < kStepsMax; ++step) {
    Uses uses(*plan, sizes);
    size_t most = uses.live.most();
    if (most <= bytes) return;
    auto best = best_repetition(uses, order, *call_ns, refused);
    if (!best) return;
    Plan trial = *plan;
    std::vector<double> trial_ns = *call_ns;
    apply(*best, &trial, &trial_ns);
    // A call that works in place no longer may need more than was saved.
    RunLiveness live = common::run_liveness(trial, sizes);
    auto peaks = [&](const std::vector<size_t>& all) {
      return std::count(all.begin(), all.end(), most);
    };
    bool is_lower =
        live.most() < most || (live.most() == most && peaks(live.live) < peaks(uses.live.live));
    if (!is_lower) {
      refused.insert({best->buffer, best->before});
      continue;
    }
    refused.clear();
    *plan = std::move(trial);
    *call_ns = std::move(trial_ns);
  }
}

}  // namespace coordinator
