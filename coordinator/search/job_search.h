// The search for one submitted graph, from its regions to a verified whole plan.
//
// A pure machine: it proposes candidates and learns from results, and touches neither sockets nor
// clocks nor files. The same graph, options and results give the same proposals, in whatever order
// the results arrive: a proposal depends only on results of candidates at least `in_flight` before
// it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "common/wire/messages.h"
#include "common/wire/task.h"
#include "coordinator/search/genes/effects.h"
#include "coordinator/search/records/measurement_source.h"
#include "coordinator/search/records/search_options.h"
#include "coordinator/search/records/tuning_records.h"

namespace coordinator {

// What became of a candidate. kInfra reaches the search only when the farm gave up retrying.
struct CandidateResult {
  common::TaskOutcome outcome{};
  std::string message;  // what went wrong
  std::string worker;
  common::TaskReport report;            // when the outcome is kOk
  double busy_ms = 0;                   // what the worker took for it
  std::vector<common::TaskSpan> spans;  // of that, for traces: no search looks at them
};

// Which candidate it is and where it comes from: all that its task, its course and its replay say
// of it besides its program.
struct CandidateFacts {
  uint64_t id = 0;             // dense, in the order of proposal
  common::Digest fingerprint;  // of the program; equal candidates are sent once
  int region = -1;             // that the program computes; -1: the whole graph
  // How the program was found: "plain", "seed", "crossover", ...
  std::string origin;
  double predicted_ns = 0;  // from kernels measured so far and predictions for the others
};

struct CandidateTask : CandidateFacts {
  std::shared_ptr<const common::Graph> graph;  // what the program must compute: a region or all
  // All but `graph`, the digest of the encoded graph, which whoever encodes it fills in.
  common::TaskPayload payload;
  // common::body_hashes() of the program; empty where they were not needed.
  std::vector<common::Digest> bodies = {};
};

struct StageTime {
  std::string stage;  // "roll", "saturate", ...
  double ms = 0;
};

// What a search need not do because it or an earlier one had done it.
struct SearchReuse {
  int64_t regions = 0;        // distinct
  int64_t duplicates = 0;     // candidates that were not sent because their twin was
  int64_t reused = 0;         // kernels whose time was known from earlier searches
  int64_t known_regions = 0;  // that need no search, because an earlier one was as thorough
  // Of the finished plan: its kernels, and those that an earlier search had compiled and measured.
  int64_t kernels = 0;
  int64_t known_kernels = 0;
  double worker_ms = 0;  // what workers took for this search's candidates,
  double saved_ms = 0;   // and for those of earlier searches that found the known regions
};

struct SearchStatus : SearchReuse {
  std::string stage;       // "baseline", "search", "finalists", "done"
  int64_t candidates = 0;  // sent
  int64_t completed = 0;
  int64_t budget = 0;
  // Of the best whole program that was measured, so it never rises; 0 before the first was. When
  // done, of the plan, as the comparison of the finalists measured it.
  int64_t best_ns = 0;
  // That the best programs of the regions will take as one, an estimate from measured and predicted
  // times that may rise; best_ns when done; 0 while unknown.
  int64_t expected_ns = 0;
  int64_t baseline_ns = 0;
  int64_t learned = 0;  // results that the next proposal knows of
  // What one worker is expected to take for candidates that are under way and, after finish_now(),
  // for all that follows.
  double pending_ms = 0, closing_ms = 0;
};

// The outcome of a finished search: a plan whose key and provenance are filled in but for the
// farm's name and the time, and whose objects the measuring worker holds.
struct SearchOutcome {
  common::Plan plan;
  std::string worker;
  uint64_t candidate = 0;  // CandidateTask::id of the whole program that became the plan
  std::string note;        // for people: what could not be decided; empty where there is nothing
};

class JobSearch {
 public:
  // Rolls, cuts into regions, saturates. `measurements` may be null and must outlive the search.
  // kInvalidInput when the graph does not verify or the policy is none.
  static common::Result<std::unique_ptr<JobSearch>> create(const common::Graph& graph,
                                                           const SearchOptions& options,
                                                           const MeasurementSource* measurements);
  virtual ~JobSearch() = default;

  // At most `max` new candidates; fewer (or none) while results are awaited or when done.
  virtual std::vector<CandidateTask> propose(int max) = 0;
  virtual void on_result(uint64_t id, const CandidateResult& result) = 0;
  virtual bool done() const = 0;
  // Ends early with the best that is known (a time budget ran out): only finalists follow.
  virtual void finish_now() = 0;
  virtual SearchStatus status() const = 0;
  // Plans of whole programs that were verified and measured since the last call, each faster than
  // those before by more than both scatter: the plain program's first. The search goes on.
  virtual std::vector<SearchOutcome> take_interim() { return {}; }
  // The whole graph's program made of what is best now.
  virtual common::Program best_program() const = 0;
  // What this search's measurements say about kernels and schedules in general.
  virtual EffectTable learned() const = 0;
  // After done(): what later searches need not find out again, by region_key() and kernel_key().
  virtual std::map<common::Digest, TuningRecord> tuning_records() const = 0;
  // How long the preparation took, by stage.
  virtual const std::vector<StageTime>& preparation() const = 0;
  // After done(): the result, or kVerification / kInternal when not even the baseline worked.
  virtual common::Result<SearchOutcome> outcome() const = 0;
};

}  // namespace coordinator
