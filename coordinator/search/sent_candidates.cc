#include "coordinator/search/sent_candidates.h"

#include <algorithm>

#include "coordinator/search/whole_tasks.h"

namespace coordinator {

using common::TaskKind;
using common::TaskOutcome;

const Sent& SentCandidates::add(Sent sent) {
  sent.task.id = all_.size();
  if (sent.task.payload.kind == TaskKind::kComparison) ++comparisons_;
  all_.push_back(std::move(sent));
  return all_.back();
}

const Sent* SentCandidates::answer(uint64_t id, const CandidateResult& result,
                                   const MemoryBound& bound) {
  if (id >= all_.size() || all_[id].result) return nullptr;
  Sent& sent = all_[id];
  sent.result = result;
  sent.is_above_bound =
      sent.is_whole() && sent.is_ok() && !bound.holds(sent.task.payload.program, result.report);
  ++answered_;
  worker_ms_ += result.busy_ms;
  if (sent.task.payload.kind == TaskKind::kComparison) ++compared_;
  if (sent.is_whole() && sent.is_ok()) {
    auto ns = static_cast<int64_t>(sent.ns());
    best_whole_ns_ = best_whole_ns_ == 0 ? ns : std::min(best_whole_ns_, ns);
  }
  return &sent;
}

const Sent* SentCandidates::next_to_learn(uint64_t end) const {
  if (learned_ >= end || learned_ >= all_.size() || !all_[learned_].result) return nullptr;
  return &all_[learned_];
}

const Sent* SentCandidates::baseline() const {
  for (const Sent& sent : all_) {
    if (sent.task.payload.kind == TaskKind::kBaseline && sent.is_ok()) return &sent;
  }
  return nullptr;
}

bool SentCandidates::was_wrong() const {
  return std::any_of(all_.begin(), all_.end(), [](const Sent& sent) {
    return sent.is_found && sent.result && sent.result->outcome != TaskOutcome::kOk &&
           sent.result->outcome != TaskOutcome::kInfra;
  });
}

const CandidateResult* SentCandidates::last_of_whole() const {
  const CandidateResult* last = nullptr;
  for (const Sent& sent : all_) {
    if (sent.task.region < 0 && sent.result) last = &*sent.result;
  }
  return last;
}

}  // namespace coordinator
