// search --micro: what one step of a search costs: changing a genome and its hash, finding out that
// a genome was there before, and decoding one into a program.
#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/ir/roll.h"
#include "coordinator/search/region_space.h"
#include "coordinator/search/regions.h"
#include "tests/bench/bench.h"
#include "tests/bench/search_graphs.h"

namespace bench {
namespace {

using coordinator::GeneKind;
using coordinator::Genome;

constexpr int kMutations = 200'000;
constexpr int kDecodings = 300;

// A mutation updates the hash by what it changes: the time may grow with the genes only as a lookup
// among them does.
void genome_costs() {
  common::SteadyClock clock;
  for (uint32_t genes : {10u, 100u, 1000u, 10000u}) {
    Genome genome;
    for (uint32_t k = 0; k < genes; ++k) genome.set({GeneKind::kParameter, k, 0}, 1);
    common::Random random(genes);
    int64_t start = clock.now_ns();
    uint64_t seen = 0;
    for (int k = 0; k < kMutations; ++k) {
      auto cls = static_cast<coordinator::ClassId>(random.below(genes));
      genome.set({GeneKind::kParameter, cls, 0}, static_cast<int64_t>(random.below(8)));
      seen ^= genome.hash();
    }
    double mutate_ns = static_cast<double>(clock.now_ns() - start) / kMutations;
    std::unordered_set<uint64_t> known;
    int64_t duplicates = 0;
    start = clock.now_ns();
    for (int k = 0; k < kMutations; ++k) {
      auto cls = static_cast<coordinator::ClassId>(random.below(genes));
      genome.set({GeneKind::kParameter, cls, 0}, static_cast<int64_t>(random.below(2)));
      duplicates += known.insert(genome.hash()).second ? 0 : 1;
    }
    double detect_ns = static_cast<double>(clock.now_ns() - start) / kMutations;
    std::printf(
        "{\"micro\":\"genome\",\"genes\":%u,\"mutate_and_hash_ns\":%.1f,"
        "\"mutate_and_look_up_ns\":%.1f,\"duplicates\":%lld,\"check\":%llu}\n",
        genes, mutate_ns, detect_ns, static_cast<long long>(duplicates),
        static_cast<unsigned long long>(seen & 1));
  }
}

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
  genome_costs();
  for (const SearchGraph& graph : graphs) decoding_costs(graph);
}

}  // namespace bench
