// Looking below a match: the shapes of structure that several families recognise.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "coordinator/rules/matching/rewriter.h"

namespace coordinator {

// The view hands a value reduced over `axes` back to the rows it came from: axis k of the reduced
// value is the k-th axis that was kept.
bool restores(const common::View& view, const std::vector<int>& axes);

// The view repeats elements of a smaller tensor, and does nothing else to any.
bool is_broadcast(const Rewriter& r, const common::View& view, const common::Shape& input);

// What a whole-numbered tensor holds where it is known from the position alone: an expression over
// the loop indices, for iotas, constants, views and casts of these and quotients by a constant.
std::optional<common::Expr> index_value(const Rewriter& r, ClassId cls);

// A comparison of what two positions alone tell, over the loop indices.
struct LessOfPositions {
  common::Expr x, y;  // x < y
};
// What the class holds, or is an unguarded view of.
std::optional<LessOfPositions> less_of_positions(const Rewriter& r, ClassId cls);

// The class holds whole numbers from `least` to `most` and nothing else, in any numeric type.
struct WholeRange {
  int64_t least;
  int64_t most;
};
std::optional<WholeRange> whole_range(const Rewriter& r, ClassId cls);
// All of the range's numbers are numbers of the type.
bool holds(common::DType dtype, const WholeRange& range);

// The sort whose order the class undoes: where each position went, of one axis.
std::optional<ClassId> undone_order(const Rewriter& r, ClassId cls);

// Follows pointwise nodes and the views between them, keeping the view from the class at hand to
// the place where its value is used.
class Descent {
 public:
  Descent(Rewriter& r, ClassId cls)
      : r_(r), cls_(cls), view_(common::view_identity(r.shape(cls))) {}

  ClassId cls() const { return cls_; }
  const common::View& view() const { return view_; }

  // The same place in another class, of the same shape.
  Descent at(ClassId cls) const {
    Descent result = *this;
    result.cls_ = cls;
    return result;
  }
  // Steps through all views.
  bool through_views();
  bool through_unary(common::UnaryOp op);
  bool through_cast();
  // Steps to the other operand of `op` when one operand is a constant; returns the constant.
  // right_only: the constant must be the second operand.
  std::optional<double> through_constant(common::BinaryOp op, bool right_only);

 private:
  Rewriter& r_;
  ClassId cls_;
  common::View view_;
  int steps_ = 0;
};

// A sum restored to the rows it came from: what was summed, along which axes.
struct RowSum {
  ClassId of;
  std::vector<int> axes;
};
std::optional<RowSum> row_sum_of(Rewriter& r, Descent descent);

// A mean over some axes, restored to the rows: what was averaged. `order` has the averaged axes
// last, `axes` of them, and all others before, each in its own order.
struct Mean {
  ClassId of;
  int axes;
  std::vector<int> order;

  bool is_of_last() const { return std::is_sorted(order.begin(), order.end()); }
};
std::optional<Mean> mean_of(Rewriter& r, Descent descent);

}  // namespace coordinator
