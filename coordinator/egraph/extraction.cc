#include "coordinator/egraph/extraction.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "common/base/check.h"

namespace coordinator {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A finished node: all of its children have their best node.
struct Candidate {
  double cost;
  ClassId cls;
  NodeId node;
  bool operator>(const Candidate& other) const {
    if (cost != other.cost) return cost > other.cost;
    if (cls != other.cls) return cls > other.cls;
    return node > other.node;
  }
};

}  // namespace

BestNodes best_nodes(const EGraph& graph, const NodeCost& cost) {
  LFARM_CHECK(graph.is_clean(), "best_nodes() needs a rebuilt e-graph");
  BestNodes best;
  best.node.assign(graph.class_ids(), kNone);
  best.cost.assign(graph.class_ids(), kInfinity);
  best.rank.assign(graph.class_ids(), kNone);
  std::vector<uint32_t> waiting(graph.node_ids(), 0);  // children without a best node
  std::vector<double> own(graph.node_ids(), 0);        // cost so far
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  for (NodeId n = 0; n < graph.node_ids(); ++n) {
    if (!graph.is_live(n)) continue;
    waiting[n] = graph.arity(n);
    own[n] = cost(n);
    LFARM_CHECK(own[n] >= 0, "a node cost is negative or not a number");
    if (waiting[n] == 0 && own[n] < kInfinity) queue.push({own[n], graph.class_of(n), n});
  }
  uint32_t rank = 0;
  while (!queue.empty()) {
    Candidate next = queue.top();
    queue.pop();
    if (best.node[next.cls] != kNone) continue;
    best.node[next.cls] = next.node;
    best.cost[next.cls] = next.cost;
    best.rank[next.cls] = rank++;
    graph.for_each_parent(next.cls, [&](NodeId parent) {
      own[parent] += next.cost;
      if (--waiting[parent] > 0 || !(own[parent] < kInfinity)) return;
      ClassId cls = graph.class_of(parent);
      if (best.node[cls] == kNone) queue.push({own[parent], cls, parent});
    });
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
