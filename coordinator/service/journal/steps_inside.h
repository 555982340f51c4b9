// One job's search in this process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/schedule/kernels/kernel_nest.h"
#include "common/wire/socket.h"
#include "coordinator/service/journal/search_steps.h"

namespace coordinator::service {

// Sees every candidate that the search proposes, and the result when it is known already.
using ProposalObserver = std::function<void(const CandidateTask&, const CandidateResult*)>;

class StepsInside final : public SearchSteps {
 public:
  // What an earlier coordinator's journal says.
  struct Known {
    KnownResults results;  // answered from here: workers are not asked again
    std::optional<int64_t> finish_after;
  };
  // `machine`: that the candidates are for. `measurements`: those that the search was made with;
  // may be null where they are not JobMeasurements, and then outlive this.
  StepsInside(std::unique_ptr<JobSearch> search, const common::NestMachine& machine,
              std::shared_ptr<JobMeasurements> measurements, Known known,
              ProposalObserver observer = {});

  // Errors are bugs of the search or a lack of memory.
  common::Result<StepResult> advance(StepRequest request) override;
  const std::vector<StageTime>& preparation() const override { return search_->preparation(); }
  SearchStatus status() const override { return search_->status(); }

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
