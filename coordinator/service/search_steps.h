// One job's search, taken forward in steps on a background thread: decoding genomes to programs
// costs milliseconds a candidate, which the event loop does not have.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/wire/socket.h"
#include "coordinator/service/job_journal.h"

namespace coordinator::service {

// A candidate as workers get it.
struct ReadyCandidate {
  uint64_t id = 0;
  ResultKey key;
  std::vector<common::Digest> kernels;  // fingerprints, in the program's order
  common::Bytes payload;                // an encoded TaskPayload
  common::Digest graph;                 // that the payload names
  common::SharedBytes graph_bytes;
};

// What the search is told, and how many candidates it is asked for.
struct StepRequest {
  std::vector<std::pair<uint64_t, CandidateResult>> results;
  bool finish_now = false;
  int candidates = 0;
};

struct StepResult {
  int asked = 0;  // for candidates; fewer came if the search waits for results or is done
  std::vector<ReadyCandidate> candidates;
  SearchStatus status;
  // When the search is done.
  std::optional<common::Result<SearchOutcome>> outcome;
  EffectTable lessons;
};

// Used by one thread at a time.
class SearchSteps {
 public:
  // `known` are answered from here: workers are not asked again.
  SearchSteps(std::unique_ptr<JobSearch> search,
              std::shared_ptr<const MeasurementSource> measurements, KnownResults known);

  // Errors are bugs of the search or a lack of memory.
  common::Result<StepResult> advance(StepRequest request);
  const std::vector<StageTime>& preparation() const { return search_->preparation(); }
  SearchStatus status() const { return search_->status(); }

 private:
  StepResult advance_unguarded(StepRequest& request);
  std::optional<ReadyCandidate> make_ready(CandidateTask candidate);
  bool answer_from_known(uint64_t id, const ResultKey& key, size_t kernels);

  struct EncodedGraph {
    std::shared_ptr<const common::Graph> graph;  // keeps its address from being used again
    common::Digest digest;
    common::SharedBytes bytes;
  };
  std::shared_ptr<const MeasurementSource> measurements_;
  std::unique_ptr<JobSearch> search_;  // goes before the measurements it reads
  KnownResults known_;
  std::unordered_map<const common::Graph*, EncodedGraph> graphs_;
};

}  // namespace coordinator::service
