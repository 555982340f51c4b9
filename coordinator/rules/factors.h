// Factors of products that are summed: values as views that depend on the fewest axes.
#pragma once

#include <functional>
#include <vector>

#include "coordinator/rules/rewriter.h"

namespace coordinator {

// The axes that the view depends on. Its only element of an axis of one is no dependence.
std::vector<int> used_axes(const common::View& view);
// The view with other expressions for its loop indices.
common::View renamed(const common::View& view, common::Shape shape,
                     const std::function<common::Expr(int)>& index);
// The view with only some of its axes; it depends on the others' first element at most.
common::View narrowed(const common::View& view, const std::vector<int>& axes);

// One factor of a product that is summed: a class, and which index of the product each of its axes
// is.
struct Factor {
  ClassId cls;
  std::vector<int> labels;
};
// The sum over all labels that are not in `out`, of shape `shape`. Labels are renamed by first
// occurrence, so that equal contractions have equal attributes.
ClassId contract(Rewriter& r, common::DType dtype, Factor a, Factor b, std::vector<int> out,
                 common::Shape shape);
// The class by way of the view that depends on the fewest axes; labels are axes of `cls`.
Factor make_factor(Rewriter& r, ClassId cls);

}  // namespace coordinator
