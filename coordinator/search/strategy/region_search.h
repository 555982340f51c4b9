// The search over one region's programs: proposes candidates and learns from their times.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/search/records/kernel_times.h"
#include "coordinator/search/records/search_options.h"
#include "coordinator/search/records/tuning_records.h"
#include "coordinator/search/space/fusion_gate.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {

struct RegionCandidate {
  Genome genome;
  std::shared_ptr<const common::Program> program;
  common::Digest fingerprint;
  double predicted_ns = 0;
  std::string_view origin;  // how it was bred; a literal
  // The kernels in the program's order, and those among them that were never tried before.
  std::vector<std::pair<KernelId, ScheduleCode>> kernels;
  std::vector<size_t> untried;
  std::vector<common::Digest> bodies = {};  // as CandidateTask has them
};

// Equal programs are proposed once, whatever genomes they come from. Not thread-safe.
class RegionSearch {
 public:
  // Borrows the space and the times. `kin`: the best genome of a region that differs in sizes
  // alone, where the search begins; may be null.
  static std::unique_ptr<RegionSearch> create(RegionSpace& space, KernelTimes& times, uint64_t seed,
                                              SearchStrategy strategy, const Genome* kin = nullptr);
  virtual ~RegionSearch() = default;

  // Empty when nothing new was found in reasonable time.
  virtual std::optional<RegionCandidate> propose() = 0;
  // A candidate ran and was right, and took this long; or it failed. What its kernels took is
  // recorded in the times before.
  virtual void tell(const RegionCandidate& candidate, std::optional<double> ns) = 0;
  // The rank-th best known program (0 is the best); the default while nothing was measured.
  virtual common::Program ranked(size_t rank) const = 0;
  // What would be tried first if no convolution were computed by minimal filters, which round more
  // than direct sums do: for where what was tried first is wrong. Empty where none is.
  virtual std::optional<common::Program> direct() { return std::nullopt; }
  // Of the best, schedules included; empty while nothing was measured, or where it is not known.
  virtual Genome best_genome() const { return {}; }
  // Time of the best, or of the default as predicted.
  virtual double best_ns() const = 0;
  virtual bool has_measurement() const = 0;
  // What the best will take, as far as that can be told before anything is measured.
  virtual double expected_ns() { return best_ns(); }
  // What was decided before anything was measured.
  const std::vector<FusionDecision>& fusion_decisions() const { return decisions_; }
  virtual int64_t duplicates() const { return duplicates_; }
  // Programs whose time follows from measured kernels, so that they needed no run of their own.
  virtual int64_t composed() const { return composed_; }
  // Before anything is measured: the share of the default's time that is spent in kernels into
  // which no earlier search put as much.
  virtual double novelty(const Effort&) { return 1; }

 protected:
  int64_t duplicates_ = 0;
  int64_t composed_ = 0;
  std::vector<FusionDecision> decisions_;
};

// Genes for which every contraction that can be is lowered one way, for all ways there are: what
// searches begin with beside the default.
std::vector<Genome> lowering_seeds(RegionSpace& space);
// Genes for which every value that the default stores is written along with what another kernel
// computes, where one can: by users' kernels, and by siblings'.
std::vector<Genome> multi_output_seeds(RegionSpace& space);

// Genes for which contractions of one operand are slices of one contraction, wherever they can be:
// alone each slice would cost as much as all.
std::vector<Genome> packing_seeds(RegionSpace& space);
// Sets a choice, and with a slice of a contraction (or away from one) those of its siblings.
void set_choice(const RegionSpace& space, const std::vector<Site>& sites, const Site& site,
                int64_t value, Genome& genome);

}  // namespace coordinator
