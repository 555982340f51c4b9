// Fusion: which values of a chosen graph are stored, and the kernels that follow from it.
//
// A node is either stored (by a kernel of its own, or along with what another kernel computes) or
// computed in place by every kernel that needs it. So any choice gives an acyclic program that
// computes the right values; what a template cannot express is repaired by storing more.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/ir/llir.h"
#include "coordinator/egraph/ids.h"
#include "coordinator/rules/heads.h"

namespace coordinator {

// A loop-free graph with one lowering per node; the result of choosing among e-nodes.
struct Selected {
  common::Graph graph;
  std::vector<Lowering> lowering;
  std::vector<ClassId> gene;   // names each node in genomes; stable under other choices
  std::vector<NodeId> choice;  // what was chosen for the gene; equal choices are equal operations
};
// Every node in place and named by its own number.
Selected select_all(const common::Graph& graph);

// One flag per node; meaningful for nodes that are computed.
using Stores = std::vector<char>;

// Not an input, constant, iota or view.
bool is_computed(const common::Node& node);
// Everything computed is stored, but for products that are summed at once: the plain lowering.
Stores plain_stores(const Selected& selected);
// Cheap and single-use values are computed in place, contractions take their epilogues. What
// depends on weights alone is stored where runs begin to need it, unless computing it reads less.
Stores default_stores(const Selected& selected);
// Adds what must be stored: outputs, operands of library calls, what templates cannot hold.
void repair_stores(const Selected& selected, Stores& stores);

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
// The stores must be repaired. The memo belongs to the e-graph that the selections come from.
// Wishes: the store genes, where some stored values are to be written by kernels of others
// (joint_kernels.h).
FusedProgram fuse(const Selected& selected, const Stores& stores, KernelMemo& memo,
                  const std::vector<int64_t>& wishes = {});
// With default schedules.
common::Program whole_program(const FusedProgram& fused);

}  // namespace coordinator
