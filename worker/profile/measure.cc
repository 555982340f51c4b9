#include "worker/profile/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "worker/profile/sampler.h"

namespace worker {
namespace {

// Short runs are repeated for at least this long, at most this many times as often as asked.
constexpr int64_t kShortRunsNs = 6'000'000;
constexpr uint32_t kShortRunsFactor = 1000;
// Long runs scatter less: after this long a third of the repetitions is enough.
constexpr int64_t kLongRunsNs = 500'000'000;
constexpr size_t kLongRunsDivisor = 3;
// Shorter runs are taken together for at least this long: where a clock ticks every 10 ns, one run
// of 62 ns looks like one of 60 or of 70, and only their mean like one of 62.
constexpr uint64_t kBatchNs = 2'000;
// Of one sample: much longer than reading the counters takes, and much shorter than a time slice.
constexpr int64_t kSampleNs = 50'000;
// Calls are timed one by one in at most this share of the time for whole runs.
constexpr int64_t kCallTimeDivisor = 2;
// Disturbed samples that are discarded: so many, and several for each that counts. Where every
// sample is disturbed, disturbed ones count; and where samples are so long that something else runs
// in nearly all of them.
constexpr size_t kDiscardedMax = 20;
constexpr size_t kDiscardedPerSample = 4;
constexpr int64_t kDiscardedNs = 400'000'000;
// On a busy machine so many undisturbed samples are enough once so much time has passed.
constexpr size_t kQuietSamples = 10;
constexpr int64_t kPatienceNs = 100'000'000;
// So many runs whose calls are timed are enough once they took so long: on a GPU each call is
// repeated (RepeatedCalls), and a run takes as long as dozens.
constexpr size_t kTimedRuns = 10;
constexpr int64_t kTimedRunsNs = 100'000'000;
// Calls that together took longer than whole runs by this factor, and this much for each reading of
// the clock, waited for a processor.
constexpr double kCallsOverRun = 2;
constexpr double kClockNs = 1'000;
// Of disturbed runs the quickest count, between these quantiles: what else runs only adds to a
// time.
constexpr double kQuickFrom = 0.05, kQuickTo = 0.3;

uint64_t quantile(std::vector<uint64_t>& values, double q) {
  std::ptrdiff_t index = std::lround(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<size_t>(index)];
}

// The mean of the middle half of runs, those that are short in batches: as deaf to interruptions as
// a median, and finer than the ticks of the clock.
uint64_t middle_mean(const std::vector<uint64_t>& values) {
  size_t batch = kBatchNs / std::max<uint64_t>(1, values[values.size() / 2]);
  batch = std::clamp<size_t>(batch, 1, std::max<size_t>(1, values.size() / 8));
  std::vector<double> means;
  for (size_t begin = 0; begin + batch <= values.size(); begin += batch) {
    double sum = 0;
    for (size_t k = begin; k < begin + batch; ++k) sum += static_cast<double>(values[k]);
    means.push_back(sum / static_cast<double>(batch));
  }
  std::sort(means.begin(), means.end());
  size_t cut = means.size() / 4;
  auto end = means.end() - static_cast<std::ptrdiff_t>(cut);
  double sum = std::accumulate(means.begin() + static_cast<std::ptrdiff_t>(cut), end, 0.0);
  return static_cast<uint64_t>(std::lround(sum / static_cast<double>(means.size() - 2 * cut)));
}

// The mean of those that took little.
uint64_t quick_mean(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  auto size = static_cast<double>(values.size());
  auto from = static_cast<size_t>(size * kQuickFrom);
  size_t to = std::max(from + 1, static_cast<size_t>(size * kQuickTo));
  double sum = 0;
  for (size_t k = from; k < to; ++k) sum += static_cast<double>(values[k]);
  return static_cast<uint64_t>(std::lround(sum / static_cast<double>(to - from)));
}

// Scales times of calls that were disturbed where whole runs were not.
void fit_calls(std::vector<uint64_t>& call_ns, uint64_t total_ns) {
  auto sum = static_cast<double>(std::accumulate(call_ns.begin(), call_ns.end(), uint64_t{0}));
  auto total = static_cast<double>(total_ns);
  if (sum <= kCallsOverRun * total + kClockNs * static_cast<double>(call_ns.size())) return;
  for (uint64_t& ns : call_ns) {
    ns = static_cast<uint64_t>(std::lround(static_cast<double>(ns) * total / sum));
  }
}

// Whether to stop after `runs` runs that took `spent_ns` together.
bool enough(const common::MeasureOptions& options, size_t runs, int64_t spent_ns) {
  size_t wanted = std::max<uint32_t>(1, options.repetitions);
  if (spent_ns >= kLongRunsNs) wanted = (wanted + kLongRunsDivisor - 1) / kLongRunsDivisor;
  if (runs < wanted) return false;
  return spent_ns >= kShortRunsNs || runs / kShortRunsFactor >= wanted;
}

// Counts samples, and says of disturbed ones whether they are discarded.
class Discards {
 public:
  // Whether the sample, which took so long, counts; a disturbed one does where the time is up.
  bool counts(bool is_disturbed, uint64_t ns, bool is_late = false) {
    ++samples_;
    disturbed_ += is_disturbed;
    if (!is_disturbed) return ++counted_, true;
    bool is_patient = discarded_ < kDiscardedMax + kDiscardedPerSample * counted_;
    if (!is_late && is_patient && discarded_ns_ < kDiscardedNs) {
      discarded_ns_ += static_cast<int64_t>(ns);
      return ++discarded_, false;
    }
    ++counted_disturbed_;
    return true;
  }
  double disturbed_share() const {
    return samples_ == 0 ? 0 : static_cast<double>(disturbed_) / static_cast<double>(samples_);
  }
  // Whether waiting for more undisturbed samples is no use after `ns`.
  bool is_enough_after(int64_t ns) const {
    return discarded_ > 0 && ns > kPatienceNs && counted_ + counted_disturbed_ >= kQuietSamples;
  }
  // Whether most of what counts was disturbed.
  bool is_mostly_disturbed() const { return counted_disturbed_ > counted_; }

