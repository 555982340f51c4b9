// This machine's processor as a device for searches: candidates are compiled, verified and measured
// as by a worker, in this process and its executor child.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "coordinator/search/job_search.h"

namespace bench {

class CpuDevice {
 public:
  virtual ~CpuDevice() = default;
  static common::Result<std::unique_ptr<CpuDevice>> open();

  virtual coordinator::CandidateResult measure(const coordinator::CandidateTask& task) = 0;
  virtual const common::Target& target() const = 0;
};

// lfarm-bench is its own executor child: serves when the arguments say so. Nothing otherwise.
bool is_executor_child(int argc, char** argv);
int serve_as_executor_child();

}  // namespace bench
