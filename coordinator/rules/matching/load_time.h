// Which e-classes hold values that depend on weights and constants alone, so that rules may move
// work to where it is done once, when weights are bound.
#pragma once

#include "common/ir/llir/load_time.h"
#include "coordinator/egraph/analysis.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/rules/matching/heads.h"

namespace coordinator {

class LoadTimeAnalysis final : public TypedAnalysis<uint8_t> {
 public:
  // Borrows the table; `inputs` are the region's.
  LoadTimeAnalysis(const HeadTable& heads, std::vector<common::GraphInput> inputs)
      : heads_(heads), inputs_(std::move(inputs)) {}

  // Whether the node computes its value at load, given that its children's are.
  uint8_t make(const EGraph& graph, NodeId node) const override {
    if (!common::keeps_load_time(heads_.node(graph.head(node)), inputs_)) return 0;
    for (ClassId child : graph.children(node)) {
      if (!(*this)[graph.find(child)]) return 0;
    }
    return 1;
  }
  // Equal values are equal however they are computed: one way at load is enough.
  bool join(uint8_t& into, const uint8_t& from) const override {
    if (from <= into) return false;
    into = from;
    return true;
  }

 private:
  const HeadTable& heads_;
  std::vector<common::GraphInput> inputs_;
};

}  // namespace coordinator
