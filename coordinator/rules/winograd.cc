// Convolutions by minimal filters: see matching/winograd_form.h. The e-graph holds that a
// contraction may be computed so; what is computed is written out once it is chosen.
#include "coordinator/rules/matching/winograd_form.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {

using common::attr;
using common::ContractAttr;
using common::Op;

void add_winograd_rules(RuleMaker& m) {
  m.rule(
      "contract-by-minimal-filters", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const common::Node& node = m.node(match, "c");
        if (!m.is_abstract(match, "c") || node.dtype != common::DType::kFloat32) {
          return std::nullopt;
        }
        const ClassId operands[] = {match["a"], match["b"]};
        for (size_t image : {size_t{0}, size_t{1}}) {
          ClassId filter = operands[1 - image];
          if (!r.at_load(filter) || r.at_load(operands[image])) continue;
          for (const Rewriter::Found& found : r.find_all(operands[image], Op::kView)) {
            const common::View& windows = attr<common::ViewAttr>(*found.node).view;
            if (!winograd_form(attr<ContractAttr>(node), image, windows, r.shape(filter))) continue;
            return r.add(node, {operands[0], operands[1]}, Lowering::kWinograd);
          }
        }
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
