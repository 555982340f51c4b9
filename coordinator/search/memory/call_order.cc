#include "coordinator/search/memory/call_order.h"

#include <algorithm>
#include <utility>

#include "common/ir/expr/index.h"
#include "common/plan/run_memory.h"

namespace coordinator {
namespace {

using common::at;
using common::BufferKind;
using common::Call;
using common::Plan;

// Calls by their numbers in the plan, in an order that changes.
class Order {
 public:
  Order(const Plan& plan, const std::vector<int64_t>& sizes)
      : plan_(plan), bytes_(common::run_liveness(plan, sizes).bytes) {
    size_t calls = plan.calls.size();
    before_.resize(calls);
    after_.resize(calls);
    for (size_t c = 0; c < calls; ++c) order_.push_back(static_cast<int>(c));
    place_ = order_;
    note_flow();
    note_states();
  }

  // The last call that reads each buffer, as calls are ordered now.
  std::vector<int> last_readers() const {
    std::vector<int> last(plan_.buffers.size(), -1);
    for (int c : order_) {
      for (int id : plan_.calls[at(c)].inputs) last[at(id)] = c;
    }
    return last;
  }

  // What the call writes into the arena, less what it is the last to read there.
  int64_t growth(int c, const std::vector<int>& last_readers) const {
    int64_t sum = 0;
    for (int id : plan_.calls[at(c)].outputs) sum += arena_bytes(id);
    std::vector<int> read = plan_.calls[at(c)].inputs;
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (int id : read) {
      if (last_readers[at(id)] == c) sum -= arena_bytes(id);
    }
    return sum;
  }

  void sink_what_grows() {
    std::vector<int> last = last_readers();
    std::vector<int> calls(order_.rbegin(), order_.rend());
    for (int c : calls) {
      if (growth(c, last) <= 0 || after_[at(c)].empty()) continue;
      int first = static_cast<int>(order_.size());
      for (int other : after_[at(c)]) first = std::min(first, place_[at(other)]);
      move(c, first - 1);
    }
  }

  void raise_what_frees() {
    std::vector<int> last = last_readers();
    std::vector<int> calls = order_;
    for (int c : calls) {
      if (growth(c, last) >= 0) continue;
      int place = 0;
      for (int other : before_[at(c)]) place = std::max(place, place_[at(other)] + 1);
      move(c, place);
    }
  }

  std::vector<Call> calls() const {
    std::vector<Call> calls;
    for (int c : order_) calls.push_back(plan_.calls[at(c)]);
    return calls;
  }

 private:
  int64_t arena_bytes(int id) const {
    bool is_temporary = plan_.buffers[at(id)].kind == BufferKind::kTemporary;
    return is_temporary ? static_cast<int64_t>(bytes_[at(id)]) : 0;
  }

  void add_edge(int from, int to) {
    after_[at(from)].push_back(to);
    before_[at(to)].push_back(from);
  }

  void note_flow() {
    std::vector<int> writer(plan_.buffers.size(), -1);
    for (size_t c = 0; c < plan_.calls.size(); ++c) {
      for (int id : plan_.calls[c].inputs) {
        if (writer[at(id)] >= 0) add_edge(writer[at(id)], static_cast<int>(c));
      }
      for (int id : plan_.calls[c].outputs) writer[at(id)] = static_cast<int>(c);
    }
  }

  // A state's new content takes the memory of the old one only when no later call reads that.
  void note_states() {
    std::vector<std::vector<int>> readers(plan_.inputs.size());
    for (size_t c = 0; c < plan_.calls.size(); ++c) {
      for (int id : plan_.calls[c].outputs) {
        const common::Buffer& buffer = plan_.buffers[at(id)];
        if (buffer.kind != BufferKind::kOutput) continue;
        const common::GraphOutput& output = plan_.outputs[at(buffer.position)];
        if (output.kind != common::OutputKind::kMutate) continue;
        for (int reader : readers[at(output.input)]) add_edge(reader, static_cast<int>(c));
      }
      for (int id : plan_.calls[c].inputs) {
        const common::Buffer& buffer = plan_.buffers[at(id)];
        if (buffer.kind == BufferKind::kInput) {
          readers[at(buffer.position)].push_back(static_cast<int>(c));
        }
      }
    }
  }

  void move(int c, int place) {
    auto begin = order_.begin();
    int from = place_[at(c)];
    if (from < place) {
      std::rotate(begin + from, begin + from + 1, begin + place + 1);
    } else if (place < from) {
      std::rotate(begin + place, begin + from, begin + from + 1);
    }
    for (int k = std::min(from, place); k <= std::max(from, place); ++k)
      place_[at(order_[at(k)])] = k;
  }

  const Plan& plan_;
  std::vector<size_t> bytes_;
  std::vector<std::vector<int>> before_, after_;
  std::vector<int> order_;  // calls by place
  std::vector<int> place_;  // and back
};

}  // namespace

bool lower_peak_by_order(Plan* plan, const std::vector<int64_t>& sizes) {
  size_t least = common::run_liveness(*plan, sizes).most();
  std::vector<Call> best;
  Plan trial = *plan;
  auto attempt = [&](bool sinks, bool raises) {
    Order order(*plan, sizes);
    if (sinks) order.sink_what_grows();
    // What is the last to read a value may be another call after the first round.
    for (int round = 0; raises && round < 2; ++round) order.raise_what_frees();
    trial.calls = order.calls();
    size_t most = common::run_liveness(trial, sizes).most();
    if (most >= least) return;
    least = most;
    best = trial.calls;
  };
  attempt(false, true);
  attempt(true, false);
  attempt(true, true);
  if (best.empty()) return false;
  plan->calls = std::move(best);
  return true;
}

}  // namespace coordinator
