#include "coordinator/search/records/kernel_times.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/llir/kernel_identity.h"
#include "common/ir/llir/load_time.h"
#include "coordinator/search/records/rank_correlation.h"

namespace coordinator {
namespace {

constexpr size_t kSamplesMax = 15;
constexpr size_t kCalibratedAfter = 8;  // kernels measured
constexpr int kFailuresMax = 3;
constexpr size_t kPricedMax = 256;  // schedules of one kernel
constexpr double kFailurePenalty = 1.5;
// Where calls are longer than this on average, noise hides what reading the clock takes; and what a
// call alone can take more than among others, at most.
constexpr double kShortCallNs = 500;
constexpr double kClockMaxNs = 40;
// On a processor, before it is measured (13 to 25 ns over eight models), and how many calls it
// takes to speak against it.
constexpr double kClockNs = 22;
constexpr double kClockCalls = 200;
// How much faster another schedule than the one that the cost model chose must be to replace it:
// less is noise, and says nothing about other devices.
constexpr double kOwnChoiceMargin = 0.005;

// What schedules are compared by, of median times.
double handicapped(ScheduleCode code, double ns) {
  return code == 0 ? ns * (1 - kOwnChoiceMargin) : ns;
}

}  // namespace

KernelId KernelTimes::intern(const common::Kernel& kernel, const common::Digest& body,
                             const common::Call& call) {
  auto [it, is_new] = ids_.emplace(std::pair{kernel.form, body}, entries_.size());
  if (is_new) {
    Entry entry;
    std::vector<common::WeightedSizes> sizes = sizes_;
    for (common::WeightedSizes& each : sizes) each.sizes = call_symbols(call, each.sizes);
    entry.traits = traits_of(kernel, body, sizes, terms_);
    entry.body = body;
    entry.prior = effects_.prior_mean(features_of(entry.traits, 0));
    entries_.push_back(std::move(entry));
    if (earlier_ == nullptr) return it->second;
    auto known = earlier_->record(TuningRecordKind::kKernel,
                                  kernel_key(kernel.form, body, target_, machine_));
    if (known && std::isfinite(known->ns) && known->ns > 0) {
      entries_.back().spent = known->effort;
      entries_.back().variants[known->schedule].asked = true;
      note_earlier(it->second, known->schedule, known->ns);
    }
  }
  return it->second;
}

void KernelTimes::prefetch(
    std::span<const std::pair<common::Template, common::Digest>> bodies) const {
  if (!asks_remotely()) return;
  std::vector<MeasurementQuestion> questions;
  for (const auto& [form, body] : bodies) {
    if (ids_.contains({form, body})) continue;
    questions.push_back(
        {false, TuningRecordKind::kKernel, kernel_key(form, body, target_, machine_)});
  }
  if (questions.size() > 1) earlier_->prefetch(questions);
}

void KernelTimes::prefetch(std::span<const std::pair<KernelId, ScheduleCode>> schedules) const {
  if (!asks_remotely()) return;
  std::vector<MeasurementQuestion> questions;
  for (const auto& [id, code] : schedules) {
    const Entry& entry = entries_[id];
    auto variant = entry.variants.find(code);
    bool is_settled = variant != entry.variants.end() &&
                      (variant->second.asked || !variant->second.samples.empty());
    if (is_settled) continue;
    questions.push_back({true, TuningRecordKind::kKernel, fingerprint(entry, code)});
  }
  if (questions.size() > 1) earlier_->prefetch(questions);
}

common::Digest KernelTimes::fingerprint(const Entry& entry, ScheduleCode code) const {
  return common::kernel_fingerprint(entry.traits.form, schedule_of(entry.traits.form, code),
                                    entry.body);
}

void KernelTimes::note_earlier(KernelId id, ScheduleCode code, double ns) {
  ++reused_;
  entries_[id].variants[code].earlier = true;
  note(id, code, std::max(ns, 1.0));
}

bool KernelTimes::is_earlier(KernelId id, ScheduleCode code) const {
  auto it = entries_[id].variants.find(code);
  return it != entries_[id].variants.end() && it->second.earlier;
}

// Puts a time among the variant's and keeps `best` the fastest median.
void KernelTimes::note(KernelId id, ScheduleCode code, double ns) {
  Entry& entry = entries_[id];
  Variant& variant = entry.variants[code];
  bool is_first = variant.samples.empty();
  if (variant.samples.size() < kSamplesMax) {
    variant.samples.insert(std::upper_bound(variant.samples.begin(), variant.samples.end(), ns),
                           ns);
  }
  variant.tried = true;
  double median = variant.samples[variant.samples.size() / 2];
  if (is_first) {
    variant.predicted_ns = predicted(id, code);
    effects_.add(features_of(entry.traits, code), std::log(ns) - log_ns(entry, code));
  }
  auto leads = [&](ScheduleCode other, double ns) {
    return handicapped(other, ns) < handicapped(entry.best->code, entry.best->ns);
  };
  if (!entry.best || leads(code, median)) {
    entry.best = Best{code, median};
  } else if (entry.best->code == code) {
    // It was the best and turned out slower.
    entry.best->ns = median;
    for (const auto& [other, v] : entry.variants) {
      if (v.samples.empty()) continue;
      double m = v.samples[v.samples.size() / 2];
      if (leads(other, m)) entry.best = Best{other, m};
    }
  }
}

void KernelTimes::record(KernelId id, ScheduleCode code, double ns) {
  note(id, code, std::max(ns, 1.0));
}

void KernelTimes::record(const common::Program& program, std::span<const common::Digest> bodies,
                         const std::vector<uint64_t>& kernel_ns, uint64_t total_ns) {
  if (kernel_ns.size() != program.kernels.size()) return;
  LFARM_CHECK(bodies.size() == program.kernels.size(), "a kernel without the hash of its body");
  std::vector<char> recorded(program.kernels.size(), 0);
  double sum = 0, calls = 0;
  std::vector<char> at_load = common::load_time_calls(program);
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const common::Call& call = program.calls[c];
    auto k = static_cast<size_t>(call.kernel);
    if (kernel_ns[k] == 0) continue;  // it runs at load only
    if (!at_load[c]) {
      sum += static_cast<double>(kernel_ns[k]);
      ++calls;
    }
    if (recorded[k]) continue;
    recorded[k] = 1;
    const common::Kernel& kernel = program.kernels[k];
    KernelId id = intern(kernel, bodies[k], call);
    record(id, code_of(kernel.form, kernel.schedule), static_cast<double>(kernel_ns[k]));
  }
  if (total_ns != 0) note_clock(sum, calls, static_cast<double>(total_ns));
}

