// The structures that a search begins with.
#include <utility>

#include "coordinator/search/space/fusion_gate.h"
#include "coordinator/search/strategy/guided_search.h"

namespace coordinator {
namespace {

constexpr size_t kGatedMax = 256;      // values whose fusion is decided before anything is measured
constexpr size_t kLoweringsMax = 128;  // structures looked at for convolutions' lowerings, likewise
constexpr double kMultiOutputPromise =
    0.9;  // of the default's time: else the first candidates go elsewhere

}  // namespace

void GuidedSearch::make_seeds() {
  Layout layout = lay_out({});
  default_ns_ = default_ns(layout);
  std::set<common::Digest> known{layout.structure->fingerprint};
  seeds_.all.emplace_back(Genome{}, std::move(layout));
  auto add = [&](Genome genome) {
    Layout other = lay_out(genome);
    if (known.insert(other.structure->fingerprint).second) {
      seeds_.all.emplace_back(std::move(genome), std::move(other));
    }
  };
  auto sort = [&] {
    std::stable_sort(seeds_.all.begin(), seeds_.all.end(), [&](const auto& a, const auto& b) {
      return default_ns(a.second) < default_ns(b.second);
    });
  };
  Gated gated = gate_fusion(
      space_, times_.calibration(), [this](const Genome& g) { return default_ns(lay_out(g)); },
      kGatedMax);
  decisions_ = std::move(gated.decisions);
  for (Genome& genome : lowering_seeds(space_)) add(std::move(genome));
  add(std::move(gated.genome));
  if (!common::is_gpu(space_.machine())) {
    sort();
    add(gate_lowerings(
        space_, seeds_.all.front().first,
        [this](const Genome& g) { return default_shares(lay_out(g)); }, kLoweringsMax));
  }
  for (Genome& genome : multi_output_seeds(space_)) {
    bool promises = default_ns(lay_out(genome)) < default_ns_ * kMultiOutputPromise;
    if (promises) add(std::move(genome));
  }
  sort();
  packings_ = packing_seeds(space_);
}

std::optional<common::Program> GuidedSearch::direct() {
  std::optional<Genome> genome = with_direct_sum(seeds_.all.front().first);
  if (!genome) return std::nullopt;
  for (size_t k = 1; k < kLoweringsMax; ++k) {
    auto next = with_direct_sum(*genome);
    if (!next) break;
    genome = std::move(next);
  }
  return whole_program(lay_out(*genome).structure->fused);
}

std::optional<Genome> GuidedSearch::with_direct_sum(const Genome& genome) {
  const HeadTable& heads = *space_.saturated().heads;
  auto is_filter = [&](int64_t value) {
    const auto node = static_cast<NodeId>(value);
    return heads.lowering(space_.saturated().graph->head(node)) == Lowering::kWinograd;
  };
  std::optional<Genome> best;
  double best_ns = 0;
  const auto structure = lay_out(genome).structure;  // others are laid out meanwhile
  for (const Site& site : structure->sites) {
    if (site.name.kind != GeneKind::kChoice || !is_filter(site.current)) continue;
    for (int64_t value : site.values) {
      if (is_filter(value)) continue;
      Genome other = genome;
      other.set(site.name, value);
      const double ns = default_ns(lay_out(other));
      if (best && ns >= best_ns) continue;
      best = std::move(other);
      best_ns = ns;
    }
    if (best) return best;
  }
  return best;
}

}  // namespace coordinator
