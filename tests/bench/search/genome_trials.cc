#include "tests/bench/search/genome_trials.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/roll/roll.h"
#include "common/runtime/interpreter/interpreter.h"
#include "common/runtime/tensor/synthetic.h"
#include "coordinator/search/partition/regions.h"
#include "tests/unit/search/program_interpreter.h"

namespace bench {
namespace {

using coordinator::ClassId;
using coordinator::GeneKind;
using coordinator::Genome;
using coordinator::NodeId;
using coordinator::RegionSpace;
using coordinator::Site;

constexpr uint64_t kWalkLength = 64;
constexpr uint64_t kStepMax = 6;
constexpr double kDensities[] = {0.02, 0.2, 1.0};  // of genes drawn for all classes
// What one region is tried with and held against.
class RegionTrial {
 public:
  RegionTrial(const common::Graph& region, Oracle oracle, uint64_t seed)
      : space_(region, clock_), source_(space_, seed), oracle_(std::move(oracle)) {}

  void run(int64_t genomes, int64_t samples, Trials& trials, std::vector<double>& decode_us) {
    int64_t taken = 0;
    for (int64_t k = 0; k < genomes; ++k) {
      Genome genome = source_.next();
      int64_t start = clock_.now_ns();
      auto structure = space_.structure(genome);
      auto program = RegionSpace::program(*structure, space_.schedules(*structure, genome));
      decode_us.push_back(static_cast<double>(clock_.now_ns() - start) * 1e-3);
      structures_.insert(structure->fingerprint);
      if (!program.ok()) {
        ++trials.refused;
        complain(trials, k, program.error().message);
        continue;
      }
      if (k * samples / genomes < taken) continue;
      ++taken;
      sample(*program, k, trials);
    }
    trials.structures += static_cast<int64_t>(structures_.size());
    trials.enodes += space_.saturated().report.nodes;
  }

 private:
  void sample(const common::Program& program, int64_t k, Trials& trials) {
    ++trials.sampled;
    auto difference = oracle_.difference(program);
    if (difference.ok()) trials.worst = std::max(trials.worst, *difference);
    if (difference.ok() && *difference <= Oracle::kDifferenceMax) return;
    ++trials.wrong;
    std::string why =
        difference.ok() ? common::cat("differs by ", *difference) : difference.error().message;
    complain(trials, k, common::cat(why, ":\n", common::print(program)));
  }

  static void complain(Trials& trials, int64_t k, const std::string& why) {
    if (trials.complaint.empty()) trials.complaint = common::cat("genome ", k, ": ", why);
  }

  common::SteadyClock clock_;
  RegionSpace space_;
  GenomeSource source_;
  Oracle oracle_;
  std::set<common::Digest> structures_;
};

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  auto at = values.begin() + std::lround(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

common::Result<Oracle> Oracle::create(const common::Graph& graph, uint64_t seed) {
  Oracle oracle;
  oracle.sizes_ = common::representative_sizes(graph.symbols);
  LFARM_ASSIGN_OR_RETURN(oracle.inputs_, common::synthetic_inputs(graph, oracle.sizes_, seed,
                                                                  common::InputPattern::kNormal));
  LFARM_ASSIGN_OR_RETURN(oracle.expected_,
                         common::interpret(graph, oracle.inputs_, {common::Precision::kWide}));
  return oracle;
}

common::Result<double> Oracle::difference(const common::Program& program) const {
  LFARM_ASSIGN_OR_RETURN(auto actual, common::testing::interpret_program(program, inputs_, sizes_,
                                                                         common::Precision::kWide));
  return common::testing::largest_difference(actual, expected_);
}

GenomeSource::GenomeSource(RegionSpace& space, uint64_t seed)
    : space_(space), random_(seed), classes_(space.saturated().graph->classes()) {}

Genome GenomeSource::next() {
  bool walks = drawn_++ % 2 == 0;
  return walks ? walk() : scatter();
}

Genome GenomeSource::walk() {
  if (drawn_ % kWalkLength == 1) at_ = {};
  auto structure = space_.structure(at_);
  std::vector<Site> sites = structure->sites;
  space_.schedules(*structure, at_, &sites);
  if (sites.empty()) return at_;
  for (uint64_t steps = 1 + random_.below(kStepMax); steps > 0; --steps) {
    const Site& site = sites[random_.below(sites.size())];
    at_.set(site.name, site.values[random_.below(site.values.size())]);
  }
  return at_;
}

Genome GenomeSource::scatter() {
  const coordinator::EGraph& graph = *space_.saturated().graph;
  double density = kDensities[random_.below(std::size(kDensities))];
  Genome genome;
  for (ClassId cls : classes_) {
    if (!random_.chance(density)) continue;
    std::vector<NodeId> nodes;
    graph.for_each_node(cls, [&](NodeId node) { nodes.push_back(node); });
    genome.set({GeneKind::kChoice, cls, 0}, nodes[random_.below(nodes.size())]);
    genome.set({GeneKind::kStore, cls, 0}, static_cast<int64_t>(random_.below(2)));
    auto form = static_cast<common::Template>(random_.below(common::kTemplateCount));
    const auto& parameters = common::schedule_parameters(form);
    if (parameters.empty()) continue;
    size_t p = random_.below(parameters.size());
    // One value too many: genes that do not fit are ignored.
    size_t digit = random_.below(parameters[p].values.size() + 1);
    int64_t value = digit < parameters[p].values.size() ? parameters[p].values[digit] : -7;
    genome.set(coordinator::parameter_gene(cls, form, p), value);
  }
  return genome;
}

common::Result<Trials> try_genomes(const common::Graph& graph, const TrialOptions& options) {
  coordinator::Cut cut = coordinator::cut_into_regions(common::roll(graph));
  size_t nodes = 0;
  for (const auto& region : cut.regions) nodes += region.graph.nodes.size();
  Trials trials;
  trials.regions = cut.regions.size();
  std::vector<double> decode_us;
  size_t before = 0;
  for (size_t r = 0; r < cut.regions.size(); ++r) {
    const common::Graph& region = cut.regions[r].graph;
    size_t after = before + region.nodes.size();
    auto share = [&](int64_t of) {
      auto upto = [&](size_t n) {
        return of * static_cast<int64_t>(n) / static_cast<int64_t>(nodes);
      };
      return upto(after) - upto(before);
    };
    LFARM_ASSIGN_OR_RETURN(Oracle oracle, Oracle::create(region, options.seed + r));
    RegionTrial trial(region, std::move(oracle), options.seed + r);
    trial.run(share(options.genomes), std::max<int64_t>(1, share(options.samples)), trials,
              decode_us);
    trials.genomes += share(options.genomes);
    before = after;
  }
  trials.decode_us_p50 = quantile(decode_us, 0.5);
  trials.decode_us_p99 = quantile(decode_us, 0.99);
  return trials;
}

}  // namespace bench
