// Convolutions that were chosen to be computed by minimal filters, written out.
#pragma once

#include "coordinator/search/partition/materialisation.h"

namespace coordinator {

// The same graph, in which a contraction of windows w and filters f with Lowering::kWinograd is
//   y = results x contract(windows of (pixels x tiles of the image), filters x f)
//   select(isnan(y) or isinf(y), contract(w, f), y)
// with the matrices `pixels`, `filters` and `results` of matching/winograd_form.h and tiled
// contractions. What multiplies f is computed when weights are bound. A pixel that is not finite
// makes results of its whole tile so, and these are taken from the direct sum: values are those of
// the direct sum but for rounding. Where the chosen operand is no view of windows, the contraction
// becomes a tiled one. Genes of what is added are beyond those of the e-graph.
Selected with_winograd_convolutions(Selected selected);
// The choice that what is named `choice` was added for: itself where nothing was added.
NodeId choice_behind(NodeId choice);

}  // namespace coordinator
