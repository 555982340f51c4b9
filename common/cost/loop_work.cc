#include "common/cost/loop_work.h"

#include <algorithm>
#include <utility>

namespace common {
namespace {

constexpr double StepWork::*kKinds[] = {
    &StepWork::simple,    &StepWork::choices, &StepWork::divisions,
    &StepWork::functions, &StepWork::calls,   &StepWork::turns,
    &StepWork::jumps,     &StepWork::folds,   &StepWork::row_sums};

}  // namespace

StepWork& StepWork::operator+=(const StepWork& other) {
  for (double StepWork::*kind : kKinds) this->*kind += other.*kind;
  return *this;
}

StepWork& StepWork::operator*=(double times) {
  for (double StepWork::*kind : kKinds) this->*kind *= times;
  return *this;
}

// What is outside of innermost loops and runs equally often is one entry.
void LoopCounts::add(const LoopWork& loop) {
  auto known = loops_.end();
  if (loop.extent == 1) {
    known = std::find_if(loops_.begin(), loops_.end(), [&](const LoopWork& other) {
      return other.extent == 1 && other.runs == loop.runs;
    });
  }
  if (known != loops_.end()) {
    *known += loop;
  } else {
    loops_.push_back(loop);
  }
}

void LoopCounts::add_inner(std::vector<LoopWork>&& loops, double times) {
  for (LoopWork& loop : loops) {
    loop.runs *= times;
    add(loop);
  }
}

void LoopCounts::add_loop(LoopCounts&& inner, double steps) {
  LoopWork own;
  static_cast<StepWork&>(own) = inner.step_;
  if (inner.loops_.empty()) {
    own.runs = 1;
    own.extent = steps;
    own.vectors = inner.vectors_;
  } else {
    own.runs = steps;
    own.simple += std::exchange(own.jumps, 0);  // neighbours are not loaded together anyway
  }
  add(own);
  add_inner(std::move(inner.loops_), steps);
}

void LoopCounts::add_block(LoopCounts&& inner, double share) {
  inner.step_ *= share;
  step_ += inner.step_;
  add_inner(std::move(inner.loops_), share);
}

std::vector<LoopWork> LoopCounts::finish() {
  LoopWork own;
  static_cast<StepWork&>(own) = step_;
  own.runs = 1;
  own.simple += std::exchange(own.jumps, 0);
  add(own);
  return std::move(loops_);
}

}  // namespace common
