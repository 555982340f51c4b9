#include "coordinator/search/region_search.h"

#include <algorithm>

namespace coordinator {
namespace {

constexpr size_t kPopulation = 24;
constexpr int kAttempts = 48;     // genomes decoded for one proposal, at most
constexpr size_t kBrood = 6;      // new programs that compete for one proposal
constexpr double kExplore = 0.2;  // chance to take a child against its prediction
constexpr double kCrossover = 0.3;
constexpr int64_t kStagnation = 8;  // results without improvement per extra mutation
constexpr int64_t kMaxMutations = 5;

}  // namespace

RegionSearch::RegionSearch(RegionSpace& space, KernelTimes& times, uint64_t seed,
                           SearchStrategy strategy)
    : space_(space), times_(times), random_(seed), strategy_(strategy) {
  RegionCandidate plain_default = decode({}, nullptr);
  default_program_ = plain_default.program;
  default_ns_ = plain_default.predicted_ns;
  make_seeds();
}

RegionCandidate RegionSearch::decode(const Genome& genome, std::vector<Site>* sites) {
  Decoded decoded = space_.decode(genome);
  if (sites) *sites = std::move(decoded.sites);
  RegionCandidate candidate;
  candidate.genome = genome;
  candidate.fingerprint = common::program_fingerprint(decoded.fused.program);
  candidate.predicted_ns = times_.estimate(decoded.fused.program).ns;
  candidate.program = std::make_shared<const common::Program>(std::move(decoded.fused.program));
  return candidate;
}

void RegionSearch::make_seeds() {
  std::vector<Site> sites;
  decode({}, &sites);
  const EGraph& graph = *space_.saturated().graph;
  const HeadTable& heads = *space_.saturated().heads;
  seeds_.emplace_back();
  if (strategy_ == SearchStrategy::kRandom) return;
  for (Lowering lowering : {Lowering::kGemm, Lowering::kTile}) {
    Genome genome;
    for (const Site& site : sites) {
      if (site.name.kind != GeneKind::kChoice) continue;
      for (int64_t value : site.values) {
        if (heads.lowering(graph.head(static_cast<NodeId>(value))) == lowering) {
          genome.set(site.name, value);
        }
      }
    }
    if (genome.size() != 0) seeds_.push_back(std::move(genome));
  }
  Genome stored;
  for (const Site& site : sites) {
    if (site.name.kind == GeneKind::kStore) stored.set(site.name, 1);
  }
  if (stored.size() != 0) seeds_.push_back(std::move(stored));
}

const RegionSearch::Individual& RegionSearch::tournament() {
  size_t a = random_.below(population_.size());
  size_t b = random_.below(population_.size());
  return population_[std::min(a, b)];
}

void RegionSearch::mutate(Genome& genome, const std::vector<Site>& sites) {
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

Genome RegionSearch::random_genome() {
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

Genome RegionSearch::child() {
  if (strategy_ == SearchStrategy::kRandom) return random_genome();
  if (population_.empty()) {
    std::vector<Site> sites;
    Genome genome = seeds_[random_.below(seeds_.size())];
    decode(genome, &sites);
    mutate(genome, sites);
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

void RegionSearch::insert(Individual individual) {
  if (individual.sites.empty()) {
    individual.sites = space_.decode(individual.candidate.genome).sites;
  }
  bool improved = population_.empty() || individual.ns < population_.front().ns;
  since_improvement_ = improved ? 0 : since_improvement_ + 1;
  auto place =
      std::upper_bound(population_.begin(), population_.end(), individual,
                       [](const Individual& a, const Individual& b) { return a.ns < b.ns; });
  population_.insert(place, std::move(individual));
  if (population_.size() > kPopulation) population_.pop_back();
}

void RegionSearch::tell(const RegionCandidate& candidate, double ns) {
  insert({candidate, ns, {}});
}

std::optional<RegionCandidate> RegionSearch::accept(RegionCandidate candidate) {
  seen_.insert(candidate.fingerprint);
  return candidate;
}

std::optional<RegionCandidate> RegionSearch::propose() {
  while (next_seed_ < seeds_.size()) {
    RegionCandidate candidate = decode(seeds_[next_seed_++], nullptr);
    seen_genomes_.insert(candidate.genome.hash());
    if (seen_.count(candidate.fingerprint) == 0) return accept(std::move(candidate));
    ++duplicates_;
  }
  std::vector<RegionCandidate> brood;
  for (int attempt = 0; attempt < kAttempts && brood.size() < kBrood; ++attempt) {
    Genome genome = child();
    if (!seen_genomes_.insert(genome.hash()).second) {
      ++duplicates_;
      continue;
    }
    std::vector<Site> sites;
    RegionCandidate candidate = decode(genome, &sites);
    if (seen_.count(candidate.fingerprint) != 0) {
      ++duplicates_;
      continue;
    }
    if (strategy_ != SearchStrategy::kModel) return accept(std::move(candidate));
    KernelTimes::Estimate estimate = times_.estimate(*candidate.program);
    if (estimate.measured) {
      // Its kernels ran in other candidates: the sum of their times is as good as a run.
      seen_.insert(candidate.fingerprint);
      ++composed_;
      insert({std::move(candidate), estimate.ns, std::move(sites)});
      continue;
    }
    brood.push_back(std::move(candidate));
  }
  if (brood.empty()) return std::nullopt;
  auto chosen = std::min_element(brood.begin(), brood.end(),
                                 [](const RegionCandidate& a, const RegionCandidate& b) {
                                   return a.predicted_ns < b.predicted_ns;
                                 });
  if (random_.chance(kExplore)) {
    chosen = brood.begin() + static_cast<std::ptrdiff_t>(random_.below(brood.size()));
  }
  // The others may come again, later and better informed.
  for (const RegionCandidate& other : brood) {
    if (&other != &*chosen) seen_genomes_.erase(other.genome.hash());
  }
  return accept(std::move(*chosen));
}

std::shared_ptr<const common::Program> RegionSearch::ranked(size_t rank) const {
  if (population_.empty()) return default_program_;
  return population_[std::min(rank, population_.size() - 1)].candidate.program;
}

double RegionSearch::best_ns() const {
  return population_.empty() ? default_ns_ : population_.front().ns;
}

}  // namespace coordinator
