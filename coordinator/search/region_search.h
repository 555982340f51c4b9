// Steady-state genetic search over one region's programs.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/base/random.h"
#include "coordinator/search/kernel_times.h"
#include "coordinator/search/region_space.h"

namespace coordinator {

struct RegionCandidate {
  Genome genome;
  std::shared_ptr<const common::Program> program;
  common::Digest fingerprint;
  double predicted_ns = 0;
};

// Proposes genomes: seeds first, then children of what worked, ranked by predicted time. Equal
// programs are proposed once, whatever genomes they come from. Not thread-safe.
class RegionSearch {
 public:
  // Borrows the space and the times.
  RegionSearch(RegionSpace& space, KernelTimes& times, uint64_t seed,
               SearchStrategy strategy = SearchStrategy::kModel);

  // Empty when nothing new was found in reasonable time.
  std::optional<RegionCandidate> propose();
  // A candidate ran and was right, and took this long.
  void tell(const RegionCandidate& candidate, double ns);
  // The rank-th best known program (0 is the best); the default while nothing was measured.
  std::shared_ptr<const common::Program> ranked(size_t rank) const;
  // Time of the best, or of the default as predicted.
  double best_ns() const;
  bool has_measurement() const { return !population_.empty(); }
  int64_t duplicates() const { return duplicates_; }
  // Programs whose time follows from measured kernels, so that they needed no run of their own.
  int64_t composed() const { return composed_; }

 private:
  struct Individual {
    RegionCandidate candidate;
    double ns = 0;
    std::vector<Site> sites;
  };
  RegionCandidate decode(const Genome& genome, std::vector<Site>* sites);
  const Individual& tournament();
  Genome child();
  Genome random_genome();
  void mutate(Genome& genome, const std::vector<Site>& sites);
  void make_seeds();
  void insert(Individual individual);
  std::optional<RegionCandidate> accept(RegionCandidate candidate);

  RegionSpace& space_;
  KernelTimes& times_;
  common::Random random_;
  SearchStrategy strategy_;
  std::vector<Genome> seeds_;
  size_t next_seed_ = 0;
  std::vector<Individual> population_;  // best first
  std::set<common::Digest> seen_;
  std::set<uint64_t> seen_genomes_;
  std::shared_ptr<const common::Program> default_program_;
  double default_ns_ = 0;
  int64_t duplicates_ = 0;
  int64_t composed_ = 0;
  int64_t since_improvement_ = 0;
};

}  // namespace coordinator