 private:
  size_t samples_ = 0, disturbed_ = 0, counted_ = 0, discarded_ = 0, counted_disturbed_ = 0;
  int64_t discarded_ns_ = 0;
};

class Measuring {
 public:
  Measuring(common::Executor& executor, std::span<const common::HostTensor> inputs,
            const common::MeasureOptions& options)
      : sampler_(executor, inputs),
        options_(options),
        time_max_ns_(static_cast<int64_t>(options.time_max_ms) * 1'000'000) {}

  common::Result<Measurement> run(size_t calls) {
    LFARM_RETURN_IF_ERROR(warm_up());
    LFARM_RETURN_IF_ERROR(time_runs());
    bool is_quick = discards_.is_mostly_disturbed();
    // A time that ran out before anything counted: what there is must do.
    if (runs_.empty()) runs_.swap(discarded_), is_quick = true;
    Measurement result;
    result.runs = static_cast<uint32_t>(runs_.size());
    result.total_ns = is_quick ? quick_mean(runs_) : middle_mean(runs_);
    result.spread_ns = quantile(runs_, 0.75) - quantile(runs_, 0.25);
    result.disturbed = discards_.disturbed_share();
    if (!options_.per_kernel || gave_up_) return result;
    LFARM_ASSIGN_OR_RETURN(is_quick, time_calls(calls, result.runs));
    for (std::vector<uint64_t>& times : calls_) {
      result.call_ns.push_back(is_quick ? quick_mean(times) : middle_mean(times));
    }
    fit_calls(result.call_ns, result.total_ns);
    return result;
  }

 private:
  // Giving up is for saving time: where there is none to save, a program that takes a microsecond
  // would be given up for the cold caches of its first run.
  bool is_too_slow(uint64_t ns) const {
    return options_.give_up_ns != 0 && ns > options_.give_up_ns &&
           clock_.now_ns() - began_ns_ >= kShortRunsNs;
  }
  bool is_over(int64_t start_ns) const { return clock_.now_ns() - start_ns >= time_max_ns_; }

