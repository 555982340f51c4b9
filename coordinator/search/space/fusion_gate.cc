#include "coordinator/search/space/fusion_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/cost/gpu_time.h"

namespace coordinator {
namespace {

// Predictions of one region rank well once kernels of its target were measured; by default
// constants they are off by tens of per cent, but not all in one direction.
constexpr double kMeasuredMargin = 0.002;
constexpr double kDefaultMargin = 0.02;
// On a GPU a value in place saves a launch, which all predictions agree on, and its store. So
// little speaks for it, and much has to speak for another launch.
constexpr double kGpuInPlaceNs = 0.05 * common::kGpuLaunchNs;
constexpr double kGpuStoredNs = 0.4 * common::kGpuLaunchNs;
// In place at a cost of less than this alone, a value may be worth it with others.
constexpr double kGpuTieNs = 0.5 * common::kGpuLaunchNs;
constexpr size_t kFewTies = 8;
// And of less than this, with others of other operations: a norm that both halves of a gated
// product compute costs each of them more than its launch, and saves more where they share one.
constexpr double kGpuNearNs = 4 * common::kGpuLaunchNs;
constexpr size_t kMixedMax = 12, kPairedMax = 6;  // those that cost least

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

namespace {

// A stored value that costs little more in place.
struct Near {
  double cost_ns = 0;
  GeneName gene;
  std::string operation;
};

class Gate {
 public:
  Gate(RegionSpace& space, double margin, const std::function<double(const Genome&)>& worth,
       size_t values_max)
      : space_(space), margin_(margin), worth_(worth), values_max_(values_max), now_(worth({})) {}

  // Whether some value's default was overruled.
  bool pass() {
    bool changes = false;
    ties_.clear();
    near_.clear();
    auto structure = space_.structure(gated_.genome);
    for (const Site& site : structure->sites) {
      if (site.name.kind != GeneKind::kStore) continue;
      if (gated_.decisions.size() == values_max_) break;
      changes = decide(site) || changes;
    }
    return changes;
  }
  // Takes values of one operation in place together that cost less than a launch one by one: the
  // sums of three projections are rounded in one launch, which is saved when none of them is
  // stored. All of them, or all but one where they are few.
  void pass_together() {
    for (const auto& [operation, names] : ties_) {
      bool is_taken = take_in_place(operation, names);
      const bool is_few = names.size() > 2 && names.size() <= kFewTies;
      for (size_t k = 0; is_few && k < names.size() && !is_taken; ++k) {
        std::vector<GeneName> others = names;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
        is_taken = take_in_place(operation, others);
      }
    }
  }
  // Takes stored values of different operations in place together. The candidates are the values
  // whose cost in place is lowest: first as many of them as possible, then every pair.
  void pass_mixed() {
    std::ranges::stable_sort(near_, {}, &Near::cost_ns);
    if (near_.size() > kMixedMax) near_.resize(kMixedMax);
    for (size_t count = near_.size(); count > 2; --count) {
      if (take_near(std::span(near_).first(count))) return;
    }
    if (near_.size() > kPairedMax) near_.resize(kPairedMax);
    for (size_t a = 0; a < near_.size(); ++a) {
      for (size_t b = a + 1; b < near_.size(); ++b) {
        const Near pair[] = {near_[a], near_[b]};
        (void)take_near(pair);
      }
    }
  }
  Gated take() { return std::move(gated_); }

 private:
  bool decide(const Site& site) {
    Genome changed = gated_.genome;
    const bool is_stored = site.current != 0;
    changed.set(site.name, is_stored ? 0 : 1);
    // A value that must be stored stays so whatever its gene says.
    if (space_.structure(changed)->fingerprint == space_.structure(gated_.genome)->fingerprint) {
      return false;
    }
    std::string name = space_.saturated().heads->name(site.head);
    if (decide(std::move(changed), name, is_stored)) return true;
    const FusionDecision& kept = gated_.decisions.back();
    if (!is_stored) return false;
    const double cost_ns = kept.in_place_ns - kept.stored_ns;
    if (cost_ns < kGpuTieNs) ties_[name.substr(0, name.find(' '))].push_back(site.name);
    if (cost_ns < kGpuNearNs) near_.push_back({cost_ns, site.name, name});
    return false;
  }

  bool take_in_place(const std::string& operation, const std::vector<GeneName>& names) {
    if (names.size() < 2) return false;
    Genome changed = gated_.genome;
    for (const GeneName& name : names) changed.set(name, 0);
    return decide(std::move(changed), common::cat(names.size(), " of ", operation), true);
  }

  bool take_near(std::span<const Near> values) {
    Genome changed = gated_.genome;
    std::string names;
    for (const Near& value : values) {
      changed.set(value.gene, 0);
      names += common::cat(names.empty() ? "" : " with ", value.operation);
    }
    return decide(std::move(changed), std::move(names), true);
  }

  // Whether the other genome is taken.
  bool decide(Genome changed, std::string operation, bool was_materialised) {
    double other = worth_(changed);
    FusionDecision decision;
    decision.operation = std::move(operation);
    decision.was_materialised = was_materialised;
    decision.stored_ns = was_materialised ? now_ : other;
    decision.in_place_ns = was_materialised ? other : now_;
    double least = now_ * margin_;
    if (common::is_gpu(space_.machine())) least = was_materialised ? kGpuInPlaceNs : kGpuStoredNs;
    bool overrules = std::isfinite(margin_) && other < now_ - least;
    decision.is_materialised = was_materialised != overrules;
    gated_.decisions.push_back(std::move(decision));
    if (!overrules) return false;
    gated_.genome = std::move(changed);
    now_ = other;
    return true;
  }

  RegionSpace& space_;
  const double margin_;
  const std::function<double(const Genome&)>& worth_;
  const size_t values_max_;
  double now_;
  Gated gated_;
  // Of the last pass.
  std::map<std::string, std::vector<GeneName>> ties_;
  std::vector<Near> near_;
};

}  // namespace

Gated gate_fusion(RegionSpace& space, Calibration calibration,
                  const std::function<double(const Genome&)>& worth, size_t values_max) {
  Gate gate(space, fusion_margin(calibration), worth, values_max);
  const bool changes = gate.pass();
  if (!common::is_gpu(space.machine())) return gate.take();
  // Whether kernels share a launch depends on what comes before them, so that a later decision may
  // change what an earlier one is worth.
  if (changes) gate.pass();
  gate.pass_together();
  gate.pass_mixed();
  return gate.take();
}

}  // namespace coordinator
