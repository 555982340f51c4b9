#include "coordinator/search/joint_kernels.h"

#include <algorithm>
#include <set>

namespace coordinator {
namespace {

using common::Graph;
using common::Node;
using common::Op;

// More results in one loop crowd the registers.
constexpr size_t kMostValues = 4;

size_t at(common::NodeId id) { return static_cast<size_t>(id); }

// Kernels of other templates write one value.
bool is_plain(const Node& node) {
  return node.op != Op::kContract && node.op != Op::kScan && node.op != Op::kScatter &&
         node.op != Op::kSort;
}

// One loop nest can write both: the axes of one are the leading axes of the other.
bool shares_rows(const common::Shape& a, const common::Shape& b) {
  size_t common_axes = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common_axes), b.begin()) &&
         (common_axes > 0 || a.size() == b.size());
}

common::NodeId base_of(const Graph& graph, common::NodeId id) {
  while (graph.node(id).op == Op::kView) id = graph.node(id).operands[0];
  return id;
}

// Groups of values, each the work of one kernel. A group depends on those whose values it reads. At
// first every stored value is a group, and dependencies follow the order of nodes. Two groups
// become one only if no third lies on a way from one to the other; then no cycle can arise, for it
// would have to leave the new group and come back, and without the third it was there before.
class Groups {
 public:
  Groups(const Selected& selected, const Stores& stores)
      : graph_(selected.graph), stores_(stores), kernels_(graph_.nodes.size()) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      auto id = static_cast<common::NodeId>(i);
      host_.push_back(id);
      if (!is_stored(id)) continue;
      kernels_[i].values = {id};
      std::set<common::NodeId> seen;
      walk(id, id, seen);
    }
  }

  void fulfil(common::NodeId value, int64_t wish) {
    if (wish == kStoreWithUser) {
      for (size_t i = at(value) + 1; i < kernels_.size(); ++i) {
        bool uses = kernels_[i].reads.count(value) != 0;
        if (uses && join(value, static_cast<common::NodeId>(i))) return;
      }
    } else if (wish == kStoreWithSibling) {
      for (size_t distance = 1; distance < kernels_.size(); ++distance) {
        auto step = static_cast<common::NodeId>(distance);
        for (common::NodeId other : {value - step, value + step}) {
          if (is_sibling(value, other) && join(value, other)) return;
        }
      }
    }
  }

  std::vector<common::NodeId> take() { return std::move(host_); }

 private:
  struct KernelPlan {
    bool plain = true;
    std::set<common::NodeId> reads;      // stored values and inputs, of its first value alone
    std::vector<common::NodeId> values;  // empty once it has joined another
  };

  bool is_stored(common::NodeId id) const {
    return is_computed(graph_.node(id)) && stores_[at(id)];
  }

  void walk(common::NodeId id, common::NodeId root, std::set<common::NodeId>& seen) {
    if (!seen.insert(id).second) return;
    const Node& node = graph_.node(id);
    if (node.op == Op::kInput || (id != root && is_stored(id))) {
      kernels_[at(root)].reads.insert(id);
      return;
    }
    kernels_[at(root)].plain = kernels_[at(root)].plain && is_plain(node);
    for (common::NodeId operand : node.operands) walk(operand, root, seen);
  }

  bool is_sibling(common::NodeId value, common::NodeId other) const {
    if (other < 0 || at(other) >= kernels_.size() || !is_stored(other)) return false;
    if (graph_.node(value).shape != graph_.node(other).shape) return false;
    const auto& reads = kernels_[at(value)].reads;
    return std::any_of(reads.begin(), reads.end(), [&](common::NodeId read) {
      return kernels_[at(other)].reads.count(read) != 0;
    });
  }

  // Whether a group needs the other, directly or through groups between.
  bool depends(common::NodeId group, common::NodeId on, std::set<common::NodeId>& seen) const {
    if (group == on) return true;
    if (!seen.insert(group).second) return false;
    for (common::NodeId before : dependencies(group)) {
      if (depends(before, on, seen)) return true;
    }
    return false;
  }

  std::set<common::NodeId> dependencies(common::NodeId group) const {
    std::set<common::NodeId> result;
    for (common::NodeId value : kernels_[at(group)].values) {
      for (common::NodeId read : kernels_[at(value)].reads) {
        if (is_stored(read) && host_[at(read)] != group) result.insert(host_[at(read)]);
      }
    }
    return result;
  }

  bool depends_through_a_third(common::NodeId group, common::NodeId on) const {
    std::set<common::NodeId> seen;
    for (common::NodeId before : dependencies(group)) {
      if (before != on && depends(before, on, seen)) return true;
    }
    return false;
  }

  bool join(common::NodeId value, common::NodeId other) {
    common::NodeId from = host_[at(value)];
    common::NodeId to = host_[at(other)];
    if (from == to) return true;
    std::vector<common::NodeId> both = kernels_[at(to)].values;
    const auto& joining = kernels_[at(from)].values;
    both.insert(both.end(), joining.begin(), joining.end());
    if (both.size() > kMostValues) return false;
    const common::Shape& shape = graph_.node(to).shape;
    bool fits = std::all_of(both.begin(), both.end(), [&](common::NodeId id) {
      return kernels_[at(id)].plain && shares_rows(graph_.node(id).shape, shape);
    });
    if (!fits || depends_through_a_third(from, to) || depends_through_a_third(to, from)) {
      return false;
    }
    for (common::NodeId id : joining) host_[at(id)] = to;
    kernels_[at(from)].values.clear();
    kernels_[at(to)].values = std::move(both);
    return true;
  }

  const Graph& graph_;
  const Stores& stores_;
  std::vector<KernelPlan> kernels_;  // by root; `plain` and `reads` stay when it joins another
  std::vector<common::NodeId> host_;
};

}  // namespace

