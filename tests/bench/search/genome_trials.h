// Draws random genomes of a graph's regions, decodes and verifies every one, and runs some of what
// comes out against the interpreter: no genome may crash, close a cycle or compute something else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/ir/llir/llir.h"
#include "common/runtime/tensor/tensor.h"
#include "coordinator/search/space/region_space.h"

namespace bench {

// Genomes of one region, of two kinds in turn: walks, as searches make them (a few mutations of the
// genome before), and genomes whose genes are drawn for all classes of the e-graph alike, fitting
// or not, which reach programs that no search would.
class GenomeSource {
 public:
  // Borrows the space.
  GenomeSource(coordinator::RegionSpace& space, uint64_t seed);
  coordinator::Genome next();

 private:
  coordinator::Genome walk();
  coordinator::Genome scatter();

  coordinator::RegionSpace& space_;
  common::Random random_;
  std::vector<coordinator::ClassId> classes_;
  coordinator::Genome at_;
  uint64_t drawn_ = 0;
};

// What a graph without loops computes on synthetic inputs, in float64 throughout, to hold programs
// against.
class Oracle {
 public:
  static common::Result<Oracle> create(const common::Graph& graph, uint64_t seed);
  // See largest_difference(); programs that compute the graph are within kDifferenceMax.
  common::Result<double> difference(const common::Program& program) const;

  // What remains is the order of sums, and constants that rules folded in the model's own float32.
  static constexpr double kDifferenceMax = 1e-6;

 private:
  std::vector<int64_t> sizes_;
  std::vector<common::HostTensor> inputs_;
  std::vector<common::HostTensor> expected_;
};

struct TrialOptions {
  int64_t genomes = 100'000;  // over all regions, in proportion to their nodes
  int64_t samples = 200;      // of them, evenly spread, are run
  uint64_t seed = 1;
};

struct Trials {
  int64_t genomes = 0;
  int64_t structures = 0;  // distinct
  int64_t refused = 0;     // programs that do not verify
  int64_t sampled = 0;
  int64_t wrong = 0;
  double worst = 0;       // difference among the sampled, see largest_difference()
  std::string complaint;  // of the first genome that was refused, wrong or did not run
  uint64_t enodes = 0;
  size_t regions = 0;
  double decode_us_p50 = 0;  // a genome to a verified program, memory of earlier ones included
  double decode_us_p99 = 0;
};

// kInvalidInput and the like when the interpreter cannot run the graph itself.
common::Result<Trials> try_genomes(const common::Graph& graph, const TrialOptions& options);

}  // namespace bench
