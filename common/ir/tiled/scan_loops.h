// The loops by which blocks of threads scan lines.
#pragma once

#include <cstdint>

#include "common/ir/tiled/looped_nodes.h"

namespace common {

// Of the threads of a block. Along a last axis they share a line: chunks of `threads` elements, of
// which each warp scans 32; what came before a warp is the chunks' and the warps' before it. Along
// other axes each thread walks a line of its own.
struct ScanLoops {
  int64_t threads = 256;
};

// `scan` is a kScan of `body`. Threads beyond the last whole warp scan nothing.
LoopedNodes looped_scan(Graph body, NodeId scan, const ScanLoops& loops);

}  // namespace common
