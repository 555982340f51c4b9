// Which values of a chosen graph are materialised: stored in memory.
//
// A node is either materialised (by a kernel of its own, or along with what another kernel
// computes) or computed in place by every kernel that needs it. So any choice gives an acyclic
// program that computes the right values; what a template cannot express is repaired by storing
// more.
#pragma once

#include <vector>

#include "common/ir/llir/llir.h"
#include "coordinator/egraph/ids.h"
#include "coordinator/rules/matching/heads.h"

namespace coordinator {

class AttentionMemo;  // attention_memo.h

// A loop-free graph with one lowering per node; the result of choosing among e-nodes.
struct Selected {
  common::Graph graph;
  std::vector<Lowering> lowering;
  std::vector<ClassId> gene;   // names each node in genomes; stable under other choices
  std::vector<NodeId> choice;  // what was chosen for the gene; equal choices are equal operations
  // Whether kernels may hold two products that meet (common/schedule/template_fit.h).
  bool may_pair = false;
  // Whether a tile may store its rows anywhere in what its kernel gives, in another order of axes
  // or within a border, as register tiles of a processor do.
  bool may_place_rows = false;

  // Gives the new node's number; its operands are nodes of this graph.
  common::NodeId add(common::Node node, Lowering node_lowering, ClassId node_gene,
                     NodeId node_choice);
};
// Every node in place and named by its own number.
Selected select_all(const common::Graph& graph);

// One flag per node: it is stored; meaningful for nodes that are computed.
using Materialised = std::vector<char>;

// Not an input, constant, iota or view.
bool is_computed(const common::Node& node);
// Elementwise, and a handful of machine instructions.
bool is_cheap(const common::Node& node);
// Has a kernel that writes it: a computed value that is stored, or a view that is copied.
bool is_materialised(const Selected& selected, const Materialised& materialised, common::NodeId id);
// What the value is read from: views are seen through unless they are copied.
common::NodeId base_of(const Selected& selected, common::NodeId id);
// Everything computed is stored, but for products that are summed at once: the plain lowering.
Materialised plain_materialisation(const Selected& selected);
// Cheap and single-use values are computed in place, contractions take their epilogues. What
// depends on weights alone is stored where runs begin to need it, unless computing it reads less.
Materialised default_materialisation(const Selected& selected, AttentionMemo& memo);
// Adds what must be stored: outputs, operands of library calls, what templates cannot hold.
void repair_materialisation(const Selected& selected, Materialised& materialised,
                            AttentionMemo& memo);
// The template that generates the kernel rooted at a stored node that has no template of its own
// (as scans, scatters and sorts have) and is no library call. What is materialised must be
// repaired.
common::Template template_of(const Selected& selected, const Materialised& materialised,
                             common::NodeId root);

}  // namespace coordinator
