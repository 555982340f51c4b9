// How blocks cover a product on a GPU.
#pragma once

#include <string_view>
#include <vector>

#include "common/lowering/body/contraction.h"
#include "common/schedule/products/product_machine.h"

namespace common {

// Rows and columns of the product that a block of threads computes, and the blocks that run at
// once, below or beside each other.
struct ProductTile {
  int64_t rows = 64, columns = 64;
  int64_t cluster = 1;
  bool is_beside = false;
  int64_t rows_together() const { return is_beside ? rows : rows * cluster; }
  int64_t columns_together() const { return is_beside ? columns * cluster : columns; }
};

// Parts of the product that a block each computes, whole clusters of them.
Expr product_tiles(const Contraction& contraction, const ProductTile& tile);

// How many blocks share a k, in whole steps of `depth`: `wanted` where it is not 0, or as many as
// fill the machine.
int64_t tile_splits(const Contraction& contraction, const ProductTile& tile, int64_t depth,
                    int64_t wanted, const ProductMachine& machine);

// Whether `stores`, the results that a thread stores together, is a number from 1 to 16.
inline bool are_stores(int64_t stores) { return stores >= 1 && stores <= 16; }
inline constexpr std::string_view kWrongStores = "a thread does not store so many results together";

// Blocks that share a sum, at most.
inline constexpr int64_t kSharingBlocksMax = 1024;
// Whether both operands are of one half type, as tensor cores multiply them.
bool has_half_operands(const Contraction& contraction);

// Whether `splits` is a number of blocks at all sizes of the body's symbols.
bool is_splits(const Expr& splits, const Graph& body);

}  // namespace common