  common::Status warm_up() {
    int64_t start_ns = clock_.now_ns();
    for (uint32_t k = 0; k < options_.warmups; ++k) {
      LFARM_ASSIGN_OR_RETURN(int64_t ns, sampler_.warm_up());
      // A cold run is slower than a warm one, so that only a clear case ends here.
      gave_up_ = is_too_slow(static_cast<uint64_t>(ns) / 2) || is_over(start_ns);
      if (!gave_up_) continue;
      runs_.push_back(static_cast<uint64_t>(ns));
      break;
    }
    return gave_up_ || options_.warmups == 0 ? common::Status() : sampler_.settle();
  }

  common::Status time_runs() {
    int64_t start_ns = clock_.now_ns(), spent_ns = 0;
    size_t slow_samples = 0;
    while (!gave_up_ && !enough(options_, runs_.size(), spent_ns)) {
      if (is_over(start_ns) && !(runs_.empty() && discarded_.empty())) break;
      if (discards_.is_enough_after(clock_.now_ns() - start_ns)) break;
      LFARM_ASSIGN_OR_RETURN(Sampler::Sample sample, sampler_.take(kSampleNs));
      uint64_t sample_ns = std::accumulate(sample.run_ns.begin(), sample.run_ns.end(), uint64_t{0});
      if (!discards_.counts(sample.is_disturbed, sample_ns)) {
        if (discarded_.empty()) common::log_debug("disturbed samples are discarded");
        discarded_.insert(discarded_.end(), sample.run_ns.begin(), sample.run_ns.end());
        // What ran meanwhile has used the caches.
        if (sample.run_ns[0] < kShortRunsNs) LFARM_RETURN_IF_ERROR(sampler_.warm_up());
        continue;
      }
      uint64_t least = *std::min_element(sample.run_ns.begin(), sample.run_ns.end());
      spent_ns += static_cast<int64_t>(sample_ns);
      runs_.insert(runs_.end(), sample.run_ns.begin(), sample.run_ns.end());
      slow_samples += is_too_slow(least);
      gave_up_ = slow_samples >= 2;
    }
    return {};
  }

  static uint64_t duration_of(const Sampler::CallSample& sample) {
    int64_t ns = 0;
    for (const auto& run : sample.runs) ns = std::accumulate(run.begin(), run.end(), ns);
    return static_cast<uint64_t>(ns);
  }

  // Whether most runs that count were disturbed.
  common::Result<bool> time_calls(size_t calls, uint32_t runs) {
    calls_.resize(calls);
    int64_t start_ns = clock_.now_ns();
    Discards discards;
    for (uint32_t done = 0; done < (runs + 1) / 2;) {
      bool is_late = clock_.now_ns() - start_ns > time_max_ns_ / kCallTimeDivisor;
      if (is_late && done != 0) break;
      if (discards.is_enough_after(clock_.now_ns() - start_ns)) break;
      if (done >= kTimedRuns && clock_.now_ns() - start_ns >= kTimedRunsNs) break;
      LFARM_ASSIGN_OR_RETURN(auto sample, sampler_.take_calls(kSampleNs));
      if (!discards.counts(sample.is_disturbed, duration_of(sample), is_late)) continue;
      for (const std::vector<int64_t>& times : sample.runs) {
        for (size_t c = 0; c < calls; ++c) calls_[c].push_back(static_cast<uint64_t>(times[c]));
      }
      done += static_cast<uint32_t>(sample.runs.size());
    }
    return discards.is_mostly_disturbed();
  }

