#include "coordinator/search/region_search.h"

#include <algorithm>

#include "coordinator/search/guided_search.h"
#include "coordinator/search/plain_search.h"

namespace coordinator {

std::unique_ptr<RegionSearch> RegionSearch::create(RegionSpace& space, KernelTimes& times,
                                                   uint64_t seed, SearchStrategy strategy) {
  if (strategy == SearchStrategy::kModel) {
    return std::make_unique<GuidedSearch>(space, times, seed);
  }
  return std::make_unique<PlainSearch>(space, times, seed, strategy == SearchStrategy::kGenetic);
}

std::vector<Genome> lowering_seeds(RegionSpace& space) {
  const EGraph& graph = *space.saturated().graph;
  const HeadTable& heads = *space.saturated().heads;
  std::vector<Site> sites = space.structure({})->sites;
  std::vector<Genome> seeds;
  for (Lowering lowering : {Lowering::kGemm, Lowering::kTile}) {
    Genome genome;
    for (const Site& site : sites) {
      if (site.name.kind != GeneKind::kChoice) continue;
      // The same operands, if they can be lowered so.
      auto same = graph.children(static_cast<NodeId>(site.current));
      for (int64_t value : site.values) {
        auto node = static_cast<NodeId>(value);
        if (heads.lowering(graph.head(node)) != lowering) continue;
        genome.set(site.name, value);
        auto children = graph.children(node);
        if (std::equal(children.begin(), children.end(), same.begin(), same.end())) break;
      }
    }
    if (genome.size() != 0) seeds.push_back(std::move(genome));
  }
  return seeds;
}

}  // namespace coordinator
