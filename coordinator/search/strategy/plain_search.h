// Random sampling and a plain steady-state genetic search: what the guided search is held against.
#pragma once

#include <set>

#include "common/base/random.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {

class PlainSearch final : public RegionSearch {
 public:
  PlainSearch(RegionSpace& space, KernelTimes& times, uint64_t seed, bool evolves);

  std::optional<RegionCandidate> propose() override;
  void tell(const RegionCandidate& candidate, std::optional<double> ns) override;
  common::Program ranked(size_t rank) const override;
  double best_ns() const override;
  bool has_measurement() const override { return !population_.empty(); }

 private:
  struct Individual {
    RegionCandidate candidate;
    double ns = 0;
    std::vector<Site> sites;
  };
  RegionCandidate decode(const Genome& genome) const;
  const Individual& tournament();
  Genome child();
  Genome random_genome();
  void mutate(Genome& genome, const std::vector<Site>& sites);

  RegionSpace& space_;
  common::Random random_;
  const bool evolves_;
  std::vector<Genome> seeds_;
  size_t next_seed_ = 0;
  std::vector<Individual> population_;  // best first
  std::set<common::Digest> seen_;
  std::set<uint64_t> seen_genomes_;
  common::Program default_program_;
  double default_ns_ = 0;
  int64_t since_improvement_ = 0;
};

}  // namespace coordinator
