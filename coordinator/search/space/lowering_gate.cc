#include "coordinator/search/space/lowering_gate.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/rules/matching/heads.h"
#include "coordinator/search/partition/convolution_operands.h"

namespace coordinator {
namespace {

constexpr double kMargin = 0.1;

// What the kernels of `all` take that `others` has not, or has fewer calls of.
double only_in(const KernelShares& all, const KernelShares& others) {
  double ns = 0;
  for (const auto& [id, share] : all) {
    auto other = others.find(id);
    ns += std::max(0.0, share - (other == others.end() ? 0 : other->second));
  }
  return ns;
}

class LoweringGate {
 public:
  LoweringGate(RegionSpace& space, Genome from,
               const std::function<KernelShares(const Genome&)>& shares, size_t tries_max)
      : space_(space),
        graph_(*space.saturated().graph),
        heads_(*space.saturated().heads),
        shares_of_(shares),
        tries_left_(tries_max),
        genome_(std::move(from)),
        shares_(shares_of_(genome_)) {}

  Genome run() {
    // A choice changes which others there are to make.
    while (auto group = next_group()) decide(*group);
    return std::move(genome_);
  }

 private:
  // What a class may be chosen as.
  using Alternatives = std::set<Head>;
  struct Group {
    std::vector<Site> sites;
    Alternatives alternatives;
  };

  Alternatives alternatives_of(const Site& site) const {
    Alternatives result;
    for (int64_t value : site.values) result.insert(graph_.head(static_cast<NodeId>(value)));
    return result;
  }

  // A product of windows: it may read them in place, copied side by side or from a copy of the
  // image with its border, or multiply by minimal filters.
  bool is_convolution(const Site& site) const {
    return std::any_of(site.values.begin(), site.values.end(), [&](int64_t value) {
      const auto node = static_cast<NodeId>(value);
      if (heads_.node(graph_.head(node)).op != common::Op::kContract) return false;
      auto children = graph_.children(node);
      return std::any_of(children.begin(), children.end(),
                         [&](ClassId child) { return holds_windows(graph_.find(child)); });
    });
  }

  // A norm along axes that are not the last ones of its operand, which may be written out instead:
  // its sums then walk memory as it lies.
  bool is_turned_norm(const Site& site) const {
    return std::any_of(site.values.begin(), site.values.end(), [&](int64_t value) {
      const auto node = static_cast<NodeId>(value);
      if (heads_.node(graph_.head(node)).op != common::Op::kView) return false;
      return holds(graph_.children(node).front(),
                   [](const common::Node& below) { return below.op == common::Op::kNorm; });
    });
  }

  bool holds_windows(ClassId cls) const {
    return holds(cls, [](const common::Node& node) {
      return node.op == common::Op::kView && has_windows(common::attr<common::ViewAttr>(node).view);
    });
  }

  // Whether the class holds a node that is accepted.
  template <class F>
  bool holds(ClassId cls, F accepts) const {
    bool found = false;
    graph_.for_each_node(graph_.find(cls), [&](NodeId id) {
      found = found || accepts(heads_.node(graph_.head(id)));
    });
    return found;
  }

  // What has the same alternatives and comes first of what is not decided.
  std::optional<Group> next_group() {
    Group group;
    const auto structure = space_.structure(genome_);
    for (const Site& site : structure->sites) {
      if (site.name.kind != GeneKind::kChoice) continue;
      Alternatives alternatives = alternatives_of(site);
      if (group.sites.empty()) {
        if (decided_.count(alternatives) != 0) continue;
        if (!is_convolution(site) && !is_turned_norm(site)) continue;
        decided_.insert(alternatives);
        group.alternatives = std::move(alternatives);
      } else if (alternatives != group.alternatives) {
        continue;
      }
      group.sites.push_back(site);
    }
    if (group.sites.empty() || tries_left_ == 0) return std::nullopt;
    return group;
  }

  void decide(const Group& group) {
    Genome best;
    KernelShares best_shares;
    double most_saved = 0;
    for (Head head : group.alternatives) {
      for (bool copies : {false, true}) {
        if (tries_left_ == 0) break;
        auto changed = with_choice(group, head, copies);
        if (!changed) continue;
        --tries_left_;
        KernelShares shares = shares_of_(*changed);
        const double before = only_in(shares_, shares), after = only_in(shares, shares_);
        if (after > before * (1 - kMargin) || before - after <= most_saved) continue;
        most_saved = before - after;
        best = *std::move(changed);
        best_shares = std::move(shares);
      }
    }
    if (most_saved == 0) return;
    genome_ = std::move(best);
    shares_ = std::move(best_shares);
  }

  // The genome with nodes of that head for all of the group's classes, and perhaps copies for their
  // operands; empty where that is no other genome.
  std::optional<Genome> with_choice(const Group& group, Head head, bool copies) const {
    Genome changed = genome_;
    bool has_copies = false;
    for (const Site& site : group.sites) {
      for (int64_t value : site.values) {
        const auto node = static_cast<NodeId>(value);
        if (graph_.head(node) != head) continue;
        changed.set(site.name, value);
        for (ClassId child : graph_.children(node)) {
          has_copies = (copies && copy(graph_.find(child), changed)) || has_copies;
        }
        break;
      }
    }
    if (copies != has_copies || changed.structure_hash() == genome_.structure_hash()) {
      return std::nullopt;
    }
    return changed;
  }

  // Whether the class can be a copy.
  bool copy(ClassId cls, Genome& genome) const {
    bool found = false;
    graph_.for_each_node(cls, [&](NodeId node) {
      if (found || heads_.lowering(graph_.head(node)) != Lowering::kCopy) return;
      genome.set({GeneKind::kChoice, cls, 0}, static_cast<int64_t>(node));
      found = true;
    });
    return found;
  }

  RegionSpace& space_;
  const EGraph& graph_;
  const HeadTable& heads_;
  const std::function<KernelShares(const Genome&)>& shares_of_;
  size_t tries_left_;
  Genome genome_;
  KernelShares shares_;
  std::set<Alternatives> decided_;
};

}  // namespace

Genome gate_lowerings(RegionSpace& space, Genome from,
                      const std::function<KernelShares(const Genome&)>& shares, size_t tries_max) {
  return LoweringGate(space, std::move(from), shares, tries_max).run();
}

}  // namespace coordinator
