// The bound on memory that a search's whole programs keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/wire/task.h"
#include "coordinator/search/records/kernel_times.h"
#include "coordinator/search/records/search_options.h"

namespace coordinator {

// What a kernel's scratch area takes is known once a worker has made its code: until then none
// counts. Without a bound every program keeps it. Not thread-safe.
class MemoryBound {
 public:
  // The bound of the options' policy, which is valid. Borrows the times.
  MemoryBound(const SearchOptions& options, KernelTimes& times);

  bool is_set() const { return bytes_ != 0; }
  // Programs that compute the same and keep the bound (memory/fit_memory.h), the ones that should
  // be the fastest first; the program alone where it keeps the bound by itself. Empty: none was
  // found. Without a bound, the program, on processors in an order that needs less memory.
  std::vector<common::Program> fit(const common::Program& program);
  // Whether a whole program with this one as a part may keep the bound.
  bool may_hold(const common::Program& part) const;
  // Whether a program that was measured keeps the bound, its code's scratch areas included.
  bool holds(const common::Program& program, const common::TaskReport& report) const;
  // Takes note of what the code of a program needs, which others must leave room for.
  void learn(const common::Program& program, const common::TaskReport& report);

  // Whether no program that fit() was given could be made to keep the bound.
  bool is_unreached() const { return is_set() && !has_fitted_; }
  // Says so, with the least that was reached.
  common::Error unreached() const;

 private:
  size_t scratch_of(const common::Program& program, const common::TaskReport& report) const;
  size_t arena_bound() const { return bytes_ > scratch_ ? bytes_ - scratch_ : 0; }

  uint64_t bytes_ = 0;
  int threads_ = 1;      // that share a run on a processor
  bool orders_ = false;  // programs without a bound
  KernelTimes& times_;
  size_t scratch_ = 0;  // bytes
  size_t least_ = SIZE_MAX;
  bool has_fitted_ = false;
};

}  // namespace coordinator
