// Which templates can hold which bodies, so that a kernel gets loops where its template cannot.
#pragma once

#include <optional>

#include "common/ir/llir/llir.h"

namespace common {

// Whether the kernel's template computes its whole body by itself: what a tile, an attention or a
// transform is made of is there once, and every output is a function of single elements of it. True
// of templates without such a structure.
bool template_holds(const Kernel& kernel);

// Paired products: two contractions over the same rows and columns, of whose results one kernel
// computes each output element, where they meet:
//
//   y[m, n] = f(round(sum over k of a[m, k] * v[n, k]), round(sum over j of b[m, j] * w[n, j]))
//
// A network's block that ends with a product and its shortcut with another is such a pair; so are
// gate and up of a language model.
//
// Here `body` has half operands and `first` comes before `second` in it.
struct PairedProducts {
  Graph body;
  NodeId first = 0, second = 0;
};

// Of a body with exactly two contractions, lowered but for these, which blocks of warpgroups can
// compute one after the other, step by step of 64 k:
// - their operands are of one half type, in memory by one stride for each axis, or on the left
//   windows of one tap; neither has few rows or columns, nor labels of a batch;
// - constant k in whole steps, which the memory of each side's operands runs along in both or none;
// - their results have one shape and are rounded to one half type before anything else (see
//   exchanged_sums()).
// None otherwise.
std::optional<PairedProducts> paired_products(const Graph& body);

// Whether blocks of a GPU's warpgroups compute the whole body of a tile that has two products (see
// paired_products()).
bool warpgroups_hold(const Kernel& kernel);

// Whether plain loops suit the contraction of a body for tiles better: it has so few rows (a
// constant, at most 4) that its matrix is best read once, in place. `inner_axis` receives the
// output axis of those rows, or -1.
bool is_skinny_product(const Graph& body, int* inner_axis);

}  // namespace common
