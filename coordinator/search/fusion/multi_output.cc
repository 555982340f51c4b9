#include "coordinator/search/fusion/multi_output.h"

#include <algorithm>
#include <utility>

#include "common/ir/expr/index.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/llir/load_time.h"

namespace coordinator {
namespace {

using common::at;
using common::Graph;
using common::Node;
using common::Op;

// More results in one loop crowd the registers.
constexpr size_t kMostValues = 4;

// Kernels of other templates write one value.
bool is_plain(const Node& node) {
  return node.op != Op::kContract && node.op != Op::kScan && node.op != Op::kScatter &&
         node.op != Op::kSort && node.op != Op::kFourier;
}

// One loop nest can write both: the axes of one are the leading axes of the other.
bool shares_rows(const common::Shape& a, const common::Shape& b) {
  size_t common_axes = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common_axes), b.begin()) &&
         (common_axes > 0 || a.size() == b.size());
}

// Groups of values, each the work of one kernel. A group depends on those whose values it reads. At
// first every stored value is a group, and dependencies follow the order of nodes. Two groups
// become one only if no third lies on a way from one to the other; then no cycle can arise, for it
// would have to leave the new group and come back, and without the third it was there before.
class Groups {
 public:
  Groups(const Selected& selected, const Materialised& materialised)
      : selected_(selected),
        graph_(selected.graph),
        materialised_(materialised),
        at_load_(common::load_time_nodes(selected.graph)),
        kernels_(graph_.nodes.size()),
        walked_(graph_.nodes.size(), -1) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      auto id = static_cast<common::NodeId>(i);
      writer_.push_back(id);
      if (!is_materialised(id)) continue;
      kernels_[i].values = {id};
      walk(id, id);
      if (graph_.nodes[i].op == Op::kView) kernels_[i].plain = false;  // copies stay by themselves
      std::sort(kernels_[i].reads.begin(), kernels_[i].reads.end());
    }
  }

  void fulfil(common::NodeId value, int64_t wish) {
    if (wish == kStoreWithUser) {
      for (size_t i = at(value) + 1; i < kernels_.size(); ++i) {
        bool uses = reads(static_cast<common::NodeId>(i), value);
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

  // The root of the first kernel that reads the value, if it computes the same elements one by one,
  // as the value's own does; else -1.
  common::NodeId follower_of_its_like(common::NodeId value) const {
    if (!kernels_[at(value)].pointwise) return -1;
    for (size_t i = at(value) + 1; i < kernels_.size(); ++i) {
      auto id = static_cast<common::NodeId>(i);
      if (!reads(id, value)) continue;
      bool is_alike = kernels_[i].pointwise && graph_.nodes[i].shape == graph_.node(value).shape;
      return is_alike ? id : -1;
    }
    return -1;
  }

  std::vector<common::NodeId> take() { return std::move(writer_); }

 private:
  struct KernelPlan {
    bool plain = true;
    bool pointwise = true;
    std::vector<common::NodeId> reads;   // stored values and inputs, of the root alone; ascending
    std::vector<common::NodeId> values;  // empty once it has joined another
  };

  bool is_materialised(common::NodeId id) const {
    return coordinator::is_materialised(selected_, materialised_, id);
  }

  void walk(common::NodeId id, common::NodeId root) {
    if (std::exchange(walked_[at(id)], root) == root) return;
    const Node& node = graph_.node(id);
    if (node.op == Op::kInput || (id != root && is_materialised(id))) {
      kernels_[at(root)].reads.push_back(id);
      return;
    }
    kernels_[at(root)].plain = kernels_[at(root)].plain && is_plain(node);
    bool is_step =
        common::is_elementwise(node.op) || node.op == Op::kView || node.op == Op::kConstant;
    kernels_[at(root)].pointwise = kernels_[at(root)].pointwise && is_step;
    for (common::NodeId operand : node.operands) walk(operand, root);
  }

  bool reads(common::NodeId root, common::NodeId value) const {
    const auto& all = kernels_[at(root)].reads;
    return std::binary_search(all.begin(), all.end(), value);
  }

  bool is_sibling(common::NodeId value, common::NodeId other) const {
    if (other < 0 || at(other) >= kernels_.size() || !is_materialised(other)) return false;
    if (graph_.node(value).shape != graph_.node(other).shape) return false;
    const auto& all = kernels_[at(value)].reads;
    return std::any_of(all.begin(), all.end(),
                       [&](common::NodeId read) { return reads(other, read); });
  }

  // Calls f for the group of each value that the group reads, until it returns true.
  template <class F>
  bool any_dependency(common::NodeId group, F&& f) const {
    for (common::NodeId value : kernels_[at(group)].values) {
      for (common::NodeId read : kernels_[at(value)].reads) {
        common::NodeId before = writer_[at(read)];
        if (is_materialised(read) && before != group && f(before)) return true;
      }
    }
    return false;
  }

  // Whether a group needs the other, directly or through groups between.
  bool depends(common::NodeId group, common::NodeId on, std::vector<char>& seen) const {
    if (group == on) return true;
    if (std::exchange(seen[at(group)], 1) != 0) return false;
    return any_dependency(group, [&](common::NodeId before) { return depends(before, on, seen); });
  }

  bool depends_through_a_third(common::NodeId group, common::NodeId on) const {
    std::vector<char> seen(kernels_.size(), 0);
    return any_dependency(
        group, [&](common::NodeId before) { return before != on && depends(before, on, seen); });
  }

  bool join(common::NodeId value, common::NodeId other) {
    common::NodeId from = writer_[at(value)];
    common::NodeId to = writer_[at(other)];
    if (from == to) return true;
    // What is computed once would be computed in every run.
    if (at_load_[at(from)] != at_load_[at(to)]) return false;
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
    for (common::NodeId id : joining) writer_[at(id)] = to;
    kernels_[at(from)].values.clear();
    kernels_[at(to)].values = std::move(both);
    return true;
  }

  const Selected& selected_;
  const Graph& graph_;
  const Materialised& materialised_;
  const std::vector<char> at_load_;  // by node
  std::vector<KernelPlan> kernels_;  // by root; `plain` and `reads` stay when it joins another
  std::vector<common::NodeId> writer_;
  std::vector<common::NodeId> walked_;  // the last root that each node was met from
};

// A copy in a wider type.
bool widens_copy(const Selected& selected, const Node& node) {
  if (node.op != Op::kCast) return false;
  common::NodeId source = node.operands[0];
  while (selected.graph.node(source).op == Op::kView) {
    if (selected.lowering[at(source)] == Lowering::kCopy) {
      return common::dtype_size(selected.graph.node(source).dtype) < common::dtype_size(node.dtype);
    }
    source = selected.graph.node(source).operands[0];
  }
  return false;
}

}  // namespace

std::vector<std::vector<int64_t>> store_values(const Selected& selected) {
  const Graph& graph = selected.graph;
  size_t n = graph.nodes.size();
  std::vector<char> has_plain_user(n, 0);
  std::vector<std::vector<common::NodeId>> plain_readers(n);
  for (size_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[i];
    if (!is_computed(node) || !is_plain(node)) continue;
    for (common::NodeId operand : node.operands) {
      common::NodeId base = base_of(selected, operand);
      if (graph.node(base).op == Op::kConstant) continue;
      if (!has_plain_user[at(base)] && shares_rows(graph.node(base).shape, node.shape)) {
        has_plain_user[at(base)] = 1;
      }
      plain_readers[at(base)].push_back(static_cast<common::NodeId>(i));
    }
  }
  const std::vector<char> at_load = common::load_time_nodes(graph);
  std::vector<std::vector<int64_t>> values(n);
  for (size_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[i];
    if (!is_computed(node) || (at_load[i] && widens_copy(selected, node))) continue;
    values[i] = {kStoreInPlace, kStoreAlone};
    if (!is_plain(node)) continue;
    if (has_plain_user[i]) values[i].push_back(kStoreWithUser);
    auto is_like = [&](common::NodeId other) {
      return at(other) != i && graph.node(other).shape == node.shape;
    };
    bool has_sibling =
        std::any_of(node.operands.begin(), node.operands.end(), [&](common::NodeId operand) {
          const auto& readers = plain_readers[at(base_of(selected, operand))];
          return std::any_of(readers.begin(), readers.end(), is_like);
        });
    if (has_sibling) values[i].push_back(kStoreWithSibling);
  }
  return values;
}

namespace {

// Both parts of a transform that are stored as they are come of one kernel. They read the same, so
// neither can depend on the other.
void join_transforms(const Selected& selected, const Materialised& materialised,
                     std::vector<common::NodeId>& writers) {
  const Graph& graph = selected.graph;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& part = graph.nodes[i];
    if (part.op != Op::kFourier || !materialised[i]) continue;
    for (size_t k = 0; k < i; ++k) {
      if (!materialised[k] || !common::is_same_transform(graph.nodes[k], part)) continue;
      writers[i] = static_cast<common::NodeId>(k);
      break;
    }
  }
}

}  // namespace

