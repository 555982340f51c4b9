#include "coordinator/search/genes/effects.h"

#include <algorithm>
#include <cmath>

namespace coordinator {
namespace {

constexpr double kPull = 4;           // of an unknown effect towards zero, in measurements
constexpr double kPriorPullMax = 12;  // more measurements of other graphs count no more
constexpr double kPriorTrust = 0.25;  // of one measurement of another graph
constexpr double kCountMax = 1e4;
constexpr double kSpread = 0.16;  // of one effect's unknown part
constexpr int kSweeps = 3;        // each fit goes on from the last one
// Of the machine's effect: one measurement says most of it, so that what all kernels have in common
// is not taken for the effects of those that were measured first.
constexpr double kMachinePull = 0.05;

}  // namespace

void merge_effects(EffectTable& into, const EffectTable& learned) {
  for (const auto& [feature, effect] : learned) {
    if (effect.count <= 0) continue;
    Effect& known = into[feature];
    double count = known.count + effect.count;
    known.mean = (known.mean * known.count + effect.mean * effect.count) / count;
    known.count = std::min(count, kCountMax);
  }
}

EffectModel::EffectModel(const EffectTable* priors)
    : priors_(priors), machine_(prior_of(kMachineFeature).mean) {}

EffectModel::Prior EffectModel::prior_of(Feature feature) const {
  if (priors_ != nullptr) {
    if (auto it = priors_->find(feature); it != priors_->end()) {
      return {it->second.mean, kPull + std::min(kPriorPullMax, it->second.count * kPriorTrust)};
    }
  }
  return {0, kPull};
}

void EffectModel::add(std::span<const Feature> features, double log_ratio) {
  auto point = static_cast<uint32_t>(residuals_.size());
  double residual = log_ratio - machine_;
  for (Feature feature : features) {
    auto [it, is_new] = index_.emplace(feature, static_cast<uint32_t>(weights_.size()));
    if (is_new) {
      Prior prior = prior_of(feature);
      weights_.push_back({feature, prior.mean, prior.mean, prior.pull, {}});
    }
    Weight& weight = weights_[it->second];
    weight.points.push_back(point);
    residual -= weight.value;
  }
  residuals_.push_back(residual);
  ++measurements_;
}

void EffectModel::fit_machine() {
  double sum = kMachinePull * (prior_of(kMachineFeature).mean - machine_);
  for (double residual : residuals_) sum += residual;
  double step = sum / (static_cast<double>(residuals_.size()) + kMachinePull);
  machine_ += step;
  for (double& residual : residuals_) residual -= step;
}

void EffectModel::fit() {
  if (fitted_ == measurements_) return;
  fitted_ = measurements_;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    fit_machine();
    for (Weight& weight : weights_) {
      double sum = weight.pull * (weight.prior - weight.value);
      for (uint32_t point : weight.points) sum += residuals_[point];
      double step = sum / (static_cast<double>(weight.points.size()) + weight.pull);
      weight.value += step;
      for (uint32_t point : weight.points) residuals_[point] -= step;
    }
  }
}

double EffectModel::mean(std::span<const Feature> features) const {
  double sum = machine_;
  for (Feature feature : features) {
    auto it = index_.find(feature);
    sum += it == index_.end() ? prior_of(feature).mean : weights_[it->second].value;
  }
  return sum;
}

double EffectModel::prior_mean(std::span<const Feature> features) const {
  double sum = 0;
  for (Feature feature : features) sum += prior_of(feature).mean;
  return sum;
}

double EffectModel::deviation(std::span<const Feature> features) const {
  double variance = 0;
  for (Feature feature : features) {
    auto it = index_.find(feature);
    double seen = it == index_.end() ? prior_of(feature).pull
                                     : weights_[it->second].pull +
                                           static_cast<double>(weights_[it->second].points.size());
    variance += kSpread * kSpread / seen;
  }
  return std::sqrt(variance);
}

void EffectModel::find_places(FeatureSet& set) const {
  bool is_new = set.places_.size() != set.features_.size();
  if (!is_new && (set.is_whole_ || set.weights_ == weights_.size())) return;
  set.places_.resize(set.features_.size());
  set.weights_ = weights_.size();
  set.is_whole_ = true;
  for (size_t k = 0; k < set.features_.size(); ++k) {
    FeatureSet::Place& place = set.places_[k];
    if (place.weight >= 0) continue;
    if (auto it = index_.find(set.features_[k]); it != index_.end()) {
      place.weight = it->second;
      continue;
    }
    set.is_whole_ = false;
    if (!is_new) continue;
    Prior prior = prior_of(set.features_[k]);
    place.mean = prior.mean;
    place.pull = prior.pull;
  }
}

double EffectModel::mean(FeatureSet& set) const {
  find_places(set);
  double sum = machine_;
  for (const FeatureSet::Place& place : set.places_) {
    sum += place.weight < 0 ? place.mean : weights_[static_cast<size_t>(place.weight)].value;
  }
  return sum;
}

double EffectModel::deviation(FeatureSet& set) const {
  find_places(set);
  double variance = 0;
  for (const FeatureSet::Place& place : set.places_) {
    double seen = place.pull;
    if (place.weight >= 0) {
      const Weight& weight = weights_[static_cast<size_t>(place.weight)];
      seen = weight.pull + static_cast<double>(weight.points.size());
    }
    variance += kSpread * kSpread / seen;
  }
  return std::sqrt(variance);
}

EffectTable EffectModel::learned() const {
  EffectTable table;
  table[kMachineFeature] = {machine_, static_cast<double>(measurements_)};
  for (const Weight& weight : weights_) {
    table[weight.feature] = {weight.value, static_cast<double>(weight.points.size())};
  }
  return table;
}

}  // namespace coordinator
