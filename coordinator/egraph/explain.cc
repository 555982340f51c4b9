#include "coordinator/egraph/explain.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/cat.h"

namespace coordinator {

using common::cat;

ProofForest::ProofForest() : names_({"given", "congruence", "analysis"}) {}

Reason ProofForest::reason_named(std::string_view name) {
  auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end()) it = names_.emplace(names_.end(), name);
  return static_cast<Reason>(it - names_.begin());
}

void ProofForest::make(Head head, std::span<const ClassId> children, Reason reason) {
  auto id = static_cast<NodeId>(vertices_.size());
  vertices_.push_back({id, kGiven, reason, head, static_cast<uint32_t>(children_.size()),
                       static_cast<uint32_t>(children.size())});
  for (ClassId child : children) children_.push_back(child);
}

void ProofForest::unite(NodeId from, NodeId to, Reason reason) {
  // Turns the edges above `from`, so that it becomes its tree's root, and hangs it below `to`.
  while (true) {
    Vertex& v = vertices_[from];
    NodeId up = std::exchange(v.up, to);
    Reason up_reason = std::exchange(v.up_reason, reason);
    if (up == from) return;
    to = from;
    from = up;
    reason = up_reason;
  }
}

NodeId ProofForest::root(NodeId node) const {
  while (vertices_[node].up != node) node = vertices_[node].up;
  return node;
}

std::vector<ProofForest::Step> ProofForest::path(NodeId a, NodeId b) const {
  auto way_up = [this](NodeId node) {
    std::vector<NodeId> way{node};
    while (vertices_[way.back()].up != way.back()) way.push_back(vertices_[way.back()].up);
    return way;
  };
  std::vector<NodeId> up = way_up(a), down = way_up(b);
  while (up.size() > 1 && down.size() > 1 && up[up.size() - 2] == down[down.size() - 2]) {
    up.pop_back();
    down.pop_back();
  }
  std::vector<Step> steps;
  for (size_t i = 0; i + 1 < up.size(); ++i) {
    steps.push_back({up[i], up[i + 1], vertices_[up[i]].up_reason});
  }
  for (size_t i = down.size() - 1; i > 0; --i) {
    steps.push_back({down[i], down[i - 1], vertices_[down[i - 1]].up_reason});
  }
  return steps;
}

std::string ProofForest::explain(NodeId a, NodeId b,
                                 const std::function<std::string(Head)>& head_name) const {
  auto term = [&](NodeId node) {
    std::string text =
        cat("c", node, " ", vertices_[node].arity > 0 ? "(" : "", head_name(vertices_[node].head));
    for (ClassId child : children(node)) text += cat(" c", child);
    return vertices_[node].arity > 0 ? text + ")" : text;
  };
  std::string out;
  std::vector<std::pair<NodeId, NodeId>> wanted{{a, b}};
  std::set<std::pair<NodeId, NodeId>> known{{std::min(a, b), std::max(a, b)}};
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto [from, to] = wanted[i];
    out += cat("c", from, " = c", to, ":\n");
    for (const Step& step : path(from, to)) {
      out += cat("  ", term(step.from), " = ", term(step.to), " by ", names_[step.reason], "\n");
      if (step.reason != kCongruence) continue;
      auto left = children(step.from), right = children(step.to);
      for (size_t k = 0; k < left.size(); ++k) {
        auto [low, high] = std::minmax(left[k], right[k]);
        if (low != high && known.emplace(low, high).second) {
          wanted.emplace_back(left[k], right[k]);
        }
      }
    }
  }
  return out;
}

}  // namespace coordinator