std::vector<int64_t> default_wishes(const Selected& selected, Materialised& materialised) {
  Materialised with_outputs = materialised;
  for (const common::GraphOutput& output : selected.graph.outputs) {
    if (common::is_elementwise(selected.graph.node(output.node).op))
      with_outputs[at(output.node)] = 1;
  }
  Groups groups(selected, with_outputs);
  std::vector<int64_t> wishes(materialised.begin(), materialised.end());
  for (const common::GraphOutput& output : selected.graph.outputs) {
    if (!common::is_elementwise(selected.graph.node(output.node).op)) continue;
    common::NodeId follower = groups.follower_of_its_like(output.node);
    if (follower < 0) continue;
    for (common::NodeId stored : {output.node, follower}) {
      materialised[at(stored)] = 1;
      if (wishes[at(stored)] == kStoreInPlace) wishes[at(stored)] = kStoreAlone;
    }
    wishes[at(output.node)] = kStoreWithUser;
  }
  return wishes;
}

std::vector<common::NodeId> plan_writers(const Selected& selected, const Materialised& materialised,
                                         const std::vector<int64_t>& wishes) {
  bool wanted = std::any_of(wishes.begin(), wishes.end(),
                            [](int64_t wish) { return wish >= kStoreWithUser; });
  if (!wanted) {
    std::vector<common::NodeId> writers(selected.graph.nodes.size());
    for (size_t i = 0; i < writers.size(); ++i) writers[i] = static_cast<common::NodeId>(i);
    join_transforms(selected, materialised, writers);
    return writers;
  }
  Groups groups(selected, materialised);
  for (size_t i = 0; i < wishes.size(); ++i) {
    auto id = static_cast<common::NodeId>(i);
    if (is_materialised(selected, materialised, id)) groups.fulfil(id, wishes[i]);
  }
  std::vector<common::NodeId> writers = groups.take();
  join_transforms(selected, materialised, writers);
  return writers;
}

}  // namespace coordinator
