// Blocks of a product of few rows (or columns), as in decoding: a matrix that is read once.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/tiling.h"
#include "common/schedule/products/product_tiles.h"

namespace common {

// How a skinny product reads its matrix, the side that is not of few rows.
struct SkinnyReads {
  Side few = Side::kLeft, many = Side::kRight;
  int64_t few_count = 1;         // rows of the few
  bool along_k = false;          // the matrix's memory runs along k
  bool on_tensor_cores = false;  // two to sixteen rows that these can take
  bool in_chunks = false;        // the matrix is read 16 bytes at a time,
  bool few_in_chunks = false;    // and so are the few rows
  int64_t length = 1;            // elements that a thread reads at a time
};
// Of a contraction with a side that is_few().
SkinnyReads skinny_reads(const Contraction& contraction);

// Threads of a block: `across` of them side by side along the matrix's memory, `down` along its
// other axis. Each reads some elements at a time, `ahead` times before it uses the first.
struct SkinnyTiling {
  static constexpr std::string_view kForm = "skinny";
  int64_t across = 128, down = 1;
  int64_t ahead = 4;
  int64_t rows = 1;    // of the matrix, that is elements of its own axis, of a block
  int64_t splits = 1;  // blocks that share a k

  int64_t threads() const { return across * down; }
  // Of k, that all threads of a block take before they start again.
  int64_t step(const SkinnyReads& reads) const {
    return (reads.along_k ? across * reads.length : down) * ahead;
  }

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("across", t.across);
    visit("down", t.down);
    visit("ahead", t.ahead);
    visit("rows", t.rows);
    visit("splits", t.splits);
  }
};

// Rows of the matrix, and steps of k, that a warp multiplies on tensor cores at once.
inline constexpr int64_t kSkinnyWarpRows = 16, kSkinnyWarpDepth = 32;

SkinnyTiling choose_skinny_tiling(const Contraction& contraction, const Schedule& schedule,
                                  const ProductMachine& machine);
// kInvalidInput for blocks that cannot read such a matrix, or take too much of a processor.
Status verify(const SkinnyTiling& tiling, const Contraction& contraction);

}  // namespace common
