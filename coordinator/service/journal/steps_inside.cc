#include "coordinator/service/journal/steps_inside.h"

#include <algorithm>
#include <exception>

#include "common/base/cat.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/llir/kernel_identity.h"
#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::cat;
using common::Result;

StepsInside::StepsInside(std::unique_ptr<JobSearch> search, const common::NestMachine& machine,
                         std::shared_ptr<JobMeasurements> measurements, Known known,
                         ProposalObserver observer)
    : measurements_(std::move(measurements)),
      search_(std::move(search)),
      nests_(machine),
      known_(std::move(known)),
      observer_(std::move(observer)) {}

Result<StepResult> StepsInside::advance(StepRequest request) {
  try {
    return advance_unguarded(request);
  } catch (const std::exception& exception) {
    return common::internal_error(cat("the search broke off: ", exception.what()));
  }
}

StepResult StepsInside::advance_unguarded(StepRequest& request) {
  for (const auto& [id, result] : request.results) search_->on_result(id, result);
  StepResult step;
  if (request.finish_now) {
    step.finished_after = search_->status().candidates;
    search_->finish_now();
  }
  step.asked = request.candidates;
  while (!search_->done() && static_cast<int>(step.candidates.size()) < request.candidates) {
    int wanted = request.candidates - static_cast<int>(step.candidates.size());
    std::vector<CandidateTask> proposals = search_->propose(proposals_before_end(wanted));
    if (proposals.empty()) break;
    for (CandidateTask& task : proposals) {
      step.proposals.push_back({task, task.payload.kind, std::nullopt});
      auto candidate = make_ready(std::move(task), step.proposals.back());
      if (candidate) step.candidates.push_back(std::move(candidate));
    }
  }
  step.status = search_->status();
  step.interim = search_->take_interim();
  if (measurements_) {
    step.answers = measurements_->take_fresh();
    step.fresh_tuning_records = measurements_->take_fresh_tuning_records();
  }
  if (search_->done()) {
    step.outcome = search_->outcome();
    step.learned = search_->learned();
    step.tuning_records = search_->tuning_records();
  }
  return step;
}

// Tells the search to end where the journal says that it was told to; before that, no step goes
// beyond that point.
int StepsInside::proposals_before_end(int wanted) {
  if (!known_.finish_after) return wanted;
  int64_t left = *known_.finish_after - search_->status().candidates;
  if (left > 0) return static_cast<int>(std::min<int64_t>(wanted, left));
  search_->finish_now();
  known_.finish_after.reset();
  return wanted;
}

// Null when the search has been told the result at once.
std::shared_ptr<const Candidate> StepsInside::make_ready(CandidateTask task, Proposal& proposal) {
  auto ready = std::make_shared<Candidate>();
  static_cast<CandidateFacts&>(*ready) = task;
  ready->kind = task.payload.kind;
  const std::vector<common::Kernel>& kernels = task.payload.program.kernels;
  if (task.bodies.size() != kernels.size()) task.bodies = common::body_hashes(task.payload.program);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const common::Kernel& kernel = kernels[k];
    const common::Digest& body = task.bodies[k];
    ready->kernels.push_back(common::kernel_fingerprint(kernel.form, kernel.schedule, body));
    ready->forms.push_back({kernel.form, body, kernel.schedule});
  }
  if (answer_from_known(task, ready->key(), proposal)) return nullptr;
  EncodedGraph& graph = graphs_[task.graph.get()];
  if (!graph.graph) {
    graph.graph = task.graph;
    graph.bytes = common::share(common::encode_graph(*task.graph));
    graph.digest = common::digest_of(graph.bytes.bytes);
  }
  ready->graph = task.payload.graph = graph.digest;
  ready->graph_bytes = graph.bytes;
  nests_.add(task.payload.program, ready->kernels);
  for (common::Program& rival : task.payload.rivals) nests_.add(rival);
  ready->payload = common::encode_task_payload(task.payload);
  if (ready->payload.size() <= common::kPayloadBytesMax) return ready;
  CandidateResult result;
  result.outcome = common::TaskOutcome::kCompileError;
  result.message = cat("the program takes ", ready->payload.size(), " bytes, too many to send");
  search_->on_result(ready->id, result);
  proposal.known = std::move(result);
  return nullptr;
}

bool StepsInside::answer_from_known(const CandidateTask& candidate, const ResultKey& key,
                                    Proposal& proposal) {
  auto known = known_.results.find(key);
  bool is_known = known != known_.results.end();
  if (is_known && known->second.outcome == common::TaskOutcome::kOk) {
    is_known = known->second.report.kernels.size() == candidate.payload.program.kernels.size();
  }
  if (observer_) observer_(candidate, is_known ? &known->second : nullptr);
  if (!is_known) return false;
  search_->on_result(candidate.id, known->second);
  proposal.known = std::move(known->second);
  known_.results.erase(known);
  return true;
}

}  // namespace coordinator::service
