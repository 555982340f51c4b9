// Runs a few blocks of a generated GPU kernel at its real size on this machine, to see which
// addresses its warps access together: inputs are zeros that take no memory, but for given bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulator/accesses/access_counter.h"

namespace emulator {

// A kernel as worker/codegen/generator.h says it is launched.
struct AccessRun {
  std::string preamble, text, entry;
  struct Buffer {
    uint64_t bytes = 0;
    bool is_written = false;
    int same_as = -1;                   // an earlier one, in whose memory it lies
    std::vector<std::byte> first = {};  // its first bytes; the others are zeros
  };
  std::vector<Buffer> buffers;
  std::vector<int64_t> symbols;
  // Tensor maps; addresses are bytes from the buffer's first.
  struct Map {
    size_t buffer = 0;
    EncodedMap encoded;
  };
  std::vector<Map> maps;
  int64_t units = 0, blocks = 0;
  unsigned threads = 0, shared_bytes = 0;
  int64_t scratch_stride = 0;
};

struct AccessFigures {
  AccessSums sums;                 // over the blocks that ran, each for those it stands for
  double longest_load_bytes = 0;   // of the block that loads most
  AccessSums longest;              // likewise
  double box_bytes_under_way = 0;  // most of them at once
  int warpgroups = 0;              // of a block, that multiply
  int64_t blocks = 0;              // that ran
  bool is_whole = true;            // each to its end, and all that it accesses was counted
  std::string problem;             // why there are no sums; empty: there are
};

// The grid's first, middle and last block, or, where they read windows of images, the first, the
// last and several others, which sums weigh by how many blocks they stand for; the mean weight of
// those that ran is one. None waits for another one's work: each runs as if what it waits for was
// there. Of blocks that share a sum one goes on when all are done: what it does then is counted for
// its share of the blocks, since the last block of a grid is always such a one. A block that
// accesses too much is ended after some millions of accesses.
AccessFigures run_accesses(const AccessRun& run);

}  // namespace emulator
