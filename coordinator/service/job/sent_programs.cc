#include "coordinator/service/job/sent_programs.h"

#include <utility>

#include "coordinator/service/plans/recipe.h"

namespace coordinator::service {

common::Status SentPrograms::send(std::shared_ptr<const Candidate> candidate) {
  if (!graphs_.contains(candidate->graph)) {
    auto blob = scope_.env.blobs.hold(candidate->graph_bytes);
    if (!blob) return scope_.too_many_graphs();
    graphs_.emplace(candidate->graph, std::move(*blob));
  }
  ++under_way_;
  scope_.env.dispatcher.add_task({scope_.request.id, scope_.device(), std::move(candidate)});
  return {};
}

void SentPrograms::answered(const TaskDone& done) {
  --under_way_;
  bool is_right = done.result.outcome == common::TaskOutcome::kOk;
  if (is_right && done.candidate->may_become_plan()) {
    verified_.emplace(done.candidate->id, Verified{done.candidate, scope_.make_of(done)});
  }
}

std::shared_ptr<const Candidate> SentPrograms::verified(uint64_t candidate) const {
  auto found = verified_.find(candidate);
  return found == verified_.end() ? nullptr : found->second.candidate;
}

std::optional<WorkerMake> SentPrograms::make_of(uint64_t candidate) const {
  auto found = verified_.find(candidate);
  return found == verified_.end() ? std::nullopt : found->second.make;
}

void SentPrograms::run_again(std::shared_ptr<const Candidate> program) const {
  scope_.env.dispatcher.add_task({scope_.request.id, scope_.device(), std::move(program)});
}

std::string SentPrograms::recipe(uint64_t candidate) const {
  auto program = verified(candidate);
  if (!program) return {};
  return encode_recipe({program->payload, common::to_bytes(program->graph_bytes.bytes)});
}

}  // namespace coordinator::service
