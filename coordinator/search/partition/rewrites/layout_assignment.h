// In which order the axes of what convolutions compute lie in memory.
//
// A convolution by a weight is a product whose columns are channels. Models say that channels come
// before rows and columns of the image; vectors of a processor and the copy engine of a GPU want
// them last: then every place of an image is a row of a tile, read and written side by side. Where
// values meet elementwise they must agree, so this is decided for the whole graph, before it is
// cut.
#pragma once

#include "common/ir/hlir/graph.h"
#include "common/ir/llir/llir.h"

namespace coordinator {

// The same graph, in which the values that products with weights read and make have those axes
// last that the weights have, too; what meets them elementwise and in reductions has the same
// order. What is elementwise or a reduction has no axes of size 1, which products do not have
// either, so that nothing stands between them. Inputs and outputs stay as they are. On GPUs nothing
// changes where no windows of images overlap: views of small values would take launches of their
// own. Sums may round differently.
common::Graph assign_layouts(const common::Graph& graph, common::Machine machine);

}  // namespace coordinator
