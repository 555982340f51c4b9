// Borders: windows of an image that is mirrored, repeated or wrapped around at its border, or has
// each place several times, are windows of a copy that is so. So are windows within a border of
// zeros, where vectors run along the rows of the image.
#include <algorithm>

#include "common/base/contains.h"
#include "coordinator/rules/matching/bordered_windows.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::Node;
using common::Op;
using common::View;
using common::ViewAttr;

ClassId border_of(Rewriter& r, ClassId image, const View& border, Lowering lowering) {
  return r.add(Node{Op::kView, r.dtype(image), border.shape, {}, ViewAttr{border}}, {image},
               lowering);
}

bool reads_axis(const View& view, int axis) {
  return std::ranges::any_of(view.index, [&](const common::Expr& e) {
    return e.uses(common::Var{common::Var::Kind::kIndex, axis});
  });
}

// Whether each place of the image is multiplied by one element of the weight for each of the summed
// axes' steps.
bool is_one_column(const View& image, const View& weight, const std::vector<int>& summed) {
  for (int axis = 0; axis < static_cast<int>(weight.shape.size()); ++axis) {
    const bool is_own = reads_axis(weight, axis) && !reads_axis(image, axis);
    if (is_own && !common::contains(summed, axis)) return false;
  }
  return true;
}

// Gives windows of the image, within a border of zeros, a twin that reads a copy with the border.
void copy_border(Rewriter& r, ClassId image, ClassId weight, const std::vector<int>& summed) {
  auto filter = r.find(weight, Op::kView);
  if (!filter || !r.at_load(weight) || r.at_load(image)) return;
  for (const Rewriter::Found& found : r.find_all(image, Op::kView)) {
    const View view = attr<ViewAttr>(*found.node).view;
    const ClassId x = found.operands[0];
    auto parts = zero_bordered_windows(view, r.shape(x));
    if (!parts || !is_one_column(view, attr<ViewAttr>(*filter->node).view, summed)) continue;
    const ClassId copy = border_of(r, x, parts->border, Lowering::kCopy);
    r.graph().merge(image, r.view(copy, parts->windows));
  }
}

}  // namespace

void add_borders_rules(RuleMaker& m) {
  m.rule("bordered-windows", Equivalence::kBits, "(view@v ?x)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const ClassId x = match["x"];
           auto parts =
               bordered_windows(attr<ViewAttr>(m.node(match, "v")).view, r.shape(x), r.symbols());
           if (!parts) return std::nullopt;
           // Apart from each other: windows of the copy are read in order, windows of the other
           // are what the match is.
           const ClassId seen =
               r.view(border_of(r, x, parts->border, Lowering::kInPlace), parts->windows);
           const ClassId copy = border_of(r, x, parts->border, Lowering::kCopy);
           r.graph().merge(seen, r.view(copy, parts->windows));
           return seen;
         });
  m.rule(
      "zero-bordered-windows", Equivalence::kBits, "(reduce.sum@r (binary.mul@ ?a ?b))",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const std::vector<int> summed = attr<common::ReduceAttr>(m.node(match, "r")).axes;
        copy_border(r, match["a"], match["b"], summed);
        copy_border(r, match["b"], match["a"], summed);
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
