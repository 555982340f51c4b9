// Operands of products without the axes they do not depend on, and contractions of them.
#pragma once

#include <functional>
#include <vector>

#include "coordinator/rules/matching/rewriter.h"

namespace coordinator {

// One factor of a product: a class whose axes are the product axes it depends on.
struct Factor {
  ClassId cls;
  std::vector<int> labels;  // product axis of each of its axes
};

// The axes that the view depends on. Its only element of an axis of one is no dependence.
std::vector<int> used_axes(const common::View& view);
// The view with other expressions for its loop indices.
common::View renamed(const common::View& view, common::Shape shape,
                     const std::function<common::Expr(int)>& index);
// The view with only some of its axes; it depends on the others' first element at most.
common::View narrowed(const common::View& view, const std::vector<int>& axes);
// By way of the view of the class that depends on the fewest axes.
Factor make_factor(Rewriter& r, ClassId cls);
// The factor repeated along the axes that it does not depend on.
common::View spread(const Factor& factor, const common::Shape& shape);

// The contraction of two factors. Labels are renamed by first occurrence, so that equal
// contractions have equal attributes.
ClassId contract(Rewriter& r, common::DType dtype, Factor a, Factor b, std::vector<int> out,
                 common::Shape shape);

}  // namespace coordinator
