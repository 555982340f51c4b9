#include "common/cost/loop_time.h"

#include <cmath>

namespace common {
namespace {

// Vectors and single steps that a loop of `extent` steps takes.
struct Steps {
  double vectors = 0;
  double single = 0;
};

// Of a short loop that nothing was asked for, a compiler makes vectors when none is left over. Else
// it writes all steps out and packs them by fours, if it finds the same in each: what a step
// chooses by a byte it does not.
Steps short_steps(double extent, bool chooses, const VectorTerms& terms) {
  double width = terms.lanes / 2;
  while (width > 1 && std::fmod(extent, width) != 0) width /= 2;
  if (width >= 4) return {extent / width, 0};
  constexpr double kPacked = 4;
  double packed = chooses ? 0 : std::floor(extent / kPacked);
  return {packed, extent - packed * kPacked};
}

// Nothing but what is written out in as many instructions as there are vectors.
bool is_copy(const LoopWork& work) {
  return work.choices + work.divisions + work.functions + work.calls + work.turns + work.jumps +
             work.folds ==
         0;
}

// A loop shorter than one round of its vectors is computed step by step, and so is what a round
// leaves over: a compiler that is told how many vectors a round has makes no smaller ones.
Steps steps_of(const LoopWork& work, const VectorTerms& terms) {
  if (work.extent <= 1) return {0, work.extent};
  const VectorWish& asked = work.vectors;
  auto width = static_cast<double>(asked.width);
  auto unroll = static_cast<double>(asked.unroll);
  bool is_short = work.extent < terms.lanes;
  if (is_short && (!asked.is_asked || (work.reads_steps && width == 0) || is_copy(work))) {
    return short_steps(work.extent, work.reads_steps || work.choices > 0, terms);
  }
  if (width == 0) {
    width = terms.lanes;
    while (width > 1 && width * unroll > work.extent) width /= 2;
  }
  double rounds = std::floor(work.extent / (width * unroll));
  return {rounds * unroll, work.extent - rounds * width * unroll};
}

// Of one step by itself, or of a vector's at once.
double step_ns(const StepWork& work, const StepTerms& terms, bool at_once) {
  const size_t k = at_once ? 1 : 0;
  return work.simple * terms.simple_ns[k] + work.choices * terms.choice_ns[k] +
         work.divisions * terms.division_ns[k] + work.functions * terms.function_ns[k] +
         work.folds * terms.fold_ns[k];
}

}  // namespace

double loop_ns(const LoopWork& work, const VectorTerms& terms) {
  const StepTerms& each = terms.step;
  const Steps steps = steps_of(work, terms);
  const bool is_written_out =
      work.extent <= kWrittenOut || (work.extent < terms.lanes && is_copy(work));
  double run = is_written_out ? 0 : terms.loop.run_ns;
  if (work.functions > 0) run += terms.loop.first_ns;
  run += steps.single * step_ns(work, each, false) + steps.vectors * step_ns(work, each, true);
  if (work.choices > 0) {
    run += steps.single * work.functions * each.chosen_function_ns[work.vectors.is_asked ? 1 : 0];
  }
  run += work.extent * (work.calls * each.call_ns + work.jumps * each.jump_ns +
                        work.turns * each.turn_ns + work.row_sums * terms.loop.row_sum_ns);
  return work.runs * run;
}

double loops_ns(std::span<const LoopWork> loops, const VectorTerms& terms) {
  double sum = 0;
  for (const LoopWork& loop : loops) sum += loop_ns(loop, terms);
  return sum;
}

}  // namespace common
