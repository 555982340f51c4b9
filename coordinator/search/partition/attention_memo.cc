#include "coordinator/search/partition/attention_memo.h"

#include <algorithm>

#include "common/base/hash64.h"
#include "common/ir/hlir/attention_form.h"
#include "coordinator/search/partition/node_kinds.h"

namespace coordinator {
namespace {

using common::Op;

constexpr size_t kKnownMax = 65'536;
// Contractions on the way down from the product, itself included, whose operands matter: its own
// and those of the scores. Any below is an obstacle or none of the form's concern.
constexpr int kContractionsMax = 2;

// All nodes that the form may depend on, in an order that follows from their genes and choices, and
// a hash of these.
class Walk {
 public:
  Walk(const Selected& selected, common::NodeId product,
       const std::function<bool(common::NodeId)>& is_stored)
      : selected_(selected),
        is_stored_(is_stored),
        place_(selected.graph.nodes.size(), -1),
        depth_(selected.graph.nodes.size(), kContractionsMax + 1) {
    visit(product, 0);
  }

  uint64_t hash() const { return hash_; }
  const std::vector<common::NodeId>& order() const { return order_; }
  // -1: it was not visited.
  common::NodeId place(common::NodeId id) const { return place_[at(id)]; }

 private:
  // `depth`: contractions above the node. Again where it was met below more of them.
  void visit(common::NodeId id, int depth) {
    if (depth_[at(id)] <= depth) return;
    depth_[at(id)] = depth;
    if (place_[at(id)] < 0) {
      place_[at(id)] = static_cast<common::NodeId>(order_.size());
      order_.push_back(id);
    }
    const common::Node& node = selected_.graph.node(id);
    bool is_read = depth > 0 && node.op != Op::kView && is_computed(node) && is_stored_(id);
    note(selected_.gene[at(id)]);
    note(static_cast<uint64_t>(selected_.choice[at(id)]) << 1 | (is_read ? 1 : 0));
    for (common::NodeId operand : node.operands) note(selected_.gene[at(operand)]);
    if (is_read) return;
    bool goes_on = is_elementwise(node) || node.op == Op::kView || node.op == Op::kGather ||
                   node.op == Op::kSoftmax;
    bool is_contraction = node.op == Op::kContract && depth < kContractionsMax;
    if (!goes_on && !is_contraction) return;
    for (common::NodeId operand : node.operands) visit(operand, is_contraction ? depth + 1 : depth);
  }
  void note(uint64_t value) { hash_ = common::combine64(hash_, value); }

  const Selected& selected_;
  const std::function<bool(common::NodeId)>& is_stored_;
  std::vector<common::NodeId> place_;
  std::vector<int> depth_;  // the least that the node was met at
  std::vector<common::NodeId> order_;
  uint64_t hash_ = 0;
};

// With every node replaced by what `rename` says. False where that is negative for one.
template <class Rename>
bool rename(AttentionParts& parts, const Rename& name) {
  bool all = true;
  auto renamed = [&](common::NodeId& id) {
    id = name(id);
    all = all && id >= 0;
  };
  renamed(parts.scores);
  renamed(parts.keys);
  renamed(parts.values);
  for (common::NodeId& member : parts.members) renamed(member);
  if (parts.obstacle) renamed(*parts.obstacle);
  return all;
}

std::optional<AttentionParts> parts_of(const common::Graph& graph, common::NodeId product,
                                       const std::function<bool(common::NodeId)>& is_stored) {
  auto form = common::attention_form(graph, product, is_stored);
  if (!form) return std::nullopt;
  AttentionParts parts;
  parts.scores = form->scores;
  parts.keys = graph.node(form->scores).operands[at(1 - form->queries)];
  parts.values = graph.node(product).operands[at(1 - form->probabilities)];
  parts.members = std::move(form->members);
  if (!form->obstacles.empty()) parts.obstacle = form->obstacles[0];
  return parts;
}

}  // namespace

std::optional<AttentionParts> AttentionMemo::find(
    const Selected& selected, common::NodeId product,
    const std::function<bool(common::NodeId)>& is_stored) {
  Walk walk(selected, product, is_stored);
  if (auto known = known_.find(walk.hash()); known != known_.end()) {
    std::optional<AttentionParts> parts = known->second;
    if (parts) rename(*parts, [&](common::NodeId place) { return walk.order()[at(place)]; });
    return parts;
  }
  std::optional<AttentionParts> found = parts_of(selected.graph, product, is_stored);
  std::optional<AttentionParts> kept = found;
  // What the walk does not reach has no place to be remembered by.
  if (kept && !rename(*kept, [&](common::NodeId id) { return walk.place(id); })) return found;
  if (known_.size() >= kKnownMax) known_.clear();
  known_.emplace(walk.hash(), std::move(kept));
  return found;
}

}  // namespace coordinator
