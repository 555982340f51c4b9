#include "coordinator/search/strategy/region_search.h"

#include <algorithm>
#include <map>

#include "common/base/contains.h"
#include "coordinator/search/fusion/multi_output.h"
#include "coordinator/search/strategy/guided_search.h"
#include "coordinator/search/strategy/plain_search.h"

namespace coordinator {

std::unique_ptr<RegionSearch> RegionSearch::create(RegionSpace& space, KernelTimes& times,
                                                   uint64_t seed, SearchStrategy strategy,
                                                   const Genome* kin) {
  if (strategy == SearchStrategy::kModel) {
    return std::make_unique<GuidedSearch>(space, times, seed, kin);
  }
  return std::make_unique<PlainSearch>(space, times, seed, strategy == SearchStrategy::kGenetic);
}

namespace {

// Chooses a lowering wherever there is one: of the same operands if they can be lowered so.
void choose_lowering(RegionSpace& space, Lowering lowering, Genome& genome) {
  const EGraph& graph = *space.saturated().graph;
  const HeadTable& heads = *space.saturated().heads;
  std::vector<Site> sites = space.structure(genome)->sites;
  for (const Site& site : sites) {
    if (site.name.kind != GeneKind::kChoice) continue;
    auto same = graph.children(static_cast<NodeId>(site.current));
    for (int64_t value : site.values) {
      auto node = static_cast<NodeId>(value);
      if (heads.lowering(graph.head(node)) != lowering) continue;
      genome.set(site.name, value);
      auto children = graph.children(node);
      if (std::equal(children.begin(), children.end(), same.begin(), same.end())) break;
    }
  }
}

}  // namespace

std::vector<Genome> lowering_seeds(RegionSpace& space) {
  // One after the other.
  const std::vector<std::vector<Lowering>> wishes = {
      {Lowering::kGemm},
      {Lowering::kTile},
      {Lowering::kGemm, Lowering::kCopy},
      {Lowering::kTile, Lowering::kCopy},
      {Lowering::kWinograd},
      {Lowering::kAttention},
      // Finds attention between tiles, where a library's rounding is refused.
      {Lowering::kTile, Lowering::kAttention},
  };
  std::vector<Genome> seeds;
  for (const std::vector<Lowering>& wish : wishes) {
    Genome genome;
    for (Lowering lowering : wish) choose_lowering(space, lowering, genome);
    if (genome.size() != 0) seeds.push_back(std::move(genome));
  }
  return seeds;
}

namespace {

// A contraction, or the sum of one with something.
bool holds_contraction(const RegionSpace& space, ClassId cls, bool or_sum = true) {
  const EGraph& graph = *space.saturated().graph;
  const HeadTable& heads = *space.saturated().heads;
  bool found = false;
  graph.for_each_node(cls, [&](NodeId n) {
    const common::Node& node = heads.node(graph.head(n));
    found = found || node.op == common::Op::kContract;
    bool is_sum = or_sum && node.op == common::Op::kBinary &&
                  common::attr<common::BinaryAttr>(node).op == common::BinaryOp::kAdd;
    if (!is_sum) return;
    for (ClassId child : graph.children(n)) {
      found = found || holds_contraction(space, graph.find(child), false);
    }
  });
  return found;
}

// A sum with a contraction, which may be seen as rows of a batch.
bool is_biased(const RegionSpace& space, ClassId cls) {
  const EGraph& graph = *space.saturated().graph;
  const HeadTable& heads = *space.saturated().heads;
  bool found = holds_contraction(space, cls);
  graph.for_each_node(cls, [&](NodeId n) {
    const common::Node& node = heads.node(graph.head(n));
    bool is_sum = node.op == common::Op::kBinary &&
                  common::attr<common::BinaryAttr>(node).op == common::BinaryOp::kAdd;
    if (!is_sum) return;
    for (ClassId child : graph.children(n)) {
      graph.for_each_node(graph.find(child), [&](NodeId seen) {
        if (heads.node(graph.head(seen)).op != common::Op::kView) return;
        found = found || holds_contraction(space, graph.find(graph.children(seen)[0]), false);
      });
    }
  });
  return found;
}

// What the choice makes a contraction's class a slice of, with its bias or without: a contraction
// of more columns, or its sum with more biases; else kNone.
ClassId sliced_by(const RegionSpace& space, int64_t choice) {
  const EGraph& graph = *space.saturated().graph;
  const HeadTable& heads = *space.saturated().heads;
  auto node = static_cast<NodeId>(choice);
  const common::Node& view = heads.node(graph.head(node));
  if (view.op != common::Op::kView) return kNone;
  ClassId from = graph.find(graph.children(node)[0]);
  ClassId to = graph.class_of(node);
  if (holds_contraction(space, to, false) && holds_contraction(space, from, false)) return from;
  common::Shape whole;
  graph.for_each_node(from, [&](NodeId n) { whole = heads.node(graph.head(n)).shape; });
  bool is_part = common::element_count(view.shape) != common::element_count(whole);
  return is_part && is_biased(space, to) && holds_contraction(space, from) ? from : kNone;
}

}  // namespace

std::vector<Genome> packing_seeds(RegionSpace& space) {
  std::vector<Site> sites = space.structure({})->sites;
  std::map<ClassId, std::vector<std::pair<const Site*, int64_t>>> slices;
  for (const Site& site : sites) {
    if (site.name.kind != GeneKind::kChoice) continue;
    for (int64_t value : site.values) {
      ClassId from = sliced_by(space, value);
      if (from != kNone) slices[from].emplace_back(&site, value);
    }
  }
  // Siblings may be packed as they are and with what was folded into their weights.
  Genome first, last;
  for (const auto& [from, choices] : slices) {
    if (choices.size() < 2) continue;
    for (const auto& [site, value] : choices) {
      if (!first.get(site->name)) first.set(site->name, value);
      last.set(site->name, value);
    }
  }
  std::vector<Genome> seeds;
  if (first.size() != 0) seeds.push_back(first);
  if (last.hash() != first.hash()) seeds.push_back(last);
  return seeds;
}

void set_choice(const RegionSpace& space, const std::vector<Site>& sites, const Site& site,
                int64_t value, Genome& genome) {
  genome.set(site.name, value);
  if (site.name.kind != GeneKind::kChoice) return;
  ClassId to = sliced_by(space, value), from = sliced_by(space, site.current);
  if (to == from) return;
  for (const Site& other : sites) {
    if (other.name.kind != GeneKind::kChoice || other.name == site.name) continue;
    bool leaves = to == kNone && sliced_by(space, other.current) == from;
    if (to == kNone && !leaves) continue;
    for (int64_t v : other.values) {
      if (sliced_by(space, v) != to) continue;
      genome.set(other.name, v);
      break;
    }
  }
}

std::vector<Genome> multi_output_seeds(RegionSpace& space) {
  std::vector<Genome> seeds;
  for (int64_t wish : {kStoreWithUser, kStoreWithSibling}) {
    Genome genome;
    for (const Site& site : space.structure({})->sites) {
      bool is_materialised = site.name.kind == GeneKind::kStore && site.current != kStoreInPlace;
      bool may = common::contains(site.values, wish);
      if (is_materialised && may) genome.set(site.name, wish);
    }
    if (genome.size() != 0) seeds.push_back(std::move(genome));
  }
  return seeds;
}

}  // namespace coordinator
