// Which templates can hold which bodies, so that a kernel gets loops where its template cannot.
#pragma once

#include "common/ir/llir/llir.h"

namespace common {

// Whether the kernel's template computes its whole body by itself: what a tile, an attention or a
// transform is made of is there once, and every output is a function of single elements of it. True
// of templates without such a structure.
bool template_holds(const Kernel& kernel);

// Whether plain loops suit the contraction of a body for tiles better: it has so few rows (a
// constant, at most 4) that its matrix is best read once, in place. `inner_axis` receives the
// output axis of those rows, or -1.
bool is_skinny_product(const Graph& body, int* inner_axis);

}  // namespace common
