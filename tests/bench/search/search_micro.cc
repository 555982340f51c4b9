// search --micro: what decoding a genome into a program costs on real graphs. genomes --scaling
// says what the cost depends on.
#include <algorithm>
#include <cstdio>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/ir/roll/roll.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/region_space.h"
#include "tests/bench/bench.h"
#include "tests/bench/search/search_graphs.h"

namespace bench {
namespace {

using coordinator::Genome;

constexpr int kDecodings = 300;

// Of the largest region of a graph: from nothing, and after one more mutation.
void decoding_costs(const SearchGraph& graph) {
  common::SteadyClock clock;
  coordinator::Cut cut = coordinator::cut_into_regions(common::roll(graph.graph));
  auto largest = std::max_element(
      cut.regions.begin(), cut.regions.end(),
      [](const auto& a, const auto& b) { return a.graph.nodes.size() < b.graph.nodes.size(); });
  coordinator::RegionSpace space(largest->graph, clock);
  int64_t start = clock.now_ns();
  auto structure = space.structure({});
  double first_us = static_cast<double>(clock.now_ns() - start) * 1e-3;
  common::Random random(1);
  Genome genome;
  start = clock.now_ns();
  for (int k = 0; k < kDecodings; ++k) {
    const auto& site = structure->sites[random.below(structure->sites.size())];
    genome.set(site.name, site.values[random.below(site.values.size())]);
    structure = space.structure(genome);
  }
  double step_us = static_cast<double>(clock.now_ns() - start) * 1e-3 / kDecodings;
  start = clock.now_ns();
  constexpr int kPrograms = 20;
  size_t calls = 0;
  for (int k = 0; k < kPrograms; ++k) calls = space.decode(genome).program.calls.size();
  double program_us = static_cast<double>(clock.now_ns() - start) * 1e-3 / kPrograms;
  std::printf(
      "{\"micro\":\"decode\",\"graph\":\"%s\",\"nodes\":%zu,\"enodes\":%llu,\"kernels\":%zu,"
      "\"calls\":%zu,\"first_us\":%.1f,\"after_a_mutation_us\":%.1f,\"to_program_us\":%.1f}\n",
      graph.name.c_str(), largest->graph.nodes.size(),
      static_cast<unsigned long long>(space.saturated().report.nodes),
      structure->fused.kernels.size(), calls, first_us, step_us, program_us);
}

}  // namespace

void run_search_micro(const std::vector<SearchGraph>& graphs) {
  for (const SearchGraph& graph : graphs) decoding_costs(graph);
}

}  // namespace bench
