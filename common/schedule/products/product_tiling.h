// Which blocks of a GPU's threads compute the product of a tile kernel.
#pragma once

#include <optional>

#include "common/ir/llir/tiling.h"
#include "common/schedule/products/product_machine.h"

namespace common {

// `body` is lowered but for contractions. Of the schedule's kTile parameters, what it asks for;
// else what is expected to take least: a WarpgroupTiling, SkinnyTiling, MmaTiling or ThreadTiling.
// None for a body without a product that blocks can compute.
std::optional<Tiling> choose_product_tiling(const Graph& body, const Schedule& schedule,
                                            const ProductMachine& machine);

}  // namespace common
