// The identifiers of the e-graph engine: 32-bit numbers given in order of creation, never pointers.
#pragma once

#include <cstdint>

namespace coordinator {

// An operator with its attributes, interned by the caller; small dense numbers.
using Head = uint32_t;
// An e-class. After merges several ids name one class; EGraph::find gives the canonical one.
using ClassId = uint32_t;
// An e-node. Stable as long as the node lives; duplicates die in EGraph::rebuild.
using NodeId = uint32_t;

constexpr uint32_t kNone = 0xffffffff;

}  // namespace coordinator
