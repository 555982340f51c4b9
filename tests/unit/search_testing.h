// What tests of the search share.
#pragma once

#include <vector>

#include "common/base/random.h"
#include "coordinator/search/region_space.h"

namespace coordinator {

// As many mutations of the default; some may undo others.
inline Genome random_genome(RegionSpace& space, common::Random& random, uint64_t mutations) {
  Genome genome;
  for (uint64_t k = 0; k < mutations; ++k) {
    std::vector<Site> sites = space.decode(genome).sites;
    if (sites.empty()) break;
    const Site& site = sites[random.below(sites.size())];
    genome.set(site.name, site.values[random.below(site.values.size())]);
  }
  return genome;
}

}  // namespace coordinator
