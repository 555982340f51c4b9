// The first layers of a deep model as a model of its own: what a few layers of full width compute
// can be compared with the reference interpreter, which all layers would keep busy for hours.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"

namespace bench {

// Rolls the graph, keeps the first `layers` iterations of every outermost loop, and writes the
// loops out again: what comes before and after the layers stays, as embeddings, the last norm and
// logits. States and weights of the other iterations vanish, unless they are read outside the
// loops, as counters of positions are. Of a minimum over the layers, as checks have it, those that
// are left remain. A loop of fewer iterations stays whole; one that reads what vanished ends before
// that. kUnsupported when a user output needs an iteration that is cut off.
//
//   x = embed(t); for 32 layers: x += mlp(x, w[k]); out = norm(x)
//   -> x = embed(t); x += mlp(x, w[0]); x += mlp(x, w[1]); out = norm(x)
common::Result<common::Graph> first_layers(const common::Graph& graph, int64_t layers);

}  // namespace bench