// Calls are timed one by one by reading a clock between them, which takes as long as a short call.
// A whole run takes one such reading too: all other calls cost less than they seem to one by one.
void KernelTimes::note_clock(double sum_ns, double calls, double total_ns) {
  if (calls < 2 || sum_ns > calls * kShortCallNs) return;
  excess_ns_ += sum_ns - total_ns;
  excess_calls_ += calls - 1;
}

double KernelTimes::clock_ns() const {
  double sum = excess_ns_, calls = excess_calls_;
  if (target_.name.rfind("cpu", 0) == 0) {
    sum += kClockNs * kClockCalls;
    calls += kClockCalls;
  }
  return calls > 0 ? std::clamp(sum / calls, 0.0, kClockMaxNs) : 0;
}

void KernelTimes::blame(KernelId id, ScheduleCode code, size_t others) {
  Entry& entry = entries_[id];
  Variant& variant = entry.variants[code];
  if (!variant.samples.empty()) return;
  variant.failures += others == 0 ? kFailuresMax : 1;
  ++entry.failures;
  variant.tried = variant.failures >= kFailuresMax;
}

std::optional<double> KernelTimes::measured(KernelId id, ScheduleCode code) {
  Entry& entry = entries_[id];
  Variant& variant = entry.variants[code];
  if (variant.samples.empty() && earlier_ != nullptr && !variant.asked) {
    // Asked once: what others measure meanwhile must not change this search's course.
    variant.asked = true;
    auto ns = earlier_->kernel_ns(fingerprint(entry, code));
    if (ns) note_earlier(id, code, static_cast<double>(*ns));
  }
  if (variant.samples.empty()) return std::nullopt;
  return variant.samples[variant.samples.size() / 2];
}

bool KernelTimes::is_tried(KernelId id, ScheduleCode code) const {
  const auto& variants = entries_[id].variants;
  auto it = variants.find(code);
  return it != variants.end() && it->second.tried;
}

std::optional<KernelTimes::Best> KernelTimes::best(KernelId id) const { return entries_[id].best; }

std::optional<KernelTimes::Best> KernelTimes::best(common::Template form,
                                                   const common::Digest& body) const {
  auto it = ids_.find({form, body});
  return it == ids_.end() ? std::nullopt : best(it->second);
}

double KernelTimes::predicted(KernelId id, ScheduleCode code) const {
  return drawn(id, code, 0, 0);
}

double KernelTimes::log_ns(const Entry& entry, ScheduleCode code) {
  return std::log(predict_ns(entry.traits, code)) - entry.prior;
}

KernelTimes::Priced& KernelTimes::priced(const Entry& entry, ScheduleCode code) {
  if (auto known = entry.priced.find(code); known != entry.priced.end()) return known->second;
  if (entry.priced.size() >= kPricedMax) entry.priced.clear();
  Priced priced{log_ns(entry, code), FeatureSet(features_of(entry.traits, code))};
  return entry.priced.emplace(code, std::move(priced)).first->second;
}

