// Which of its arguments a node writes into: exports keep in-place operators and out= as the model
// has them, and translators know only their pure forms.
#pragma once

#include <string_view>
#include <vector>

#include "clients/pt2/archive/exported_program.h"

namespace clients {

// "aten.add_.Tensor": the operator writes its result into its first argument.
bool is_in_place(std::string_view target);
// "aten.add.out": the operator writes its results into its last arguments.
bool has_out_arguments(std::string_view target);
// "aten.t_.default": the operator changes which elements its first argument shows, and no element.
bool changes_only_the_view(std::string_view target);

// Positions among the node's inputs that output 0, 1, ... are written into; empty for pure
// operators. `target` is the node's without "torch.ops.".
std::vector<size_t> written_inputs(const ExportNode& node, std::string_view target);

}  // namespace clients
