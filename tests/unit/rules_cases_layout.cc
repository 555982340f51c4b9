// What contractions read in an awkward order.
#include "rules_cases.h"

namespace coordinator::rules_testing {
namespace {

using common::DType;
using common::Expr;
using common::GraphBuilder;
using common::InputKind;
using IrNode = common::NodeId;

const std::vector<DType> kFloats{DType::kFloat32, DType::kFloat64};
const Expr kRows = Expr::symbol(0);

}  // namespace

void add_layout_cases(std::multimap<std::string, RuleCase>& cases) {
  // A reader along the last axis jumps from row to row, and past the last.
  cases.emplace("copied-operand",
                RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                           IrNode x = b.input(InputKind::kUser, t, {7, kRows}, "x");
                           IrNode y = b.input(InputKind::kUser, t, {9, 5}, "y");
                           IrNode padded = b.pad(b.permute(x, {1, 0}), 1, 1, 1, 0);
                           b.output(b.matmul(padded, y));
                         }});
  // As linear layers keep their weights.
  cases.emplace("turned-weight",
                RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                           IrNode x = b.input(InputKind::kUser, t, {kRows, 6}, "x");
                           IrNode w = b.input(InputKind::kWeight, t, {4, 6}, "w");
                           b.output(b.matmul(x, b.permute(w, {1, 0})));
                         }});
}

}  // namespace coordinator::rules_testing
