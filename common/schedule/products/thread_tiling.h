// Blocks of a product by plain multiply-adds: every thread has a tile of it in registers.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/tiling.h"
#include "common/schedule/products/product_tiles.h"

namespace common {

struct ThreadTiling {
  static constexpr std::string_view kForm = "thread_tile";
  int64_t rows = 64, columns = 64, depth = 16;  // of a block; depth in a step
  int64_t tall = 4, wide = 4;                   // of a thread's tile
  int64_t splits = 1;                           // blocks that share a k
  int64_t stores = 4;                           // results that a thread stores together

  int64_t threads() const { return rows / tall * (columns / wide); }

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("columns", t.columns);
    visit("depth", t.depth);
    visit("tall", t.tall);
    visit("wide", t.wide);
    visit("splits", t.splits);
    visit("stores", t.stores);
  }
};

// Rows of shared memory are longer by this many elements, so that columns spread over its banks.
inline constexpr int64_t kThreadTilePad = 4;
// Of two blocks of each operand, of elements of that size.
int64_t thread_tile_bytes(const ThreadTiling& tiling, int64_t element);

ThreadTiling choose_thread_tiling(const Contraction& contraction, const Schedule& schedule,
                                  const ProductMachine& machine);
// kInvalidInput where these are no blocks that choose_thread_tiling() knows, or too many share a k.
Status verify(const ThreadTiling& tiling, const Contraction& contraction);

}  // namespace common
