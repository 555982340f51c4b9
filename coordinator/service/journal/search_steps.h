// One job's search, taken forward in steps on a background thread: decoding genomes to programs
// costs milliseconds a candidate, which the event loop does not have.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/schedule/kernel_nest.h"
#include "common/wire/socket.h"
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

// Sees every candidate that the search proposes, and the result when it is known already.
using ProposalObserver = std::function<void(const CandidateTask&, const CandidateResult*)>;

// Used by one thread at a time.
class SearchSteps {
 public:
  // What an earlier coordinator's journal says.
  struct Known {
    KnownResults results;  // answered from here: workers are not asked again
    std::optional<int64_t> finish_after;
  };
  // `machine`: that the candidates are for.
  SearchSteps(std::unique_ptr<JobSearch> search, const common::NestMachine& machine,
              std::shared_ptr<JobMeasurements> measurements, Known known,
              ProposalObserver observer = {});

  // Errors are bugs of the search or a lack of memory.
  common::Result<StepResult> advance(StepRequest request);
  const std::vector<StageTime>& preparation() const { return search_->preparation(); }
  SearchStatus status() const { return search_->status(); }

 private:
  StepResult advance_unguarded(StepRequest& request);
  std::shared_ptr<const Candidate> make_ready(CandidateTask task, Proposal& proposal);
  bool answer_from_known(const CandidateTask& candidate, const ResultKey& key, Proposal& proposal);
  int proposals_before_end(int wanted);

  struct EncodedGraph {
    std::shared_ptr<const common::Graph> graph;  // keeps its address from being used again
    common::Digest digest;
    common::SharedBytes bytes;
  };
  std::shared_ptr<JobMeasurements> measurements_;
  std::unique_ptr<JobSearch> search_;  // goes before the measurements it reads
  common::NestMemo nests_;
  Known known_;
  ProposalObserver observer_;
  std::unordered_map<const common::Graph*, EncodedGraph> graphs_;
};

}  // namespace coordinator::service
