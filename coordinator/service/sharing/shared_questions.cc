#include "coordinator/service/sharing/shared_questions.h"

#include <utility>

namespace coordinator::service {

using common::Digest;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// A server that keeps one thread waiting does not hold up the question of another.
constexpr size_t kThreads = 2;
constexpr size_t kQuestionsMax = 4'096;

}  // namespace

SharedQuestions::SharedQuestions(const common::Clock& clock, int64_t wait_ms)
    : clock_(clock), wait_ms_(wait_ms), threads_(kThreads) {}

void SharedQuestions::ask(const Digest& what, Answered done, std::function<Claim()> question,
                          Answered late) {
  if (asked_ >= kQuestionsMax) return done(Claim::kOurs);
  auto [known, is_new] = waiting_.try_emplace(what);
  known->second.waiting.push_back(std::move(done));
  if (!is_new) return;
  known->second.deadline_ns = clock_.now_ns() + wait_ms_ * kNsPerMs;
  ++asked_;
  threads_.start(
      [this, what, question = std::move(question), late = std::move(late)]() -> Background::Done {
        Claim claim = question();
        return [this, what, claim, late] {
          --asked_;
          if (!answer(what, claim)) late(claim);
        };
      });
}

// Of a question whose time was up nobody waits any more; what it brought serves the next request.
bool SharedQuestions::answer(const Digest& what, Claim claim) {
  auto found = waiting_.find(what);
  if (found == waiting_.end()) return false;
  std::vector<Answered> waiting = std::move(found->second.waiting);
  waiting_.erase(found);
  for (const Answered& done : waiting) done(claim);
  return true;
}

void SharedQuestions::expire(int64_t now_ns) {
  std::vector<Digest> expired;
  for (const auto& [what, question] : waiting_) {
    if (now_ns >= question.deadline_ns) expired.push_back(what);
  }
  for (const Digest& what : expired) {
    late_ += waiting_.at(what).waiting.size();
    answer(what, Claim::kOurs);
  }
}

}  // namespace coordinator::service
