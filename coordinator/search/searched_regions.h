// The regions of a job's graph: what each one is, what earlier searches know of it, and its search.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/ir/llir/llir.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/records/known_kernels.h"
#include "coordinator/search/records/measurement_source.h"
#include "coordinator/search/records/search_options.h"
#include "coordinator/search/records/tuning_records.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {

struct SearchedRegion {
  std::shared_ptr<const common::Graph> graph;
  int64_t executions = 0;              // in one run of the whole graph
  common::Program lowering;            // without rewriting or fusion choices
  std::optional<TuningRecord> known;   // what an earlier search found
  std::optional<TuningRecord> kin;     // the same for a region that differs in sizes; see kin.h
  bool is_covered = false;             // what is known is enough: nothing is searched
  std::unique_ptr<RegionSpace> space;  // null where covered
  std::unique_ptr<RegionSearch> search;
  std::optional<RegionCandidate> first;  // in the plain program, until its time is learned
  int64_t tried = 0;                     // candidates
  bool is_exhausted = false;             // nothing more is to be proposed,
  bool is_out_of_ideas = false;          // because nothing new was found
  double worker_ms = 0;                  // that candidates took
};

// How a search came to its end, which says what its effort was.
struct SearchEnd {
  bool is_settled = false;          // more candidates were not expected to help
  bool was_told_to_finish = false;  // the time was over
};

// Not thread-safe.
class SearchedRegions {
 public:
  // Rolls the graph, cuts it, looks up what is known and opens a search for all else. `lap` is told
  // the name of each stage when it is over. Options and times outlive the object; `earlier` may be
  // null.
  SearchedRegions(const common::Graph& graph, const SearchOptions& options, KernelTimes& times,
                  const MeasurementSource* earlier,
                  const std::function<void(const char* stage)>& lap);

  size_t size() const { return regions_.size(); }
  const SearchedRegion& operator[](size_t r) const { return regions_[r]; }
  // A program that an earlier search found for an equal graph.
  const std::optional<TuningRecord>& whole() const { return whole_; }
  // The candidates that are left of the options' budget by what is known already.
  int64_t budget() const;

  // ---- programs
  // Of the whole graph, from one program a region.
  common::Program assembled(const std::vector<common::Program>& parts) const;
  common::Program lowering() const;
  // The plain program with direct sums in place of minimal filters; empty where it has none.
  std::optional<common::Program> direct() const;
  // Each region's rank-th best program.
  std::vector<common::Program> ranked(size_t rank) const;
  // What each region's search would try first, or what is known of it: the parts of the plain
  // program. Once, before any candidate is asked for.
  std::vector<common::Program> take_first();
  // The plain program ran and was right: what was recorded of its kernels holds for its parts.
  void learn_first();

  // ---- candidates
  struct Proposal {
    size_t region = 0;
    RegionCandidate candidate;
  };
  // A part of the plain program, which failed, to be tried by itself.
  std::optional<Proposal> next_part_of_first();
  // Of the region where a candidate promises most: time it takes in a run, over candidates tried.
  // Empty when that region has nothing new, or all are exhausted.
  std::optional<Proposal> next();
  bool are_exhausted() const;
  void tell(size_t region, const RegionCandidate& candidate, std::optional<double> ns);
  void add_worker_ms(size_t region, double ms) { regions_[region].worker_ms += ms; }

  // ---- what is known
  // Of the whole graph in ns, from its regions; 0 before every region was measured, unless it
  // `predicts`.
  double estimate(bool predicts = false) const;
  int64_t duplicates() const;
  int64_t covered() const;
  double saved_ms() const;  // that workers did not take because of what earlier searches found
  KnownKernels::Count count_known(const common::Program& program) {
    return known_kernels_.count(program);
  }

  // ---- what is left to later searches
  // Of each region that was searched; `parts` are the programs of the best whole.
  std::map<common::Digest, TuningRecord> records(const std::vector<common::Program>& parts,
                                                 const SearchEnd& end) const;
  // Of each region that was believed to be known.
  std::map<common::Digest, TuningRecord> withdrawn_records() const;
  const common::Digest& whole_key() const { return whole_key_; }

 private:
  void look_up(const common::Graph& graph, const MeasurementSource& source);
  void open_space(SearchedRegion& region, const common::Clock& clock) const;
  std::unique_ptr<RegionSearch> begin_search(size_t r) const;
  double ns_of(const SearchedRegion& region) const;
  Effort spent_on(const SearchedRegion& region, const SearchEnd& end) const;
  common::Digest key_of(const SearchedRegion& region) const;

  const SearchOptions& options_;
  KernelTimes& times_;
  KnownKernels known_kernels_;
  Cut cut_;
  std::vector<SearchedRegion> regions_;
  std::vector<Effort> efforts_;  // expected, of each region
  common::Digest whole_key_;
  std::optional<TuningRecord> whole_;
};

}  // namespace coordinator
