// The templates of operations whose steps depend on one another: scan, scatter and sort.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir.h"
#include "worker/codegen/function_body.h"

namespace worker {

// Each takes a body whose one output is the node the template is named after; everything below that
// node is computed in place. kUnsupported for another body.
common::Result<FunctionBody> emit_scan(const common::Graph& body);
// Reads of the base see its old elements, also when base and output are the same memory.
common::Result<FunctionBody> emit_scatter(const common::Graph& body);
common::Result<FunctionBody> emit_sort(const common::Graph& body);

// C helpers that these templates call, for the preamble.
std::string_view ordered_preamble();

}  // namespace worker
