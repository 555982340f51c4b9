// All the programs that can compute a region: its saturated e-graph and the decoding of genomes.
#pragma once

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/egraph/extraction.h"
#include "coordinator/rules/saturate.h"
#include "coordinator/search/fusion.h"
#include "coordinator/search/genome.h"

namespace coordinator {

// One thing about a candidate that a mutation can change, and the values it may take.
struct Site {
  GeneName name;
  int64_t current = 0;
  std::vector<int64_t> values;  // at least two
};

struct Decoded {
  FusedProgram fused;
  std::vector<Site> sites;
};

// Not thread-safe.
class RegionSpace {
 public:
  RegionSpace(const common::Graph& region, const common::Clock& clock);

  // Any genome gives a verified, acyclic program: genes that do not fit are ignored or repaired.
  // Costs what the chosen graph holds, not what the e-graph holds.
  Decoded decode(const Genome& genome);
  // The region as the model says it, one kernel per operation.
  const common::Program& plain() const { return plain_; }
  const common::Graph& graph() const { return region_; }
  const Saturated& saturated() const { return saturated_; }

 private:
  double node_cost(NodeId node) const;
  Selected select(const Genome& genome, std::vector<Site>& sites);

  common::Graph region_;
  std::vector<int64_t> sizes_;
  Saturated saturated_;
  BestNodes best_;
  std::unique_ptr<Decoder> decoder_;
  common::Program plain_;
};

}  // namespace coordinator
