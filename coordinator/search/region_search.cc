#include "coordinator/search/region_search.h"

#include <algorithm>

#include "coordinator/search/guided_search.h"
#include "coordinator/search/joint_kernels.h"
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
  // The last finds attention between tiles, where a library's rounding is refused.
  const std::vector<std::vector<Lowering>> wishes = {{Lowering::kGemm},
                                                     {Lowering::kTile},
                                                     {Lowering::kAttention},
                                                     {Lowering::kTile, Lowering::kAttention}};
  for (const std::vector<Lowering>& wish : wishes) {
    Genome genome;
    for (Lowering lowering : wish) {
      for (const Site& site : sites) {
        if (site.name.kind != GeneKind::kChoice) continue;
        for (int64_t value : site.values) {
          if (heads.lowering(graph.head(static_cast<NodeId>(value))) == lowering) {
            genome.set(site.name, value);
          }
        }
      }
    }
    if (genome.size() != 0) seeds.push_back(std::move(genome));
  }
  return seeds;
}

std::vector<Genome> joint_seeds(RegionSpace& space) {
  std::vector<Genome> seeds;
  for (int64_t wish : {kStoreWithUser, kStoreWithSibling}) {
    Genome genome;
    for (const Site& site : space.structure({})->sites) {
      bool is_stored = site.name.kind == GeneKind::kStore && site.current != kStoreInPlace;
      bool may = std::find(site.values.begin(), site.values.end(), wish) != site.values.end();
      if (is_stored && may) genome.set(site.name, wish);
    }
    if (genome.size() != 0) seeds.push_back(std::move(genome));
  }
  return seeds;
}

}  // namespace coordinator
