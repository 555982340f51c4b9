// Grouped products: rows that multiply one of several matrices each, as data say, multiply each
// matrix once when they are visited in the order of their groups.
#include <algorithm>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/rules/matching/parts.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::BinaryOp;
using common::contains;
using common::ContractAttr;
using common::DType;
using common::Expr;
using common::GatherAttr;
using common::Node;
using common::Op;

// Fewer rows have hardly two of one group, and loops read each matrix once for each.
constexpr int64_t kRowsMin = 32;
// Numbers of 8 bits are sorted by counting.
constexpr int64_t kCountedMax = 256;

// The matrices' numbers, one for each row, and how many matrices there are.
struct Groups {
  ClassId index;
  Expr count;
};

// `matrices` has the axis `row`, along which whole matrices are gathered.
std::optional<Groups> groups_of(Rewriter& r, ClassId matrices, int row) {
  Descent descent(r, matrices);
  if (!descent.through_views()) return std::nullopt;
  for (DType wide = r.dtype(descent.cls()); descent.through_cast(); wide = r.dtype(descent.cls())) {
    // What rounds is computed for each row's own matrix.
    const DType narrow = r.dtype(descent.cls());
    if (common::dtype_size(narrow) >= common::dtype_size(wide)) return std::nullopt;
    if (!descent.through_views()) return std::nullopt;
  }
  for (const Rewriter::Found& gather : r.find_all(descent.cls(), Op::kGather)) {
    const auto& coordinates = attr<GatherAttr>(*gather.node).coordinates;
    auto is_gathered = [](const common::Coordinate& c) { return c.slot >= 0; };
    if (std::count_if(coordinates.begin(), coordinates.end(), is_gathered) != 1) continue;
    auto axis = std::find_if(coordinates.begin(), coordinates.end(), is_gathered);
    const Expr& count =
        r.shape(gather.operands[0])[static_cast<size_t>(axis - coordinates.begin())];
    Factor index = make_factor(r, r.view(gather.operands[at(axis->slot) + 1], descent.view()));
    if (index.labels == std::vector<int>{row} && count.is_constant()) {
      return Groups{index.cls, count};
    }
  }
  return std::nullopt;
}

// Rows of equal groups side by side, in their own order.
ClassId order_of(Rewriter& r, const Groups& groups) {
  const common::Shape& shape = r.shape(groups.index);
  auto bound = [&](double value) { return r.scalar(r.dtype(groups.index), value, shape); };
  auto last = static_cast<double>(groups.count.constant() - 1);
  ClassId key =
      r.binary(BinaryOp::kMin, r.binary(BinaryOp::kMax, groups.index, bound(0)), bound(last));
  bool is_short = groups.count.constant() <= kCountedMax;
  key = r.cast(key, is_short ? DType::kUint8 : DType::kInt32);
  return r.add({Op::kSort, DType::kInt64, shape, {}, common::SortAttr{0, false}}, {key});
}

// The rows of a product whose one operand has a matrix for each: the label that all share.
std::optional<int> row_label(const ContractAttr& c, const std::vector<int>& rows,
                             const std::vector<int>& matrices) {
  std::optional<int> row;
  for (int label : c.out) {
    if (!contains(rows, label)) continue;
    if (row || !contains(matrices, label)) return std::nullopt;
    row = label;
  }
  bool has_columns = matrices.size() > rows.size();
  bool sums_alike = std::all_of(matrices.begin(), matrices.end(), [&](int label) {
    return contains(c.out, label) || contains(rows, label);
  });
  bool is_last = !c.out.empty() && row == c.out.back();
  return has_columns && sums_alike && !is_last ? row : std::nullopt;
}

std::optional<ClassId> grouped_product(Rewriter& r, const Node& contraction, ClassId a, ClassId b) {
  const auto& c = attr<ContractAttr>(contraction);
  for (bool is_right : {true, false}) {
    const std::vector<int>& labels = is_right ? c.b : c.a;
    auto row = row_label(c, is_right ? c.a : c.b, labels);
    if (!row) continue;
    auto axis = static_cast<int>(std::find(labels.begin(), labels.end(), *row) - labels.begin());
    ClassId matrices = is_right ? b : a;
    common::Bounds bounds(r.symbols(), {});
    if (bounds.upper(r.shape(matrices)[at(axis)]) < kRowsMin) continue;
    auto groups = groups_of(r, matrices, axis);
    if (!groups) continue;
    return r.add(contraction, {a, b, order_of(r, *groups)}, Lowering::kGrouped);
  }
  return std::nullopt;
}

}  // namespace

void add_grouping_rules(RuleMaker& m) {
  m.rule(
      "rows-by-group", Equivalence::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        if (!m.is_abstract(match, "c")) return std::nullopt;
        return grouped_product(r, m.node(match, "c"), match["a"], match["b"]);
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
