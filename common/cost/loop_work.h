// What loops of a kernel do on a processor, counted where a nest is lowered or a body is walked.
#pragma once

#include <cstdint>
#include <vector>

namespace common {

// What one step of a loop does.
struct StepWork {
  double simple = 0;     // additions, comparisons, conversions, loads and stores in order
  double choices = 0;    // between two values: a branch, where it is by itself
  double divisions = 0;  // and square roots: simple for no unit, but of one instruction
  double functions = 0;  // and the like, in float32 exponentials
  double calls = 0;      // of a library, one step after the other
  double turns = 0;      // loads that a walk by squares finds side by side after all
  double jumps = 0;      // loads whose neighbours are not neighbours in memory
  double folds = 0;      // divisions of an index
  double row_sums = 0;   // of a vector's lanes, at the end of a loop that reduces

  StepWork& operator+=(const StepWork& other);
  StepWork& operator*=(double times);
  friend bool operator==(const StepWork&, const StepWork&) = default;
};

// The cost of a strided load, in jumps, whose cache line is evicted from the L1 cache before its
// next element is read: the load touches kFirstCacheLines other lines in between. Measured: a norm
// of each of 32 channels, channels last, over 128 x 128 images takes 0.8 ns an element; a jump
// within the L1 cache takes 0.23 ns.
inline constexpr double kLineJump = 4;
inline constexpr int64_t kFirstCacheLines = 512;  // 32 KiB

// How many steps of a loop its vectors are to take at once.
struct VectorWish {
  bool is_asked = false;  // by a pragma of the loop's own
  int64_t width = 0;      // of a vector; 0: the compiler's choice
  int64_t unroll = 1;     // vectors of a round
  friend bool operator==(const VectorWish&, const VectorWish&) = default;
};

// A loop without loops inside, whose steps a compiler may run side by side.
struct LoopWork : StepWork {
  double runs = 0;    // of the whole loop, in one launch
  double extent = 1;  // steps; 1: what is computed outside of innermost loops
  VectorWish vectors;
  // Rows are read that were written step by step.
  bool reads_steps = false;
};

// What the text of one scope does so far, loop by loop.
class LoopCounts {
 public:
  void add(const StepWork& work) { step_ += work; }
  // A loop that runs `loop.runs` times in each step of this scope.
  void add(const LoopWork& loop);
  // Of the scope's own loop.
  void set_vectors(const VectorWish& vectors) { vectors_ = vectors; }
  // The scope of a loop of `steps` steps, inside of this one, is complete.
  void add_loop(LoopCounts&& inner, double steps);
  // The same of a block that is run in a share of this scope's steps.
  void add_block(LoopCounts&& inner, double share);
  // All that the scope does when it runs once.
  std::vector<LoopWork> finish();

 private:
  void add_inner(std::vector<LoopWork>&& loops, double times);

  StepWork step_;
  std::vector<LoopWork> loops_;
  VectorWish vectors_;
};

}  // namespace common
