#include "coordinator/service/search_steps.h"

#include <exception>

#include "common/base/cat.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::cat;
using common::Result;

SearchSteps::SearchSteps(std::unique_ptr<JobSearch> search,
                         std::shared_ptr<const MeasurementSource> measurements, KnownResults known)
    : measurements_(std::move(measurements)),
      search_(std::move(search)),
      known_(std::move(known)) {}

Result<StepResult> SearchSteps::advance(StepRequest request) {
  try {
    return advance_unguarded(request);
  } catch (const std::exception& exception) {
    return common::internal_error(cat("the search broke off: ", exception.what()));
  }
}

StepResult SearchSteps::advance_unguarded(StepRequest& request) {
  for (const auto& [id, result] : request.results) search_->on_result(id, result);
  if (request.finish_now) search_->finish_now();
  StepResult step;
  step.asked = request.candidates;
  while (!search_->done() && static_cast<int>(step.candidates.size()) < request.candidates) {
    int wanted = request.candidates - static_cast<int>(step.candidates.size());
    std::vector<CandidateTask> proposals = search_->propose(wanted);
    if (proposals.empty()) break;
    for (CandidateTask& proposal : proposals) {
      auto candidate = make_ready(std::move(proposal));
      if (candidate) step.candidates.push_back(std::move(*candidate));
    }
  }
  step.status = search_->status();
  if (search_->done()) {
    step.outcome = search_->outcome();
    step.lessons = search_->lessons();
  }
  return step;
}

// Empty when the search has been told the result at once.
std::optional<ReadyCandidate> SearchSteps::make_ready(CandidateTask candidate) {
  ReadyCandidate ready;
  ready.id = candidate.id;
  ready.key = {candidate.payload.kind, candidate.fingerprint};
  for (const common::Kernel& kernel : candidate.payload.program.kernels) {
    ready.kernels.push_back(common::kernel_fingerprint(kernel));
  }
  if (answer_from_known(ready.id, ready.key, ready.kernels.size())) return std::nullopt;
  EncodedGraph& graph = graphs_[candidate.graph.get()];
  if (!graph.graph) {
    graph.graph = candidate.graph;
    graph.bytes = common::share(common::encode_graph(*candidate.graph));
    graph.digest = common::digest_of(graph.bytes.bytes);
  }
  ready.graph = candidate.payload.graph = graph.digest;
  ready.graph_bytes = graph.bytes;
  ready.payload = common::encode_task_payload(candidate.payload);
  if (ready.payload.size() <= common::kPayloadBytesMax) return ready;
  CandidateResult result;
  result.outcome = common::TaskOutcome::kCompileError;
  result.message = cat("the program takes ", ready.payload.size(), " bytes, too many to send");
  search_->on_result(ready.id, result);
  return std::nullopt;
}

bool SearchSteps::answer_from_known(uint64_t id, const ResultKey& key, size_t kernels) {
  auto known = known_.find(key);
  if (known == known_.end()) return false;
  CandidateResult result = std::move(known->second);
  known_.erase(known);
  bool is_ok = result.outcome == common::TaskOutcome::kOk;
  if (is_ok && result.report.kernels.size() != kernels) return false;
  search_->on_result(id, result);
  return true;
}

}  // namespace coordinator::service
