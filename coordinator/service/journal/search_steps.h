// One job's search, taken forward in steps on a background thread: decoding genomes to programs
// costs milliseconds a candidate, which the event loop does not have. The search itself is in this
// process (steps_inside.h) or in a searcher's (coordinator/service/searchers).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/service/journal/job_course.h"
#include "coordinator/service/journal/job_journal.h"

namespace coordinator::service {

// What a job's search is to do.
SearchOptions search_options(const JobRequest& request, const JobStart& start);

// What the search is told, and how many candidates it is asked for.
struct StepRequest {
  std::vector<std::pair<uint64_t, CandidateResult>> results;
  bool finish_now = false;
  int candidates = 0;
};

struct StepResult {
  int asked = 0;  // for candidates; fewer came if the search waits for results or is done
  std::vector<std::shared_ptr<const Candidate>> candidates;
  std::vector<Proposal> proposals;  // all that the search proposed, for who watches it
  SearchStatus status;
  std::vector<SearchOutcome> interim;  // see JobSearch::take_interim
  // For the journal: what the search newly asked of the store, and after how many candidates it was
  // told to end.
  std::vector<std::pair<common::Digest, int64_t>> answers;
  std::vector<std::pair<common::Digest, TuningRecord>> fresh_tuning_records;
  std::optional<int64_t> finished_after;
  // When the search is done.
  std::optional<common::Result<SearchOutcome>> outcome;
  EffectTable learned;
  std::map<common::Digest, TuningRecord> tuning_records;
};

// Used by one thread at a time.
class SearchSteps {
 public:
  virtual ~SearchSteps() = default;
  // Errors are bugs of the search, a lack of memory, or searchers that were lost one after another.
  virtual common::Result<StepResult> advance(StepRequest request) = 0;
  // How long the preparation took, by stage.
  virtual const std::vector<StageTime>& preparation() const = 0;
  // As of the last step.
  virtual SearchStatus status() const = 0;
  // Whether a step is waited for rather than worked on.
  virtual bool is_apart() const { return false; }
};

}  // namespace coordinator::service
