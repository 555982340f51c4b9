// Fusion: the kernels that follow from what is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "coordinator/search/fusion/launches.h"
#include "coordinator/search/partition/materialisation.h"

namespace coordinator {

// A kernel with its default schedule, apart from where it is called.
struct BuiltKernel {
  common::Kernel kernel;
  common::Digest body;          // graph_hash of the kernel's body
  std::vector<ClassId> inputs;  // genes of the nodes whose values it reads, in order
  std::vector<int> symbols;     // of the graph, one per symbol of the body
};
// Kernels that were built before, by what they compute: a structure that differs from others in a
// few genes builds only the kernels around these.
using KernelMemo = std::unordered_map<uint64_t, std::shared_ptr<const BuiltKernel>>;

struct FusedProgram {
  common::Program shell;                                    // all but the kernels
  std::vector<std::shared_ptr<const BuiltKernel>> kernels;  // that the shell's calls name
  std::vector<ClassId> genes;  // one per kernel: of the root of its first call
  std::vector<char> at_load;   // one per call of the shell: load_time_calls()
  double held_bytes = 0;       // of what calls at load leave for the runs
};
// What is materialised must be repaired. The memo belongs to the e-graph that the selections come
// from. Wishes: the store genes, where some stored values are to be written by kernels of others
// (multi_output.h). Small kernels that do not depend on one another are launched as one where
// `sharing` says so (launches.h).
FusedProgram fuse(const Selected& selected, const Materialised& materialised, KernelMemo& memo,
                  const std::vector<int64_t>& wishes = {},
                  LaunchSharing sharing = LaunchSharing::kNever);
// With default schedules.
common::Program whole_program(const FusedProgram& fused);

}  // namespace coordinator
