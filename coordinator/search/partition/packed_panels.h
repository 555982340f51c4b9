// Weights in the order in which register tiles read them.
//
// A tile multiplies rows by a few vectors of columns, step by step along the summed axis. It reads
// fastest where the columns of a vector lie side by side and those of the next step follow them: a
// panel. A matrix that depends on weights alone is copied into panels once, when weights are bound;
// a matrix that a run computes is packed block by block in every run. Where windows are weighed
// channel by channel, vectors run along the channels: their weights lie side by side then, too.
#pragma once

#include "coordinator/search/partition/materialisation.h"

namespace coordinator {

// The same graph with those operands of tiled contractions read from panels: [batch..., panel,
// summed axes, column within the panel], the last panel filled up with zeros; and with weights of
// other sums of products in the order of the result's last axis. On a machine that multiplies pairs
// of bfloat16, operands that were made float32 from such are read as they were, and panels hold
// pairs of neighbours along the summed axes: [batch..., panel, pair, column within the panel, 2].
// Genes of what is added are beyond those of the e-graph; what nothing reads any more is left out.
Selected with_packed_panels(Selected selected, common::Machine machine);

}  // namespace coordinator