  Sampler sampler_;
  const common::MeasureOptions& options_;
  const int64_t time_max_ns_;
  common::SteadyClock clock_;
  const int64_t began_ns_ = clock_.now_ns();
  std::vector<uint64_t> runs_, discarded_;
  std::vector<std::vector<uint64_t>> calls_;
  Discards discards_;
  bool gave_up_ = false;
};

// What became of one program in all rounds of a comparison.
struct Contestant {
  Sampler sampler;
  std::vector<uint64_t> round_ns;
  uint64_t last_ns = 0;  // of one run; 0: it has not run
};

constexpr int64_t kRoundSampleNs = 100'000;
constexpr int kTriesPerRound = 3;
constexpr size_t kRoundsMin = 15;
constexpr int64_t kComparedNs = 40'000'000;  // of short programs, all rounds together
constexpr double kNarrow = 0.01;             // half of an interval that needs no more rounds
constexpr uint64_t kCachedNs = 2'000'000;    // shorter runs find their data in caches
// Fewer rounds have no 95 % interval by order statistics. Undisturbed, runs that take so long that
// there are so few repeat well; disturbed, either program may have waited as long as it ran.
constexpr size_t kRoundsOfInterval = 6;
constexpr double kWaitFactor = 2;

// One sample of each program, in an order that rotates. Returns whether none of them was disturbed.
common::Result<bool> run_round(std::vector<Contestant>& all, size_t first) {
  bool is_quiet = true;
  for (size_t k = 0; k < all.size(); ++k) {
    Contestant& one = all[(first + k) % all.size()];
    Sampler::Sample sample;
    for (int attempt = 0; attempt < kTriesPerRound; ++attempt) {
      if (one.last_ns < kCachedNs) LFARM_RETURN_IF_ERROR(one.sampler.warm_up());
      LFARM_ASSIGN_OR_RETURN(sample, one.sampler.take(kRoundSampleNs));
      if (!sample.is_disturbed) break;
    }
    is_quiet = is_quiet && !sample.is_disturbed;
    one.last_ns = sample.is_disturbed ? quick_mean(sample.run_ns) : middle_mean(sample.run_ns);
    one.round_ns.push_back(std::max<uint64_t>(1, one.last_ns));
  }
  return is_quiet;
}

std::vector<uint64_t> only(const std::vector<uint64_t>& values, const std::vector<char>& wanted) {
  std::vector<uint64_t> chosen;
  for (size_t k = 0; k < values.size(); ++k) {
    if (wanted[k] != 0) chosen.push_back(values[k]);
  }
  return chosen;
}

// The median of a/b over rounds, and the bounds of its 95 % confidence interval by order statistics
// (Conover, Practical Nonparametric Statistics, section 3.2).
Ratio ratio_of(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<double> ratios;
  for (size_t k = 0; k < a.size(); ++k) {
    ratios.push_back(static_cast<double>(a[k]) / static_cast<double>(b[k]));
  }
  std::sort(ratios.begin(), ratios.end());
  auto n = static_cast<double>(ratios.size());
  double reach = 0.98 * std::sqrt(n);
  auto at = [&](double place) {
    return ratios[static_cast<size_t>(std::clamp(place, 0.0, n - 1))];
  };
  return {at(std::floor(n / 2)), at(std::floor(n / 2 - reach)), at(std::ceil(n / 2 + reach))};
}

// The same where nearly all rounds were disturbed: what a round took is then mostly waiting, and
// its ratio says how long each program waited. The quickest of several rounds waited least, so
// rounds are dealt into groups, and the groups' quickest are compared.
Ratio ratio_of_quickest(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  constexpr size_t kGroupsMin = 5, kGroupsMax = 25, kRoundsPerGroup = 8;
  size_t groups = std::clamp(a.size() / kRoundsPerGroup, kGroupsMin, kGroupsMax);
  groups = std::min(groups, a.size());
  auto quickest = [groups](const std::vector<uint64_t>& times) {
    std::vector<uint64_t> least(times.begin(), times.begin() + static_cast<ptrdiff_t>(groups));
    for (size_t k = groups; k < times.size(); ++k) {
      least[k % groups] = std::min(least[k % groups], times[k]);
    }
    return least;
  };
  return ratio_of(quickest(a), quickest(b));
}

}  // namespace

common::Result<Measurement> measure(common::Executor& executor,
                                    std::span<const common::HostTensor> inputs,
                                    const common::MeasureOptions& options) {
  return Measuring(executor, inputs, options).run(executor.plan().calls.size());
}

common::Result<Comparison> compare(std::span<const Loaded> programs,
                                   const common::MeasureOptions& options) {
  common::SteadyClock clock;
  std::vector<Contestant> all;
  for (const Loaded& one : programs) {
    all.push_back({Sampler(*one.executor, one.inputs), {}, 0});
    LFARM_RETURN_IF_ERROR(all.back().sampler.warm_up());
    LFARM_RETURN_IF_ERROR(all.back().sampler.settle());
  }
  int64_t end_ns = clock.now_ns() + int64_t{options.time_max_ms} * 1'000'000;
  std::vector<char> quiet;
  Comparison result;
  auto conclude = [&] {
    size_t undisturbed = static_cast<size_t>(std::count(quiet.begin(), quiet.end(), 1));
    // Where quiet rounds are few, all count: programs that alternate are disturbed alike.
    std::vector<char> wanted = quiet;
    bool is_busy = undisturbed < kRoundsMin;
    if (is_busy) wanted.assign(quiet.size(), 1);
    result = {};
    result.disturbed = 1 - static_cast<double>(undisturbed) / static_cast<double>(quiet.size());
    std::vector<uint64_t> first = only(all[0].round_ns, wanted);
    for (const Contestant& one : all) {
      std::vector<uint64_t> times = only(one.round_ns, wanted);
      Measurement told;
      told.runs = static_cast<uint32_t>(times.size());
      told.total_ns = is_busy ? quick_mean(times) : middle_mean(times);
      told.spread_ns = quantile(times, 0.75) - quantile(times, 0.25);
      result.all.push_back(std::move(told));
      Ratio ratio = is_busy ? ratio_of_quickest(first, times) : ratio_of(first, times);
      if (&one != &all[0] && result.disturbed > 0 && times.size() < kRoundsOfInterval) {
        ratio.low /= kWaitFactor;
        ratio.high *= kWaitFactor;
      }
      result.ratios.push_back(ratio);
    }
    return undisturbed;
  };
  int64_t spent_ns = 0;
  for (size_t round = 0; round == 0 || clock.now_ns() < end_ns; ++round) {
    int64_t start_ns = clock.now_ns();
    LFARM_ASSIGN_OR_RETURN(bool is_quiet, run_round(all, round));
    quiet.push_back(is_quiet ? 1 : 0);
    if (is_quiet) spent_ns += clock.now_ns() - start_ns;
    if (quiet.size() < kRoundsMin || quiet.size() % kRoundsMin != 0) continue;
    bool is_known = conclude() >= kRoundsMin && spent_ns >= kComparedNs;
    for (const Ratio& ratio : result.ratios) {
      is_known = is_known && ratio.high - ratio.low <= 2 * kNarrow * ratio.median;
    }
    if (is_known || quiet.size() >= options.repetitions) break;
  }
  (void)conclude();
  return result;
}

Measurement weighted_mean(std::span<const Measurement> all, std::span<const double> weights) {
  Measurement mean;
  double total = 0, spread = 0;
  std::vector<double> calls(all.front().call_ns.size(), 0);
  for (size_t s = 0; s < all.size(); ++s) {
    const Measurement& one = all[s];
    total += weights[s] * static_cast<double>(one.total_ns);
    spread += weights[s] * static_cast<double>(one.spread_ns);
    mean.runs += one.runs;
    mean.disturbed = std::max(mean.disturbed, one.disturbed);
    calls.resize(std::min(calls.size(), one.call_ns.size()));
    for (size_t c = 0; c < calls.size(); ++c) {
      calls[c] += weights[s] * static_cast<double>(one.call_ns[c]);
    }
  }
  mean.total_ns = static_cast<uint64_t>(std::llround(total));
  mean.spread_ns = static_cast<uint64_t>(std::llround(spread));
  for (double ns : calls) mean.call_ns.push_back(static_cast<uint64_t>(std::llround(ns)));
  return mean;
}

Comparison weighted_mean(std::span<const Comparison> all, std::span<const double> weights) {
  Comparison mean;
  for (const Comparison& one : all) mean.disturbed = std::max(mean.disturbed, one.disturbed);
  for (size_t k = 0; k < all.front().all.size(); ++k) {
    std::vector<Measurement> of_program;
    for (const Comparison& one : all) of_program.push_back(one.all[k]);
    mean.all.push_back(weighted_mean(of_program, weights));
    // A ratio of sums is a mean of ratios, weighted by what they are divided by.
    Ratio ratio;
    double sum = 0;
    for (size_t s = 0; s < all.size(); ++s) {
      double share = weights[s] * static_cast<double>(of_program[s].total_ns);
      sum += share;
      ratio.median += share * all[s].ratios[k].median;
      ratio.low += share * all[s].ratios[k].low;
      ratio.high += share * all[s].ratios[k].high;
    }
    mean.ratios.push_back({ratio.median / sum, ratio.low / sum, ratio.high / sum});
  }
  return mean;
}

}  // namespace worker
