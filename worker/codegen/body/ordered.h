// The templates of operations whose steps depend on one another: scan, scatter and sort.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/body/function_body.h"

namespace worker {

// Each takes a body whose one output is the node the template is named after; everything below that
// node is computed in place. kUnsupported for another body.
common::Result<common::FunctionBody> emit_scan(const common::Graph& body);
// The output may be the memory of a base that nothing else reads. With `few_units` each copies
// neighbours; without, units are as many as can be independent.
common::Result<common::FunctionBody> emit_scatter(const common::Graph& body, bool few_units);
common::Result<common::FunctionBody> emit_sort(const common::Graph& body);

// The unsigned number whose order is that of the elements `x` of `dtype` in the node `sort`.
std::string sort_key(const common::Node& sort, common::DType dtype, const std::string& x);

// C helpers that these templates call, for the preamble.
std::string_view ordered_preamble();

}  // namespace worker
