// What contractions read in an awkward order.
#include <array>

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

// Windows of 3 x 3 of 5 x 6 images of 16 channels, by the positions and validities that are given.
IrNode windows_convolution(GraphBuilder& b, DType t, const Expr& rows, const Expr& columns,
                           std::array<Expr, 2> position, std::vector<common::Validity> valid) {
  IrNode x = b.input(InputKind::kUser, t, {2, 5, 6, 16}, "x");
  IrNode w = b.input(InputKind::kWeight, t, {7, 16, 3, 3}, "w");
  auto at = [](int axis) { return Expr::index(axis); };
  common::Shape product{2, rows, columns, 7, 16, 3, 3};
  common::View windows{product, {at(0), position[0], position[1], at(4)}, std::move(valid), 0};
  common::View kernel{product, {at(3), at(4), at(5), at(6)}, {}, 0};
  IrNode terms = b.binary(common::BinaryOp::kMul, b.view(x, windows), b.view(w, kernel));
  return b.reduce(common::ReduceOp::kSum, terms, {4, 5, 6});
}

// Of an image whose border shows the image, by the position of each place of the border.
template <class Position>
IrNode bordered_convolution(GraphBuilder& b, DType t, int64_t step, Position position) {
  const Expr row = Expr::index(1) * Expr(step) + Expr::index(5);
  const Expr column = Expr::index(2) + Expr::index(6);
  return windows_convolution(b, t, step == 1 ? 5 : 3, 6, {position(row, 5), position(column, 6)},
                             {});
}

// Of a place of the image within a border of one, which is place 0: the image's place.
Expr mirrored(const Expr& place, int64_t size) {
  const Expr within = common::max(place - Expr(1), Expr(1) - place);
  return common::min(within, Expr(2 * size - 2) - within);
}
Expr repeated(const Expr& place, int64_t size) {
  return common::min(common::max(place - Expr(1), Expr(0)), Expr(size - 1));
}
Expr wrapped(const Expr& place, int64_t size) {
  return common::mod(place + Expr(size - 1), Expr(size));
}

// Within a border of zeros, which the windows ask for, an image with each place twice.
IrNode enlarged_convolution(GraphBuilder& b, DType t) {
  const Expr row = Expr::index(1) + Expr::index(5) - Expr(1);
  const Expr column = Expr::index(2) + Expr::index(6) - Expr(1);
  return windows_convolution(b, t, 10, 12,
                             {common::floor_div(row, Expr(2)), common::floor_div(column, Expr(2))},
                             {{row, Expr(10)}, {column, Expr(12)}});
}

// Within a border of zeros, an image of 6 x 8 places of which four neighbours were channels.
IrNode shuffled_convolution(GraphBuilder& b, DType t) {
  auto at = [](int axis) { return Expr::index(axis); };
  IrNode x = b.input(InputKind::kUser, t, {3, 4, 16, 2, 2}, "x");
  IrNode w = b.input(InputKind::kWeight, t, {7, 16, 3, 3}, "w");
  common::Shape product{6, 8, 7, 16, 3, 3};
  const Expr i = at(0) + at(4) - Expr(1), j = at(1) + at(5) - Expr(1);
  common::View windows{product,
                       {common::floor_div(i, 2), common::floor_div(j, 2), at(3), common::mod(i, 2),
                        common::mod(j, 2)},
                       {{i, 6}, {j, 8}},
                       0};
  common::View kernel{product, {at(2), at(3), at(4), at(5)}, {}, 0};
  IrNode terms = b.binary(common::BinaryOp::kMul, b.view(x, windows), b.view(w, kernel));
  return b.reduce(common::ReduceOp::kSum, terms, {3, 4, 5});
}

// Of 6 channels that are two axes of the image.
IrNode split_channels(GraphBuilder& b, DType t) {
  auto at = [](int axis) { return Expr::index(axis); };
  IrNode x = b.input(InputKind::kUser, t, {2, 3, 5, 6}, "x");
  common::View view{
      {5, 6, 6}, {common::floor_div(at(2), 3), common::mod(at(2), 3), at(0), at(1)}, {}, 0};
  return b.view(x, view);
}

// Each channel by a filter of its own, rows of an image last.
IrNode single_channels(GraphBuilder& b, DType t) {
  IrNode x = b.input(InputKind::kUser, t, {2, 4, 5, 6}, "x");
  IrNode w = b.input(InputKind::kWeight, t, {4, 3, 3}, "w");
  auto at = [](int axis) { return Expr::index(axis); };
  common::Shape product{2, 4, 5, 6, 3, 3};
  Expr i = at(2) + at(4) - Expr(1), j = at(3) + at(5) - Expr(1);
  common::View windows{product, {at(0), at(1), i, j}, {{i, Expr(5)}, {j, Expr(6)}}, 0};
  common::View kernel{product, {at(1), at(4), at(5)}, {}, 0};
  IrNode terms = b.binary(common::BinaryOp::kMul, b.view(x, windows), b.view(w, kernel));
  return b.reduce(common::ReduceOp::kSum, terms, {4, 5});
}

void add_border_cases(std::multimap<std::string, RuleCase>& cases) {
  cases.emplace("zero-bordered-windows", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                                    b.output(single_channels(b, t));
                                                  }});
  cases.emplace("bordered-windows", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                               b.output(enlarged_convolution(b, t));
                                             }});
  cases.emplace("bordered-windows", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                               b.output(shuffled_convolution(b, t));
                                             }});
  cases.emplace("joined-axes", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                          b.output(split_channels(b, t));
                                        }});
  for (auto position : {mirrored, repeated, wrapped}) {
    for (int64_t step : {1, 2}) {
      cases.emplace("bordered-windows",
                    RuleCase{kFloats, [=](GraphBuilder& b, DType t) {
                               b.output(bordered_convolution(b, t, step, position));
                             }});
    }
  }
}

}  // namespace

void add_layout_cases(std::multimap<std::string, RuleCase>& cases) {
  add_border_cases(cases);
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
