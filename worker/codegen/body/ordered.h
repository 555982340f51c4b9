// The templates of operations whose steps depend on one another: scan, scatter and sort.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/body/function_body.h"

namespace worker {

// Each takes a body whose one output is the node the template is named after; everything below that
// node is computed in place. kUnsupported for another body.
common::Result<common::FunctionBody> emit_scan(const common::Graph& body);
struct ScatterUnits {
  bool are_few = false;     // each copies neighbours; else units are as many as can be independent
  bool finds_base = false;  // the output holds the base already, see EntryPoint::starts_from_bases
};
// Where the output does not hold its base, it may be the memory of one that nothing else reads.
common::Result<common::FunctionBody> emit_scatter(const common::Graph& body, ScatterUnits units);
common::Result<common::FunctionBody> emit_sort(const common::Graph& body);

// The unsigned number whose order is that of the elements `x` of `dtype` in the node `sort`.
std::string sort_key(const common::Node& sort, common::DType dtype, const std::string& x);

}  // namespace worker
