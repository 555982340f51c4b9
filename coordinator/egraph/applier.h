// Applies the matches of a compiled rule: builds results in batches and merges them with the roots.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/flat_array.h"
#include "coordinator/egraph/rule.h"

namespace coordinator {

struct ApplyCounts {
  uint64_t matches = 0;
  uint64_t rejected = 0;
  uint64_t applied = 0;
  uint64_t nodes_added = 0;
};

class Applier {
 public:
  explicit Applier(EGraph& graph) : graph_(graph) {}

  // Applies all matches stored in `words` (layout of MatchSink), in order; stops before the node
  // that would exceed `node_limit`, or the call that might if it added as many as any before, and
  // then returns false. The match at hand is left half built:
  // its nodes are there, nothing was merged.
  bool apply(const CompiledRule& rule, const FlatArray<uint32_t>& words, uint64_t node_limit,
             ApplyCounts& counts);

 private:
  // Matches are built step by step over a batch, so that the cache misses of 64 independent
  // look-ups overlap.
  static constexpr uint32_t kBatch = 64;

  const Match& view(const CompiledRule& rule, const uint32_t* words);
  uint32_t keep_accepted(const CompiledRule& rule, const uint32_t* words, uint32_t count);
  bool call(const CompiledRule& rule, uint32_t count, uint64_t node_limit, ApplyCounts& counts);
  bool build_singly(const CompiledRule& rule, uint32_t count, uint64_t node_limit,
                    ApplyCounts& counts);
  void build_batch(const CompiledRule& rule, uint32_t count, ApplyCounts& counts);
  void build_step(const CompiledRule& rule, const BuildStep& step, uint32_t count);
  void add_prepared(uint32_t count, ClassId* target);
  Head head_of(const CompiledRule& rule, const BuildStep& step, const uint32_t* words) const {
    if (step.head != kNone) return step.head;
    return words[1 + rule.names.classes.size() + 2 * step.head_variable];
  }

  EGraph& graph_;
  Match match_;
  std::vector<ClassId> match_classes_;
  std::vector<BoundHead> match_heads_;
  const uint32_t* accepted_[kBatch];  // the stored matches of the batch
  std::vector<ClassId> values_;       // kBatch of each register
  std::vector<ClassId> operands_;
  uint64_t most_added_ = 0;  // nodes, by one call of an apply function
  Head heads_[kBatch];
  ClassId first_[kBatch];
  ClassId second_[kBatch];
  uint32_t hashes_[kBatch];
  bool changed_[kBatch];
};

}  // namespace coordinator
