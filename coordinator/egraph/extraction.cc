#include "coordinator/egraph/extraction.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "common/base/check.h"

namespace coordinator {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A class with a program of this cost; out of date when it has found a cheaper one since.
struct Candidate {
  double cost;
  ClassId cls;
  bool operator>(const Candidate& other) const {
    return cost != other.cost ? cost > other.cost : cls > other.cls;
  }
};

struct NodeState {
  double cost;       // its own and that of the children that are settled
  uint32_t waiting;  // children that are not
  ClassId cls;
};

// The users of each class, contiguous: walking the e-graph's parent lists waits for memory at each
// step (0.45 s against 0.33 s at a million nodes).
struct Users {
  std::vector<uint32_t> begin;  // by class id, and one more
  std::vector<NodeId> nodes;
};

Users collect_users(const EGraph& graph) {
  Users users;
  users.begin.assign(graph.class_ids() + 1, 0);
  for (NodeId n = 0; n < graph.node_ids(); ++n) {
    if (!graph.is_live(n)) continue;
    for (ClassId child : graph.children(n)) ++users.begin[child];
  }
  uint32_t end = 0;
  for (uint32_t& count : users.begin) count = end += count;
  users.nodes.resize(end);
  // Filling from the back turns ends into beginnings.
  for (NodeId n = static_cast<NodeId>(graph.node_ids()); n-- > 0;) {
    if (!graph.is_live(n)) continue;
    for (ClassId child : graph.children(n)) users.nodes[--users.begin[child]] = n;
  }
  return users;
}

}  // namespace

BestNodes best_nodes(const EGraph& graph, const NodeCost& cost) {
  LFARM_CHECK(graph.is_clean(), "best_nodes() needs a rebuilt e-graph");
  BestNodes best;
  best.node.assign(graph.class_ids(), kNone);
  best.cost.assign(graph.class_ids(), kInfinity);
  best.rank.assign(graph.class_ids(), kNone);
  std::vector<NodeState> states(graph.node_ids(), {0, 0, kNone});
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  // An unsettled class already holds the best node found so far.
  auto offer = [&](NodeId n, const NodeState& state) {
    if (!(state.cost < best.cost[state.cls])) return;
    best.cost[state.cls] = state.cost;
    best.node[state.cls] = n;
    queue.push({state.cost, state.cls});
  };
  for (NodeId n = 0; n < graph.node_ids(); ++n) {
    if (!graph.is_live(n)) continue;
    states[n] = {cost(n), graph.arity(n), graph.class_of(n)};
    LFARM_CHECK(states[n].cost >= 0, "a node cost is negative or not a number");
    if (states[n].waiting == 0) offer(n, states[n]);
  }
  Users users = collect_users(graph);
  uint32_t rank = 0;
  while (!queue.empty()) {
    Candidate next = queue.top();
    queue.pop();
    if (best.rank[next.cls] != kNone) continue;
    best.rank[next.cls] = rank++;
    for (uint32_t i = users.begin[next.cls]; i < users.begin[next.cls + 1]; ++i) {
      NodeState& state = states[users.nodes[i]];
      state.cost += next.cost;
      if (--state.waiting == 0) offer(users.nodes[i], state);
    }
  }
  return best;
}

Decoder::Decoder(const EGraph& graph, const BestNodes& best)
    : graph_(graph), best_(best), entries_(graph.class_ids()) {
  LFARM_CHECK(best.node.size() == graph.class_ids(), "best nodes of another e-graph");
}

Decoder::Entry& Decoder::entry(ClassId cls) {
  Entry& e = entries_[cls];
  if (e.round != round_) {
    e = Entry{};
    e.round = round_;
  }
  return e;
}

bool Decoder::is_usable(ClassId cls, NodeId node) const {
  if (node == kNone || !graph_.is_live(node) || graph_.class_of(node) != cls) return false;
  auto children = graph_.children(node);
  return std::all_of(children.begin(), children.end(),
                     [&](ClassId child) { return best_.node[graph_.find(child)] != kNone; });
}

void Decoder::open(ClassId cls, const std::function<NodeId(ClassId)>& preference) {
  Entry& e = entry(cls);
  e.state = State::kOpen;
  if (!e.fixed) {
    NodeId wanted = preference(cls);
    if (!is_usable(cls, wanted)) wanted = best_.node[cls];
    e.node = wanted;
    e.fixed = wanted == best_.node[cls];
  }
  stack_.push_back({cls, 0});
}

// A node on top of the stack needs a class that is open below it. Best nodes alone can't do that,
// so that some class between still has its preferred node: the topmost of these takes its best.
void Decoder::break_cycle(ClassId closes_at) {
  while (true) {
    Frame& top = stack_.back();
    Entry& e = entry(top.cls);
    if (!e.fixed) {
      e.fixed = true;
      e.node = best_.node[top.cls];
      top.next_child = 0;
      return;
    }
    LFARM_CHECK(top.cls != closes_at, "best nodes form a cycle");
    e.state = State::kNew;
    stack_.pop_back();
  }
}

bool Decoder::decode(std::span<const ClassId> roots,
                     const std::function<NodeId(ClassId)>& preference, Selection& out) {
  out.classes.clear();
  out.nodes.clear();
  stack_.clear();
  if (++round_ == 0) {  // the counter went round: no entry may look current
    std::fill(entries_.begin(), entries_.end(), Entry{});
    round_ = 1;
  }
  for (ClassId root : roots) {
    root = graph_.find(root);
    if (best_.node[root] == kNone) return false;
    if (entry(root).state == State::kNew) open(root, preference);
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      Entry& e = entry(top.cls);
      auto children = graph_.children(e.node);
      if (top.next_child == children.size()) {
        e.state = State::kDone;
        out.classes.push_back(top.cls);
        out.nodes.push_back(e.node);
        stack_.pop_back();
        continue;
      }
      ClassId child = graph_.find(children[top.next_child++]);
      State state = entry(child).state;
      if (state == State::kNew) {
        open(child, preference);
      } else if (state == State::kOpen) {
        break_cycle(child);
      }
    }
  }
  return true;
}

}  // namespace coordinator
