// Scans: running sums, products and extrema of what is known without running.
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::Expr;
using common::ScanAttr;
using common::ScanOp;

}  // namespace

void add_scan_rules(RuleMaker& m) {
  for (int k = 0; k < common::kScanOpCount; ++k) {
    std::string name(common::scan_name(static_cast<ScanOp>(k)));
    m.rule(name + "-of-one", Equivalence::kBits, "(scan." + name + "@s ?x)",
           [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             auto axis = static_cast<size_t>(attr<ScanAttr>(m.node(match, "s")).axis);
             if (!r.shape(match["x"])[axis].is_constant(1)) return std::nullopt;
             return match["x"];
           });
  }
  // Positions that a model counts out of ones: 1, 2, 3, ...
  m.rule("cumsum-of-ones", Equivalence::kBits, "(scan.cumsum@s ?x)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           auto axis = static_cast<size_t>(attr<ScanAttr>(m.node(match, "s")).axis);
           const common::Shape& shape = r.shape(match["x"]);
           common::DType dtype = r.dtype(match["x"]);
           auto value = r.uniform_value(match["x"]);
           if (!value || *value != 1 || dtype != common::DType::kInt64) return std::nullopt;
           ClassId iota = r.add({common::Op::kIota, dtype, {shape[axis]}, {}, {}}, {});
           common::View along;
           along.shape = shape;
           along.index = {Expr::index(static_cast<int>(axis))};
           return r.binary(common::BinaryOp::kAdd, r.view(iota, along), match["x"]);
         });
}

}  // namespace coordinator