std::vector<std::vector<int64_t>> store_values(const Selected& selected) {
  const Graph& graph = selected.graph;
  size_t n = graph.nodes.size();
  std::vector<char> has_plain_user(n, 0);
  std::vector<std::set<common::NodeId>> plain_readers(n);
  for (size_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[i];
    if (!is_computed(node) || !is_plain(node)) continue;
    for (common::NodeId operand : node.operands) {
      common::NodeId base = base_of(graph, operand);
      if (shares_rows(graph.node(base).shape, node.shape)) has_plain_user[at(base)] = 1;
      plain_readers[at(base)].insert(static_cast<common::NodeId>(i));
    }
  }
  std::vector<std::vector<int64_t>> values(n);
  for (size_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[i];
    if (!is_computed(node)) continue;
    values[i] = {kStoreInPlace, kStoreAlone};
    if (!is_plain(node)) continue;
    if (has_plain_user[i]) values[i].push_back(kStoreWithUser);
    bool has_sibling = false;
    for (common::NodeId operand : node.operands) {
      common::NodeId base = base_of(graph, operand);
      if (graph.node(base).op == Op::kConstant) continue;
      for (common::NodeId other : plain_readers[at(base)]) {
        has_sibling = has_sibling || (at(other) != i && graph.node(other).shape == node.shape);
      }
    }
    if (has_sibling) values[i].push_back(kStoreWithSibling);
  }
  return values;
}

std::vector<common::NodeId> plan_hosts(const Selected& selected, const Stores& stores,
                                       const std::vector<int64_t>& wishes) {
  bool wanted = std::any_of(wishes.begin(), wishes.end(),
                            [](int64_t wish) { return wish >= kStoreWithUser; });
  if (!wanted) {
    std::vector<common::NodeId> hosts(selected.graph.nodes.size());
    for (size_t i = 0; i < hosts.size(); ++i) hosts[i] = static_cast<common::NodeId>(i);
    return hosts;
  }
  Groups groups(selected, stores);
  for (size_t i = 0; i < wishes.size(); ++i) {
    if (stores[i] && is_computed(selected.graph.nodes[i])) {
      groups.fulfil(static_cast<common::NodeId>(i), wishes[i]);
    }
  }
  return groups.take();
}

}  // namespace coordinator
