// What a search sent to workers and what came back, in the order of sending.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "coordinator/search/job_search.h"
#include "coordinator/search/memory/memory_bound.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {

struct Sent {
  CandidateTask task;
  RegionCandidate candidate;           // of a region
  std::vector<common::Program> parts;  // the regions' programs that a whole one is made of, if any
  // Holds what was searched or was known: its failure says that this is wrong.
  bool is_found = false;
  std::optional<CandidateResult> result;
  bool is_above_bound = false;  // it ran and was right, and needs more memory than is allowed

  bool is_whole() const {
    return task.region < 0 && task.payload.kind != common::TaskKind::kComparison;
  }
  // It ran, was right and keeps the bound on memory.
  bool is_ok() const {
    return result && result->outcome == common::TaskOutcome::kOk && !is_above_bound;
  }
  uint64_t ns() const { return result->report.total_ns; }
};

// Entries keep their addresses. Not thread-safe.
class SentCandidates {
 public:
  const Sent& add(Sent sent);
  // Takes a result; null where nothing was asked under that number, or it was answered before.
  const Sent* answer(uint64_t id, const CandidateResult& result, const MemoryBound& bound);

  // The next result, in the order of sending, that learned() was not called for; null when it is
  // not there yet, or `end` candidates were learned of.
  const Sent* next_to_learn(uint64_t end) const;
  void learned() { ++learned_; }
  uint64_t learned_count() const { return learned_; }

  uint64_t size() const { return all_.size(); }
  const std::deque<Sent>& all() const { return all_; }
  bool are_answered() const { return answered_ == all_.size(); }
  // Without comparisons: sent, and of these answered.
  int64_t candidates() const { return static_cast<int64_t>(all_.size() - comparisons_); }
  int64_t completed() const { return static_cast<int64_t>(answered_ - compared_); }
  double worker_ms() const { return worker_ms_; }

  // The plain program, if it ran and was right, else what was tried in its place; null.
  const Sent* baseline() const;
  int64_t baseline_ns() const { return baseline() ? static_cast<int64_t>(baseline()->ns()) : 0; }
  // The least time of a whole program that ran and was right; 0: there is none.
  int64_t best_whole_ns() const { return best_whole_ns_; }
  // Whether a program of what was found was judged, and not right.
  bool was_wrong() const;
  // The last answer about a whole program; null.
  const CandidateResult* last_of_whole() const;

 private:
  std::deque<Sent> all_;
  uint64_t learned_ = 0, answered_ = 0;
  uint64_t comparisons_ = 0, compared_ = 0;  // sent, answered
  int64_t best_whole_ns_ = 0;
  double worker_ms_ = 0;
};

}  // namespace coordinator
