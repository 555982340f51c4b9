// Learns by what factor a kernel's kind and schedule change its time against the prediction.
//
// The logarithm of measured to predicted time is a sum of effects, one per feature that a kernel
// has ("tile", "mr = 6", "mr = 6 where there are few rows"), and of one that all kernels have: the
// machine's, which may be slower than the one that the predictions' constants are of. Effects are
// fitted by ridge regression (coordinate descent), drawn towards what earlier searches found.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace coordinator {

using Feature = uint64_t;

// What searches learned, for later searches: mean effects and over how many measurements.
struct Effect {
  double mean = 0;
  double count = 0;
  friend bool operator==(const Effect&, const Effect&) = default;
};
using EffectTable = std::map<Feature, Effect>;
// The machine's effect in a table.
inline constexpr Feature kMachineFeature = 1;

// Adds what a search found out to what was known.
void merge_effects(EffectTable& into, const EffectTable& learned);

// The features of one kernel and schedule, of which the model is asked again and again: what it
// knows of each is found once, and again where a feature was unknown and others were measured
// since.
class FeatureSet {
 public:
  explicit FeatureSet(std::vector<Feature> features) : features_(std::move(features)) {}
  const std::vector<Feature>& features() const { return features_; }

 private:
  friend class EffectModel;
  struct Place {
    int64_t weight = -1;  // of the model's; none while it was measured nowhere
    double mean = 0;      // until then
    double pull = 0;
  };
  std::vector<Feature> features_;
  std::vector<Place> places_;
  size_t weights_ = 0;  // that the model had when the places were found
  bool is_whole_ = false;
};

// Deterministic; not thread-safe.
class EffectModel {
 public:
  // `priors` may be null.
  explicit EffectModel(const EffectTable* priors);

  // A measurement. Effects follow with the next fit().
  void add(std::span<const Feature> features, double log_ratio);
  void fit();
  double mean(std::span<const Feature> features) const;
  // What earlier searches alone say of these features, without the machine's effect.
  double prior_mean(std::span<const Feature> features) const;
  // Standard deviation of what mean() gives, but for the machine's effect, which is everywhere the
  // same.
  double deviation(std::span<const Feature> features) const;
  // The same numbers, sooner. A set is one model's.
  double mean(FeatureSet& set) const;
  double deviation(FeatureSet& set) const;
  size_t measurements() const { return measurements_; }
  bool has_priors() const { return priors_ != nullptr && !priors_->empty(); }
  // The effects that this search's own measurements speak for.
  EffectTable learned() const;

 private:
  struct Weight {
    Feature feature = 0;
    double value = 0;
    double prior = 0;
    double pull = 1;               // towards the prior, in measurements
    std::vector<uint32_t> points;  // that have the feature
  };
  struct Prior {
    double mean;
    double pull;
  };
  Prior prior_of(Feature feature) const;
  void fit_machine();
  void find_places(FeatureSet& set) const;

  const EffectTable* priors_;
  std::unordered_map<Feature, uint32_t> index_;
  std::vector<Weight> weights_;
  double machine_ = 0;
  std::vector<double> residuals_;  // of each measurement, under the present effects
  size_t measurements_ = 0;
  size_t fitted_ = 0;
};

}  // namespace coordinator
