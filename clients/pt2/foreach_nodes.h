// Takes operators on lists of tensors apart into nodes of the plain operators.
//
//   aten._foreach_add_.List(self=[a, b], other=[c, d])
//     becomes  aten.add_.List(self=a, other=c) and aten.add_.List(self=b, other=d)
#pragma once

#include <optional>
#include <vector>

#include "clients/pt2/archive/exported_program.h"

namespace clients {

// Empty when the node's operator is no such one. A node that writes in place has the tensor that it
// writes into as its output, too.
std::optional<std::vector<ExportNode>> foreach_nodes(const ExportNode& node);

}  // namespace clients
