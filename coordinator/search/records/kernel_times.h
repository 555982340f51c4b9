// What is known and guessed about kernels' running times within one search.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/cost/kernels/device_terms.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "coordinator/search/genes/effects.h"
#include "coordinator/search/genes/kernel_traits.h"
#include "coordinator/search/genes/schedule_space.h"
#include "coordinator/search/records/calibration.h"
#include "coordinator/search/records/measurement_source.h"

namespace coordinator {

// A body with a template, whatever its schedule; numbers are given in the order of interning.
using KernelId = uint32_t;

// A measurement always outranks a prediction; predictions are corrected by what measured kernels'
// predictions were off by. Deterministic; not thread-safe.
class KernelTimes {
 public:
  // Both may be null. Times, measured and predicted, are over all of `sizes`, one at least.
  // `machine` is the class that `target` runs on, empty when it is not known.
  KernelTimes(const MeasurementSource* earlier, std::vector<common::WeightedSizes> sizes,
              const EffectTable* priors = nullptr, common::Target target = {},
              std::string machine = {})
      : earlier_(earlier),
        sizes_(std::move(sizes)),
        target_(std::move(target)),
        machine_(std::move(machine)),
        terms_(common::device_terms(target_, machine_)),
        effects_(priors) {}

  // `body` is the graph_hash of the kernel's body; `call` gives its sizes.
  KernelId intern(const common::Kernel& kernel, const common::Digest& body,
                  const common::Call& call);
  bool asks_remotely() const { return earlier_ != nullptr && earlier_->is_remote(); }
  // Kernels that will be interned, and schedules whose times will be asked for: where earlier
  // measurements are in another process, they are asked for in one message each.
  void prefetch(std::span<const std::pair<common::Template, common::Digest>> bodies) const;
  void prefetch(std::span<const std::pair<KernelId, ScheduleCode>> schedules) const;
  common::Template form(KernelId id) const { return entries_[id].traits.form; }
  const std::vector<common::WeightedSizes>& sizes() const { return sizes_; }
  common::Machine machine() const { return common::machine_of(target_); }

  // A schedule was measured. Of several measurements the median counts.
  void record(KernelId id, ScheduleCode code, double ns);
  // All kernels of a program that was measured call by call; as a whole it took `total_ns`, 0 when
  // that is not known. `bodies`: its common::body_hashes().
  void record(const common::Program& program, std::span<const common::Digest> bodies,
              const std::vector<uint64_t>& kernel_ns, uint64_t total_ns = 0);
  // The schedule was in a candidate that failed, together with `others` untested ones.
  void blame(KernelId id, ScheduleCode code, size_t others);
  // Takes note that the schedule is on its way to a worker.
  void mark_tried(KernelId id, ScheduleCode code) { entries_[id].variants[code].tried = true; }
  // Predictions follow the measurements recorded so far.
  void learn() { effects_.fit(); }

  // Nothing when the schedule was measured neither here nor in an earlier search.
  std::optional<double> measured(KernelId id, ScheduleCode code);
  bool is_tried(KernelId id, ScheduleCode code) const;
  // An earlier search spent as much on a region with this kernel.
  bool is_covered(KernelId id, const Effort& effort) const {
    return entries_[id].spent && entries_[id].spent->covers(effort);
  }
  // The schedule's time came from an earlier search.
  bool is_earlier(KernelId id, ScheduleCode code) const;
  struct Best {
    ScheduleCode code = 0;
    double ns = std::numeric_limits<double>::infinity();
  };
  // The fastest measured schedule; nothing while there is none.
  std::optional<Best> best(KernelId id) const;
  std::optional<Best> best(common::Template form, const common::Digest& body) const;
  double predicted(KernelId id, ScheduleCode code) const;
  // The prediction as it might be, given how little is known: equal arguments give equal times.
  double drawn(KernelId id, ScheduleCode code, uint64_t draw, double temperature) const;

  // The prediction in ns at the time of the schedule's first measurement; empty before that.
  std::optional<double> first_prediction(KernelId id, ScheduleCode code) const;
  // Of a program whose kernels were recorded: first predictions in ns, in the order of its kernels,
  // 0 for those that were not measured.
  std::vector<double> predictions_of(const common::Program& program);
  Calibration calibration() const;
  // Sets the provenance's calibration and rank correlations, over the schedules that this search
  // measured; those of earlier searches are left out.
  void report_rank_correlation(common::Provenance* provenance) const;

  struct Estimate {
    double ns = 0;         // of one run of the program
    bool measured = true;  // every kernel's time is known
  };
  Estimate estimate(const common::Program& program);
  Estimate estimate(const common::Program& program, std::span<const common::Digest> bodies);
  // Of one call of each of the program's kernels, in ns: measured where that is known.
  std::vector<double> times_of(const common::Program& program,
                               std::span<const common::Digest> bodies);
  // Kernels whose time came from earlier searches.
  int64_t reused() const { return reused_; }
  const EffectModel& effects() const { return effects_; }

 private:
  using Body = std::pair<common::Template, common::Digest>;
  struct BodyHash {
    size_t operator()(const Body& body) const {
      return body.second.prefix64() + static_cast<size_t>(body.first);
    }
  };
  struct Variant {
    std::vector<double> samples;  // sorted
    bool tried = false;
    bool asked = false;  // the earlier measurements
    bool earlier = false;
    int failures = 0;
    double predicted_ns = 0;  // before the first measurement
  };
  // What a schedule's prediction is made of, whatever was learned.
  struct Priced {
    double log_ns = 0;  // by constants
    FeatureSet features;
  };
  struct Entry {
    KernelTraits traits;
    mutable std::unordered_map<ScheduleCode, Priced> priced;  // what was asked for lately
    common::Digest body;
    double prior = 0;  // sum of earlier effects for the default schedule: see log_ns()
    std::map<ScheduleCode, Variant> variants;
    std::optional<Best> best;
    int failures = 0;             // of any schedule, while none was measured
    std::optional<Effort> spent;  // by earlier searches
  };
  // The prediction by constants, from which the sum of earlier searches' effects for the default
  // schedule is taken: these effects compare schedules of one kernel, not kernels with each other.
  // Kernels that were measured while the machine was slow would have effects of their own.
  static double log_ns(const Entry& entry, ScheduleCode code);
  // Valid until the next call.
  static Priced& priced(const Entry& entry, ScheduleCode code);
  common::Digest fingerprint(const Entry& entry, ScheduleCode code) const;
  void note(KernelId id, ScheduleCode code, double ns);
  void note_earlier(KernelId id, ScheduleCode code, double ns);
  void note_clock(double sum_ns, double calls, double total_ns);
  double clock_ns() const;

  const MeasurementSource* earlier_;
  std::vector<common::WeightedSizes> sizes_;
  common::Target target_;
  std::string machine_;
  const common::DeviceTerms& terms_;
  EffectModel effects_;
  std::vector<Entry> entries_;
  std::unordered_map<Body, KernelId, BodyHash> ids_;
  int64_t reused_ = 0;
  // By how much more programs of short calls took call by call than as a whole, and their calls.
  double excess_ns_ = 0;
  double excess_calls_ = 0;
};

}  // namespace coordinator
