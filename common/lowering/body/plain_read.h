// Finds values that lie in a kernel's inputs as they are, so that they can be read many at a time.
#pragma once

#include <functional>
#include <optional>

#include "common/lowering/body/body_emitter.h"

namespace common {

// An element of one of the body's inputs.
struct PlainRead {
  int input = 0;
  Expr offset;  // of the element, in the input
};

// Where the element of a node is read that is an input, or what views that are valid everywhere and
// gathers make of one. Gathered positions are emitted.
std::optional<PlainRead> plain_read(NodeId node, const Indices& at, BodyEmitter& emitter);

// The same of values of a half type that are cast.
std::optional<PlainRead> plain_half_read(NodeId node, const Indices& at, BodyEmitter& emitter);

// Whether runs of `length` elements of the node, which `at` gives for positions [0, extent), lie
// side by side in an input, each run at a multiple of its length. Other indices that `at` uses are
// bound in `trial`.
bool runs_are_chunks(const Graph& body, NodeId node,
                     const std::function<Indices(const Expr& position)>& at, const Expr& extent,
                     int64_t length, CodeWriter& trial);

}  // namespace common
