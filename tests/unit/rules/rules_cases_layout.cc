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

// 5 x 6 images of that many channels with a border of one, windows of 3 x 3 that many steps apart,
// and elements of a window so far apart.
IrNode convolution(GraphBuilder& b, DType t, int64_t channels, int64_t step, int64_t apart) {
  IrNode x = b.input(InputKind::kUser, t, {2, channels, 5, 6}, "x");
  IrNode w = b.input(InputKind::kWeight, t, {7, channels, 3, 3}, "w");
  Expr i = Expr::index(2) * Expr(step) + Expr::index(5) * Expr(apart) - Expr(1);
  Expr j = Expr::index(3) + Expr::index(6) * Expr(apart) - Expr(1);
  common::Shape product{2, 7, (7 - 2 * apart - 1) / step + 1, 8 - 2 * apart, channels, 3, 3};
  common::View windows{product, {Expr::index(0), Expr::index(4), i, j}, {{i, 5}, {j, 6}}, 0};
  common::View kernel{
      product, {Expr::index(1), Expr::index(4), Expr::index(5), Expr::index(6)}, {}, 0};
  IrNode terms = b.binary(common::BinaryOp::kMul, b.view(x, windows), b.view(w, kernel));
  return b.reduce(common::ReduceOp::kSum, terms, {4, 5, 6});
}

// The same of groups of channels, each with filters of its own.
IrNode grouped_convolution(GraphBuilder& b, DType t, int64_t groups, int64_t channels) {
  IrNode x = b.input(InputKind::kUser, t, {2, 5, 6, groups * channels}, "x");
  IrNode w = b.input(InputKind::kWeight, t, {groups, 7, channels, 3, 3}, "w");
  auto at = [](int axis) { return Expr::index(axis); };
  Expr i = at(1) + at(6) - Expr(1), j = at(2) + at(7) - Expr(1);
  common::Shape product{2, 5, 6, groups, 7, channels, 3, 3};
  common::View windows{product, {at(0), i, j, at(3) * Expr(channels) + at(5)}, {{i, 5}, {j, 6}}, 0};
  common::View kernel{product, {at(3), at(4), at(5), at(6), at(7)}, {}, 0};
  IrNode terms = b.binary(common::BinaryOp::kMul, b.view(x, windows), b.view(w, kernel));
  return b.reduce(common::ReduceOp::kSum, terms, {5, 6, 7});
}

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
  // A convolution with a border, steps of two along one axis, and channels to sum over.
  cases.emplace("channels-last", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                            b.output(convolution(b, t, 32, 2, 1));
                                          }});
  // Colours: few channels, though those of a window's row lie side by side.
  cases.emplace("channels-last", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                            b.output(convolution(b, t, 6, 1, 1));
                                          }});
  // Dilated.
  cases.emplace("channels-last", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                            b.output(convolution(b, t, 16, 1, 2));
                                          }});
  // Three colours: little lies side by side, but the copy has the border.
  cases.emplace("channels-last", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                            b.output(convolution(b, t, 3, 2, 1));
                                          }});
  cases.emplace("channels-last", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                            b.output(grouped_convolution(b, t, 3, 4));
                                          }});
}

}  // namespace coordinator::rules_testing
