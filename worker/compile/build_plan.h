// A program becomes a plan: code is generated and compiled for every kernel that needs it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/plan/plan.h"
#include "worker/codegen/generator.h"
#include "worker/compile/compiler.h"
#include "worker/compile/kernel_cache.h"

namespace worker {

// How one kernel of the program came to its code.
struct KernelBuild {
  common::Digest fingerprint;
  common::Digest object;  // zero for library calls
  double compile_ms = 0;  // its share of the compiler runs
  bool cached = false;
};

struct BuiltPlan {
  common::Plan plan;  // the key and the provenance are the caller's to fill in
  std::map<common::Digest, std::shared_ptr<const common::Bytes>> objects;
  std::vector<KernelBuild> kernels;  // one per Program::kernels
  double compile_ms = 0;
};

// Which kernels share an object.
enum class Grouping : uint8_t {
  kAny,  // those that were compiled together, maybe for another program: nothing is compiled twice
  kByOrder,  // neighbours in the order of the program's keys: the bytes follow from program and
             // toolchain
};

// One compiler run for everything that the cache does not hold, or several side by side where the
// compiler takes more than one text. By order, kernels are compiled in groups that the cache finds
// again as a whole: programs that differ in one kernel share all groups but one. kInvalidInput or
// kUnsupported names the kernel that has no code; kTimedOut when it took longer than `timeout_ms`.
common::Result<BuiltPlan> build_plan(const common::Program& program, const CodeGenerator& generator,
                                     const Compiler& compiler, KernelCache& cache,
                                     int timeout_ms = 120'000, Grouping grouping = Grouping::kAny);

// What all objects of a generator and a compiler depend on.
common::Digest toolchain_key(const CodeGenerator& generator, const Compiler& compiler);
// The cache key of a kernel's source.
common::Digest kernel_key(const KernelSource& source, const common::Digest& toolchain);

}  // namespace worker
