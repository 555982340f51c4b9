// The end of a search: whole programs of the best parts, and the choice among all whole programs
// that ran and were right.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "coordinator/search/final_choice.h"
#include "coordinator/search/sent_candidates.h"

namespace coordinator {

// A whole program to send. `parts` are empty where it is not made of the regions' programs.
struct Finalist {
  common::Program program;
  std::vector<common::Program> parts;
};

// Equal programs are sent once.
class FinalistQueue {
 public:
  // Whether the program is new; from now on it is not.
  bool claim(const common::Program& program) {
    return known_.insert(common::program_fingerprint(program)).second;
  }
  // False where the program is not new.
  bool add(Finalist finalist) {
    bool is_new = claim(finalist.program);
    if (is_new) waiting_.push_back(std::move(finalist));
    return is_new;
  }
  bool empty() const { return waiting_.empty(); }
  Finalist take() {
    Finalist next = std::move(waiting_.front());
    waiting_.pop_front();
    return next;
  }

 private:
  std::set<common::Digest> known_;
  std::deque<Finalist> waiting_;
};

// The plan among all whole programs that ran and were right.
class PlanChoice {
 public:
  // Everything sent is answered. The plain program comes first: others are compared with it.
  PlanChoice(const SentCandidates& sent, int64_t time_ms);

  bool is_decided() const { return !choice_ || choice_->is_decided(); }
  // The comparison to send next, if any.
  std::optional<FinalChoice::Task> next() { return choice_ ? choice_->next() : std::nullopt; }
  void tell(const CandidateResult& result) { choice_->tell(result); }

  // Once decided; null when nothing ran and was right.
  const Sent* best() const;
  const Choice& choice() const { return choice_->choice(); }
  // Of those that are made of the regions' programs: the best, else the one that took least; null.
  const Sent* best_of_parts() const;

 private:
  std::vector<const Sent*> contenders_;
  std::optional<FinalChoice> choice_;  // empty without contenders
};

}  // namespace coordinator
