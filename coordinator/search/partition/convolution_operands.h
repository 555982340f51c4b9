// What convolutions read on a GPU, brought into the order in which tensor cores take it: images
// with their channels last, weights with the channels that are summed last, tap by tap.
#pragma once

#include "coordinator/search/partition/materialisation.h"

namespace coordinator {

// The same graph, in which tiled contractions of windows and a weight, both of 16 bits, read
// - an image that was permuted from a copy in that order;
// - the weight from a copy [columns..., taps..., channels], made once, when weights are bound.
// Genes of what is added are beyond those of the e-graph. For example
//   contract(windows(permuted(x)), w) = contract(windows(copy(permuted(x))), back(copy(w, order)))
Selected with_convolution_operands(Selected selected);

// Whether some position is that of a row and of a tap at once.
bool has_windows(const common::View& view);

}  // namespace coordinator
