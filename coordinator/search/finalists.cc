#include "coordinator/search/finalists.h"

#include <algorithm>

namespace coordinator {

PlanChoice::PlanChoice(const SentCandidates& sent, int64_t time_ms) {
  std::set<common::Digest> known;
  auto add = [&](const Sent& one) {
    if (one.is_whole() && one.is_ok() && known.insert(one.task.fingerprint).second) {
      contenders_.push_back(&one);
    }
  };
  if (const Sent* baseline = sent.baseline()) add(*baseline);
  for (const Sent& one : sent.all()) add(one);
  if (contenders_.empty()) return;
  std::vector<Contender> programs;
  for (const Sent* one : contenders_) programs.push_back({one->task.payload.program, one->ns()});
  choice_.emplace(std::move(programs), time_ms);
}

const Sent* PlanChoice::best() const {
  return choice_ ? contenders_[choice_->choice().contender] : nullptr;
}

const Sent* PlanChoice::best_of_parts() const {
  const Sent* found = nullptr;
  for (const Sent* one : contenders_) {
    if (one->parts.empty()) continue;
    if (one == best()) return one;
    if (found == nullptr || one->ns() < found->ns()) found = one;
  }
  return found;
}

}  // namespace coordinator
