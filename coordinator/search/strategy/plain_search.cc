#include "coordinator/search/strategy/plain_search.h"

#include <algorithm>
#include <utility>

#include "common/ir/llir/kernel_identity.h"

namespace coordinator {
namespace {

constexpr size_t kPopulation = 24;
constexpr int kAttempts = 48;  // genomes decoded for one proposal, at most
constexpr double kCrossover = 0.3;
constexpr int64_t kStagnation = 8;  // results without improvement per extra mutation
constexpr int64_t kMaxMutations = 5;

}  // namespace

PlainSearch::PlainSearch(RegionSpace& space, KernelTimes& times, uint64_t seed, bool evolves)
    : space_(space), random_(seed), evolves_(evolves) {
  seeds_.emplace_back();
  default_program_ = space_.decode({}).program;
  default_ns_ = times.estimate(default_program_).ns;
  if (!evolves_) return;
  for (Genome& genome : lowering_seeds(space_)) seeds_.push_back(std::move(genome));
  for (Genome& genome : packing_seeds(space_)) seeds_.push_back(std::move(genome));
  for (Genome& genome : multi_output_seeds(space_)) seeds_.push_back(std::move(genome));
  Genome stored;
  for (const Site& site : space_.decode({}).sites) {
    if (site.name.kind == GeneKind::kStore) stored.set(site.name, 1);
  }
  if (stored.size() != 0) seeds_.push_back(std::move(stored));
}

RegionCandidate PlainSearch::decode(const Genome& genome) const {
  auto program = std::make_shared<const common::Program>(space_.decode(genome).program);
  std::string_view origin = evolves_ ? "genetic" : "random";
  std::vector<common::Digest> bodies = common::body_hashes(*program);
  common::Digest fingerprint = common::program_fingerprint(*program, bodies);
  return {genome, program, fingerprint, 0, origin, {}, {}, std::move(bodies)};
}

const PlainSearch::Individual& PlainSearch::tournament() {
  size_t a = random_.below(population_.size());
  size_t b = random_.below(population_.size());
  return population_[std::min(a, b)];
}

void PlainSearch::mutate(Genome& genome, const std::vector<Site>& sites) {
  // Kinds are equally likely, however many sites each has.
  std::vector<const Site*> of_kind[3];
  for (const Site& site : sites) of_kind[static_cast<size_t>(site.name.kind)].push_back(&site);
  for (int attempt = 0; attempt < 8; ++attempt) {
    const auto& candidates = of_kind[random_.below(3)];
    if (candidates.empty()) continue;
    const Site& site = *candidates[random_.below(candidates.size())];
    int64_t value = site.values[random_.below(site.values.size())];
    if (value == site.current) continue;
    genome.set(site.name, value);
    return;
  }
}

Genome PlainSearch::random_genome() {
  // Which classes and kernels there are follows from the genes drawn before.
  Genome genome;
  for (GeneKind kind : {GeneKind::kChoice, GeneKind::kStore, GeneKind::kParameter}) {
    for (const Site& site : space_.decode(genome).sites) {
      if (site.name.kind != kind) continue;
      genome.set(site.name, site.values[random_.below(site.values.size())]);
    }
  }
  return genome;
}

Genome PlainSearch::child() {
  if (!evolves_) return random_genome();
  if (population_.empty()) {
    Genome genome = seeds_[random_.below(seeds_.size())];
    mutate(genome, space_.decode(genome).sites);
    return genome;
  }
  const Individual& mother = tournament();
  Genome genome = mother.candidate.genome;
  if (population_.size() > 1 && random_.chance(kCrossover)) {
    const Individual& father = tournament();
    for (const auto& [name, value] : father.candidate.genome.genes()) {
      if (random_.chance(0.5)) genome.set(name, value);
    }
  }
  int64_t extra = std::min(since_improvement_ / kStagnation, kMaxMutations - 1);
  auto mutations = 1 + static_cast<int64_t>(random_.below(static_cast<uint64_t>(extra) + 2));
  for (int64_t k = 0; k < mutations; ++k) mutate(genome, mother.sites);
  return genome;
}

void PlainSearch::tell(const RegionCandidate& candidate, std::optional<double> ns) {
  if (!ns) return;
  Individual individual{candidate, *ns, space_.decode(candidate.genome).sites};
  bool improved = population_.empty() || *ns < population_.front().ns;
  since_improvement_ = improved ? 0 : since_improvement_ + 1;
  auto place =
      std::upper_bound(population_.begin(), population_.end(), individual,
                       [](const Individual& a, const Individual& b) { return a.ns < b.ns; });
  population_.insert(place, std::move(individual));
  if (population_.size() > kPopulation) population_.pop_back();
}

std::optional<RegionCandidate> PlainSearch::propose() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Genome genome = next_seed_ < seeds_.size() ? seeds_[next_seed_++] : child();
    if (seen_genomes_.insert(genome.hash()).second) {
      RegionCandidate candidate = decode(genome);
      if (seen_.insert(candidate.fingerprint).second) return candidate;
    }
    ++duplicates_;
  }
  return std::nullopt;
}

common::Program PlainSearch::ranked(size_t rank) const {
  if (population_.empty()) return default_program_;
  return *population_[std::min(rank, population_.size() - 1)].candidate.program;
}

double PlainSearch::best_ns() const {
  return population_.empty() ? default_ns_ : population_.front().ns;
}

}  // namespace coordinator