double KernelTimes::drawn(KernelId id, ScheduleCode code, uint64_t draw, double temperature) const {
  const Entry& entry = entries_[id];
  Priced& priced = KernelTimes::priced(entry, code);
  FeatureSet& features = priced.features;
  double log_ns = priced.log_ns + effects_.mean(features);
  if (temperature > 0) {
    common::Random random(common::combine64(common::combine64(draw, id), code));
    // The sum of three uniform numbers is nearly normal; its standard deviation is 1/2.
    double normal = (random.unit() + random.unit() + random.unit() - 1.5) * 2;
    log_ns += temperature * normal * effects_.deviation(features);
  }
  int failures = entry.best ? 0 : entry.failures;
  if (auto it = entry.variants.find(code); it != entry.variants.end()) {
    failures = std::max(failures, it->second.failures);
  }
  return std::exp(log_ns) * std::pow(kFailurePenalty, failures);
}

std::optional<double> KernelTimes::first_prediction(KernelId id, ScheduleCode code) const {
  auto it = entries_[id].variants.find(code);
  if (it == entries_[id].variants.end() || it->second.samples.empty()) return std::nullopt;
  return it->second.predicted_ns;
}

std::vector<double> KernelTimes::predictions_of(const common::Program& program) {
  std::vector<double> times(program.kernels.size(), 0);
  for (const common::Call& call : program.calls) {
    const common::Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
    KernelId id = intern(kernel, common::graph_hash(kernel.body), call);
    times[static_cast<size_t>(call.kernel)] =
        first_prediction(id, code_of(kernel.form, kernel.schedule)).value_or(0);
  }
  return times;
}

Calibration KernelTimes::calibration() const {
  if (effects_.has_priors() || effects_.measurements() >= kCalibratedAfter) {
    return Calibration::kMeasured;
  }
  bool has_constants = target_.name.starts_with("cpu") || target_.name.starts_with("cuda");
  return has_constants ? Calibration::kDefault : Calibration::kNone;
}

void KernelTimes::report_rank_correlation(common::Provenance* provenance) const {
  std::vector<double> predicted, by_constants, measured;
  for (const Entry& entry : entries_) {
    for (const auto& [code, variant] : entry.variants) {
      if (variant.samples.empty() || variant.earlier) continue;
      predicted.push_back(variant.predicted_ns);
      by_constants.push_back(predict_ns(entry.traits, code));
      measured.push_back(variant.samples[variant.samples.size() / 2]);
    }
  }
  provenance->prediction.calibration = calibration_name(calibration());
  provenance->prediction.rank_correlation = rank_correlation(predicted, measured);
  provenance->prediction.constants_correlation = rank_correlation(by_constants, measured);
  provenance->prediction.schedules = static_cast<uint32_t>(predicted.size());
}

KernelTimes::Estimate KernelTimes::estimate(const common::Program& program) {
  return estimate(program, common::body_hashes(program));
}

KernelTimes::Estimate KernelTimes::estimate(const common::Program& program,
                                            std::span<const common::Digest> bodies) {
  LFARM_CHECK(bodies.size() == program.kernels.size(), "a kernel without the hash of its body");
  Estimate estimate;
  std::vector<double> times(program.kernels.size(), -1);
  std::vector<char> at_load = common::load_time_calls(program);
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const common::Call& call = program.calls[c];
    if (at_load[c]) continue;
    auto k = static_cast<size_t>(call.kernel);
    if (times[k] < 0) {
      const common::Kernel& kernel = program.kernels[k];
      KernelId id = intern(kernel, bodies[k], call);
      ScheduleCode code = code_of(kernel.form, kernel.schedule);
      auto known = measured(id, code);
      if (!known) estimate.measured = false;
      times[k] = known ? *known : predicted(id, code);
    }
    // Even an empty call takes some time.
    estimate.ns += std::max(times[k] - clock_ns(), times[k] / 8);
  }
  return estimate;
}

std::vector<double> KernelTimes::times_of(const common::Program& program,
                                          std::span<const common::Digest> bodies) {
  LFARM_CHECK(bodies.size() == program.kernels.size(), "a kernel without the hash of its body");
  std::vector<double> times(program.kernels.size(), -1);
  for (const common::Call& call : program.calls) {
    auto k = static_cast<size_t>(call.kernel);
    if (times[k] >= 0) continue;
    const common::Kernel& kernel = program.kernels[k];
    KernelId id = intern(kernel, bodies[k], call);
    ScheduleCode code = code_of(kernel.form, kernel.schedule);
    auto known = measured(id, code);
    times[k] = known ? *known : predicted(id, code);
  }
  return times;
}

}  // namespace coordinator
