// Translates the graphs inside of higher-order operators: wrappers, conditions and loops.
//
//   higher_order.scan(body, init=[h], xs=[x])  with x of 3 rows
//     becomes  h1, y0 = body(h, x[0]); h2, y1 = body(h1, x[1]); h3, y2 = body(h2, x[2])
#pragma once

#include <functional>
#include <string_view>

#include "clients/pt2/archive/exported_program.h"
#include "clients/pt2/aten/translate_context.h"

namespace clients {

// Steps of a loop that are written out, one after the other.
inline constexpr int64_t kMaxLoopSteps = 1024;

// What a node's refusal says: the operator, its place in the model, and why.
common::Error refusal_of(const ExportNode& node, common::Code code, std::string_view why);

bool has_nested_graph(const ExportNode& node);

// Defines the node's results in `context`; `translate` translates all nodes of a nested graph.
common::Status translate_nested(Context& context, const ExportGraph& outer, const ExportNode& node,
                                const std::function<common::Status(const ExportGraph&)>& translate);

}  // namespace clients
