// A machine that exists only as formulas: what a kernel takes on it follows from the kernel alone,
// so that searches can be compared without a clock, on any machine, by the thousand.
//
// It is an analytic model of a small multicore with vector units and three caches. It shares no
// parameter and no walk with the search's cost model: a search that does well here does so by
// learning, not by knowing the formulas.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/ir/llir/llir.h"
#include "coordinator/search/job_search.h"

namespace bench {

class SimulatedDevice {
 public:
  // Each measurement is multiplied by a factor of about 1 +- noise. Fresh noise is drawn for every
  // candidate; otherwise a kernel's measurement is the same each time, as if it had been recorded.
  struct Noise {
    double spread = 0.03;
    uint64_t seed = 1;
    bool fresh = true;
  };
  explicit SimulatedDevice(const Noise& noise) : noise_(noise) {}

  // Without noise; sizes are the values of the program's symbols.
  double true_ns(const common::Program& program, const std::vector<int64_t>& sizes);
  // As a worker would answer: every candidate is right.
  coordinator::CandidateResult measure(const coordinator::CandidateTask& task);

 private:
  double kernel_ns(const common::Digest& fingerprint, const common::Kernel& kernel,
                   const std::vector<int64_t>& symbols);

  Noise noise_;
  std::map<common::Digest, double> known_;
};

}  // namespace bench
