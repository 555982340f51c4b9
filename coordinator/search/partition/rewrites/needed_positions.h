// Computes of each value only the positions that something reads.
//
//   logits = hidden @ words          hidden [t, d], logits [t, n]
//   last = logits[t - 1]       =>    last = hidden[t - 1] @ words
//
// Of an axis that all users of a value read at one position, that position is left, through
// products, norms and elementwise operations up to where other positions are read, too: of a
// transformer whose classifier reads one token the last layer's feed-forward part computes that
// token alone.
#pragma once

#include "common/ir/hlir/graph.h"

namespace coordinator {

// The same graph with such axes of one element, without the nodes that nothing needs any more.
// Inputs, outputs and symbols stay as they are; bodies of loops, too.
common::Graph compute_needed_positions(const common::Graph& graph);

}  // namespace coordinator
