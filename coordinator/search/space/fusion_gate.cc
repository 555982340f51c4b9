#include "coordinator/search/space/fusion_gate.h"

#include <cmath>
#include <limits>

#include "common/base/cat.h"
#include "common/cost/gpu_time.h"

namespace coordinator {
namespace {

// Predictions of one region rank well once kernels of its target were measured; by default
// constants they are off by tens of per cent, but not all in one direction.
constexpr double kMeasuredMargin = 0.002;
constexpr double kDefaultMargin = 0.02;
// On a GPU what a value in place saves is a launch, which all predictions agree on, and its store.
constexpr double kGpuMarginNs = 0.4 * common::kGpuLaunchNs;

}  // namespace

std::string print(const FusionDecision& d) {
  const char* choice = d.is_materialised ? "stored" : "in place";
  return common::cat(d.operation, ": ", choice,
                     d.is_materialised == d.was_materialised ? "" : " (overruled)", ", ",
                     std::llround(d.is_materialised ? d.stored_ns : d.in_place_ns), " ns against ",
                     std::llround(d.is_materialised ? d.in_place_ns : d.stored_ns), " ns");
}

double fusion_margin(Calibration calibration) {
  switch (calibration) {
    case Calibration::kMeasured:
      return kMeasuredMargin;
    case Calibration::kDefault:
      return kDefaultMargin;
    case Calibration::kNone:
      return std::numeric_limits<double>::infinity();
  }
  return std::numeric_limits<double>::infinity();
}

Gated gate_fusion(RegionSpace& space, Calibration calibration,
                  const std::function<double(const Genome&)>& worth, size_t values_max) {
  Gated gated;
  double margin = fusion_margin(calibration);
  bool is_gpu = common::is_gpu(space.machine());
  double now = worth({});
  auto start = space.structure({});
  for (const Site& site : start->sites) {
    if (site.name.kind != GeneKind::kStore) continue;
    if (gated.decisions.size() == values_max) break;
    Genome changed = gated.genome;
    changed.set(site.name, site.current != 0 ? 0 : 1);
    // A value that must be stored stays so whatever its gene says.
    if (space.structure(changed)->fingerprint == space.structure(gated.genome)->fingerprint) {
      continue;
    }
    double other = worth(changed);
    FusionDecision decision;
    decision.operation = space.saturated().heads->name(site.head);
    decision.was_materialised = site.current != 0;
    decision.stored_ns = decision.was_materialised ? now : other;
    decision.in_place_ns = decision.was_materialised ? other : now;
    double least = is_gpu ? kGpuMarginNs : now * margin;
    bool overrules = std::isfinite(margin) && other < now - least;
    decision.is_materialised = decision.was_materialised != overrules;
    gated.decisions.push_back(std::move(decision));
    if (!overrules) continue;
    gated.genome = std::move(changed);
    now = other;
  }
  return gated;
}

}  // namespace coordinator
