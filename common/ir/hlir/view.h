// Movement without copying: a view says which input element each output element reads.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/ir/expr/bounds.h"
#include "common/ir/expr/expr.h"

namespace common {

// Holds where 0 <= value < bound.
struct Validity {
  Expr value;
  Expr bound;
  friend bool operator==(const Validity&, const Validity&) = default;
};

// out[i0, i1, ...] = input[index[0], index[1], ...] where every validity holds, else `fill`.
// `index` has one expression per input axis over the output's loop indices and size symbols.
// Permute, expand, slice, flip, pad, split, merge and unfold are all of this form, and so is any
// composition of them.
struct View {
  Shape shape;              // the output's sizes
  std::vector<Expr> index;  // one per input axis
  std::vector<Validity> valid;
  double fill = 0;  // read where the view is not valid; cast to the input's dtype
  friend bool operator==(const View&, const View&) = default;
};

View view_identity(const Shape& input);
// Output axis k is input axis order[k].
View view_permute(const Shape& input, std::span<const int> order);
// NumPy broadcasting of `input` to `shape`: sizes equal or 1, missing axes lead.
// Empty when the shapes do not broadcast.
std::optional<View> view_expand(const Shape& input, const Shape& shape);
// Row-major reinterpretation; the element counts must be equal (the caller checks).
View view_reshape(const Shape& input, const Shape& shape, const Bounds& symbols);
// Axis `axis` becomes start, start + step, ...: `length` elements. A negative step reverses.
View view_slice(const Shape& input, int axis, const Expr& start, const Expr& length, int64_t step);
// Adds `before` and `after` elements of `fill` along `axis`; negative amounts crop.
View view_pad(const Shape& input, int axis, const Expr& before, const Expr& after, double fill);
// Inserts an axis of size 1 before `axis`, or drops `axis`, whose size is 1.
View view_unsqueeze(const Shape& input, int axis);
View view_squeeze(const Shape& input, int axis);
// Windows: axis becomes `count` positions `step` apart, and a new last axis of `size` elements.
View view_unfold(const Shape& input, int axis, const Expr& count, int64_t size, int64_t step);

// The view that reads `inner`'s input directly: outer after inner. Empty when both have
// validities whose fills differ, which no single view expresses.
std::optional<View> view_compose(const View& outer, const View& inner,
                                 const std::vector<SymbolRange>& symbols);
bool view_is_identity(const View& view, const Shape& input);

// The bounds of a loop nest over `shape`.
Bounds loop_bounds(const Shape& shape, const std::vector<SymbolRange>& symbols);

// The row-major position of the element that the view reads, simplified.
Expr view_offset(const View& view, const Shape& input, const std::vector<SymbolRange>& symbols);

// position = offset + sum of strides[k] * i<k>, with no loop index in offset or strides.
struct Strided {
  Expr offset;
  std::vector<Expr> strides;
};
// Empty when the position is not affine in the loop indices. Validities are not considered.
std::optional<Strided> view_strides(const View& view, const Shape& input,
                                    const std::vector<SymbolRange>& symbols);
// Splits an expression into offset and strides over i0..i<rank-1>.
std::optional<Strided> affine_form(const Expr& expr, int rank);

// Where sliding windows read along one axis of an image:
// first + place_step * i<place> + tap_step * i<tap>.
struct WindowAxis {
  int place = -1, tap = -1;  // -1: there is no such index
  int64_t place_step = 1, tap_step = 0;
  int64_t first = 0;
};
// Of a position over as many indices as `is_place` has, of which each is a window's place or a tap
// within it. Empty where the position is no such sum, or runs backwards.
//   window_axis(2 * i0 + i2 - 1, {true, true, false}): place 0, place_step 2, tap 2, first -1
std::optional<WindowAxis> window_axis(const Expr& position, const std::vector<bool>& is_place);

}  // namespace common
