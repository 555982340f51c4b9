// Fusion: which values of a chosen graph are stored, and the kernels that follow from it.
//
// A node is either stored (the root of a kernel of its own) or computed in place by every kernel
// that needs it. So any choice gives an acyclic program that computes the right values; what a
// template cannot express is repaired by storing more.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "common/ir/llir.h"
#include "coordinator/egraph/ids.h"
#include "coordinator/rules/heads.h"

namespace coordinator {

// A loop-free graph with one lowering per node; the result of choosing among e-nodes.
struct Selected {
  common::Graph graph;
  std::vector<Lowering> lowering;
  std::vector<ClassId> gene;  // names each node in genomes; stable under other choices
};
// Every node in place and named by its own number.
Selected select_all(const common::Graph& graph);

// One flag per node; meaningful for nodes that are computed.
using Stores = std::vector<char>;

// Not an input, constant, iota or view.
bool is_computed(const common::Node& node);
// Everything computed is stored, but for products that are summed at once: the plain lowering.
Stores plain_stores(const Selected& selected);
// Cheap and single-use values are computed in place, contractions take their epilogues.
Stores default_stores(const Selected& selected);
// Adds what must be stored: outputs, operands of library calls, what templates cannot hold.
void repair_stores(const Selected& selected, Stores& stores);

// The value of a schedule parameter for the kernel whose root has this gene.
using ScheduleGenes =
    std::function<int64_t(ClassId root, common::Template form, const common::ScheduleChoice&)>;

struct KernelRoot {
  ClassId gene = kNone;
  common::Template form{};
};
struct FusedProgram {
  common::Program program;
  std::vector<KernelRoot> roots;  // one per call
};
// The stores must be repaired.
FusedProgram build_program(const Selected& selected, const Stores& stores,
                           const ScheduleGenes& schedule);

}  // namespace coordinator
