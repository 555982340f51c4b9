// What is reduced over windows of images, and few sums of many elements.
#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

Expr at(int axis) { return Expr::index(axis); }

// A reduction of windows of two 9 x 8 images, padded with `fill`: `taps` elements along both axes,
// with a stride of `step`.
struct Pool {
  ReduceOp op{};
  int64_t taps = 5, step = 1;
  double fill = 0;
};
IrNode pool(GraphBuilder& b, DType t, const Pool& p) {
  IrNode x = input(b, t, {2, 9, 8});
  const int64_t border = p.taps / 2;
  const Expr i = at(1) * Expr(p.step) + at(3) - Expr(border);
  const Expr j = at(2) * Expr(p.step) + at(4) - Expr(border);
  Shape shape{2, (9 - 1) / p.step + 1, (8 - 1) / p.step + 1, p.taps, p.taps};
  View windows{shape, {at(0), i, j}, {{i, 9}, {j, 8}}, p.fill};
  return b.reduce(p.op, raw_view(b, x, std::move(windows)), {3, 4});
}

// Windows without a border along three axes.
IrNode volume_pool(GraphBuilder& b, DType t, ReduceOp op) {
  IrNode x = input(b, t, {7, 6, 8});
  View windows{{5, 4, 6, 3, 3, 3}, {at(0) + at(3), at(1) + at(4), at(2) + at(5)}, {}, 0};
  return b.reduce(op, raw_view(b, x, std::move(windows)), {3, 4, 5});
}

void add_windows(Cases& cases) {
  struct Named {
    const char* rule;
    ReduceOp op;
    double fill;
  };
  for (const Named& n : std::vector<Named>{{"windows-by-axis-max", ReduceOp::kMax, -1},
                                           {"windows-by-axis-min", ReduceOp::kMin, 1},
                                           {"windows-by-axis-sum", ReduceOp::kSum, 0}}) {
    for (int64_t step : {1, 2}) {
      cases.emplace(n.rule, RuleCase{kNumbers, [=](GraphBuilder& b, DType t) {
                                       b.output(pool(b, t, {n.op, 5, step, n.fill}));
                                     }});
    }
    cases.emplace(n.rule, RuleCase{kFloats, [=](GraphBuilder& b, DType t) {
                                     b.output(volume_pool(b, t, n.op));
                                   }});
  }
}

void add_sums(Cases& cases) {
  struct Sums {
    Shape shape;
    std::vector<int> axes;
  };
  const std::vector<Sums> all{{{1280, 3}, {0}}, {{3, 16, 90, 2}, {1, 2}}, {{16, 3, 80, 2}, {0, 2}}};
  for (const Sums& sums : all) {
    cases.emplace("sums-in-parts",
                  RuleCase{kFloats, [sums](GraphBuilder& b, DType t) {
                             b.output(b.reduce(ReduceOp::kSum, input(b, t, sums.shape), sums.axes));
                           }});
  }
}

}  // namespace

void add_windows_cases(Cases& cases) {
  add_windows(cases);
  add_sums(cases);
}

void add_windows_misses(std::vector<std::pair<std::string, RuleCase>>& misses) {
  misses.emplace_back("sums of a border that is not zero",
                      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                 b.output(pool(b, t, {ReduceOp::kSum, 5, 1, 1}));
                               }});
  misses.emplace_back(
      "windows that go down as they go along",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t, {12, 8});
                 View windows{{4, 4, 5, 5}, {at(0) + at(1) + at(2), at(1) + at(3)}, {}, 0};
                 b.output(b.reduce(ReduceOp::kMax, raw_view(b, x, std::move(windows)), {2, 3}));
               }});
  misses.emplace_back(
      "a border that lies askew",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t, {8, 8});
                 const Expr i = at(0) + at(2), j = at(1) + at(3);
                 View windows{{4, 4, 5, 5}, {i, j}, {{i + j - Expr(3), 9}}, -1};
                 b.output(b.reduce(ReduceOp::kMax, raw_view(b, x, std::move(windows)), {2, 3}));
               }});
  misses.emplace_back(
      "quotients and remainders that are no two axes",
      RuleCase{
          kFloats, [](GraphBuilder& b, DType t) {
            IrNode x = input(b, t, {2, 4, 6});
            View view{{6, 6}, {common::floor_div(at(0), 3), common::mod(at(0), 3), at(1)}, {}, 0};
            b.output(raw_view(b, x, std::move(view)));
          }});
}

}  // namespace coordinator::rules_testing
