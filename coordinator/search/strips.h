// Weights in the order in which register tiles read them.
//
// A tile multiplies rows by a few vectors of columns, step by step along the summed axis. It reads
// fastest where the columns of a vector lie side by side and those of the next step follow them: a
// strip. A matrix that depends on weights alone is copied into strips once, when weights are bound;
// a matrix that a run computes is packed block by block in every run. Where windows are weighed
// channel by channel, vectors run along the channels: their weights lie side by side then, too.
#pragma once

#include "coordinator/search/stores.h"

namespace coordinator {

// The same graph with those operands of tiled contractions read from strips: [batch..., strip,
// summed axes, column within the strip], the last strip filled up with zeros; and with weights of
// other sums of products in the order of the result's last axis. On a machine that multiplies pairs
// of bfloat16, operands that were made float32 from such are read as they were, and strips hold
// pairs of neighbours along the summed axes: [batch..., strip, pair, column within the strip, 2].
// Genes of what is added are beyond those of the e-graph; what nothing reads any more is left out.
Selected with_strips(Selected selected, common::Machine machine);

}  // namespace coordinator
