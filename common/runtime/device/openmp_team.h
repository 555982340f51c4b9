// The threads of an OpenMP runtime that the process uses besides lfarm, as PyTorch does.
#pragma once

#include <memory>

#include "common/process/shared_library.h"

namespace common {

// After a parallel region the threads of such a runtime wait actively for some milliseconds
// (GOMP_SPINCOUNT, KMP_BLOCKTIME). Threads of lfarm's own would share processors with them whenever
// a plan follows an operator of PyTorch's.
class OpenMpTeam {
 public:
  // That of the first runtime in the order in which the process loaded libraries: libgomp, or
  // libomp and libiomp5, which have its entry points. Null where the process has none; loads
  // nothing.
  static std::shared_ptr<const OpenMpTeam> find();

  // Calls job(context, member) once for each member and returns when all are done; the calling
  // thread is member 0. Where the runtime gives fewer threads (OMP_THREAD_LIMIT, within a parallel
  // region), a thread takes several members.
  void run(int members, void (*job)(void* context, int member), void* context) const;

 private:
  OpenMpTeam() = default;
  std::shared_ptr<const SharedLibrary> library_;
  void (*parallel_)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread_number_)() = nullptr;
  int (*number_of_threads_)() = nullptr;
};

}  // namespace common
