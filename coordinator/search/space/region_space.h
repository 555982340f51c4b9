// All the programs that can compute a region: its saturated e-graph and the decoding of genomes.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/cost/kernels/kernel_profile.h"
#include "common/ir/hlir/sizes.h"
#include "coordinator/egraph/extraction.h"
#include "coordinator/rules/saturate.h"
#include "coordinator/search/fusion/fusion.h"
#include "coordinator/search/genes/genome.h"
#include "coordinator/search/genes/schedule_space.h"
#include "coordinator/search/partition/attention_memo.h"

namespace coordinator {

// One thing about a candidate that a mutation can change, and the values it may take.
struct Site {
  GeneName name;
  int64_t current = 0;
  std::vector<int64_t> values;  // at least two
  Head head = 0;                // of choices and stores: the operation that is chosen for the class
};

// What the choices and stores of a genome come to: programs that differ in schedules only.
struct Structure {
  FusedProgram fused;
  common::Digest fingerprint;  // of kernels and calls, whatever the schedules
  std::vector<Site> sites;     // choices and stores
};

struct Decoded {
  common::Program program;
  std::vector<Site> sites;
};

// The gene that holds parameter `index` of the template's, for the kernel rooted at the class.
GeneName parameter_gene(ClassId root, common::Template form, size_t index);

// Which rules a numerics policy admits.
Numerics numerics_of(std::string_view policy);

// The region as the model says it, one kernel per operation.
common::Program plain_program_of(const common::Graph& region);

// Not thread-safe.
class RegionSpace {
 public:
  RegionSpace(const common::Graph& region, const common::Clock& clock,
              Numerics numerics = Numerics::kStrict,
              common::Machine machine = common::Machine::kCpu);

  // Any genome gives a verified, acyclic program: genes that do not fit are ignored or repaired.
  // Costs what the chosen graph holds, not what the e-graph holds.
  Decoded decode(const Genome& genome);
  // The same without schedules. Recently decoded structures and kernels are remembered.
  std::shared_ptr<const Structure> structure(const Genome& genome);
  // One code per kernel of the structure. kInternal when the program does not verify: a bug, but
  // one that costs a search this candidate only.
  static common::Result<common::Program> program(const Structure& structure,
                                                 const std::vector<ScheduleCode>& codes);
  // The codes that a genome gives the structure's kernels; values no template has are ignored.
  // Parameters are added to the sites when there are any to add to.
  std::vector<ScheduleCode> schedules(const Structure& structure, const Genome& genome,
                                      std::vector<Site>* sites = nullptr) const;
  const common::Program& plain() const { return plain_; }
  const common::Graph& graph() const { return region_; }
  common::Machine machine() const { return machine_; }
  const Saturated& saturated() const { return saturated_; }

 private:
  // Of one part of a transform with so many frequencies in all its rows.
  double transform_cost(const common::Node& node, const common::Shape& operand,
                        double frequencies) const;
  double node_cost(NodeId node) const;
  // Of a convolution by minimal filters whose direct sum takes `products` multiplications.
  double winograd_cost(NodeId node, double products, const std::vector<int64_t>& sizes) const;
  double node_cost_at(NodeId node, const std::vector<int64_t>& sizes) const;
  // On a GPU (region_gpu_cost.cc).
  double gpu_node_cost(NodeId node, const std::vector<int64_t>& sizes) const;
  double gpu_contraction_cost(NodeId node, const std::vector<int64_t>& sizes) const;
  // The least bytes of an element that the class may be read as, through `depth` views and casts.
  int64_t stored_size(ClassId cls, int depth) const;
  // The least bytes that `elements` of the class, or all where it has fewer, are read as: through
  // `depth` views, casts and products.
  double read_bytes(ClassId cls, const std::vector<int64_t>& sizes, double elements,
                    int depth) const;
  // Whether the class is made of a softmax whose values were rounded to a half type on the way;
  // empty where it is made of none.
  std::optional<bool> rounds_probabilities(ClassId cls, int depth) const;
  const common::Shape& shape_of(ClassId cls) const;
  // What a sort or a scatter adds to the profile, and its template; others are loops.
  common::Template note_order(NodeId node, const std::vector<int64_t>& sizes,
                              common::KernelProfile& profile) const;
  // The machine computes what is lowered so.
  bool is_offered(Lowering lowering) const;
  // The least matrices that the class gathers from, through `depth` views and casts; 0: it gathers
  // none.
  double gathered_matrices(ClassId cls, const std::vector<int64_t>& sizes, int depth) const;
  // A tile reads the contraction's matrix from panels (packed_panels.h).
  bool reads_panels(NodeId contraction) const;
  // A tile can read the other operand's rows where they lie.
  bool reads_rows(NodeId contraction) const;
  // A library can read the class only where a view of it is copied.
  bool needs_copy(ClassId operand) const;
  // Some view in the class has neighbours of its last axis apart in memory.
  bool lies_across(ClassId operand) const;
  // Whether a view shows windows that a rule would read from a copy of the image with its border.
  bool reads_border(NodeId id) const;
  // Nodes that may stand for the class, whatever is chosen elsewhere.
  const std::vector<int64_t>& choices_of(ClassId cls);
  Selected select(const Genome& genome, std::vector<Site>& sites);
  // What the choices of a genome come to, whatever is stored.
  struct ChosenGraph {
    Selected selected;
    Materialised stored;                       // by default
    std::vector<int64_t> wishes;               // the store genes of this
    std::vector<std::vector<int64_t>> values;  // of each node's store gene
    std::vector<Site> sites;                   // the choices
  };
  std::shared_ptr<const ChosenGraph> chosen_graph(const Genome& genome);

  common::Graph region_;
  std::vector<common::WeightedSizes> sizes_;  // priced ones
  common::Machine machine_;
  Saturated saturated_;
  BestNodes best_;
  std::unique_ptr<Decoder> decoder_;
  std::unordered_map<ClassId, std::vector<int64_t>> choices_;              // by class, as asked for
  std::unordered_map<uint64_t, std::shared_ptr<const Structure>> recent_;  // by structure_hash
  // By choice_hash: half of all mutations change what is stored alone.
  std::unordered_map<uint64_t, std::shared_ptr<const ChosenGraph>> chosen_;
  size_t chosen_nodes_ = 0;  // of all of these
  AttentionMemo attentions_;
  KernelMemo kernels_;
  common::Program plain_;
};

}  // namespace coordinator
