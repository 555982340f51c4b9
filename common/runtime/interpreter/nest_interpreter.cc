#include "common/runtime/interpreter/nest_interpreter.h"

#include <cstring>

#include "common/base/cat.h"
#include "common/ir/nest/nest_graph.h"

namespace common {
namespace {

// The values in the order of memory, which come in that of loops.
Result<HostTensor> in_place(const HostTensor& values, const HostTensor& places,
                            std::vector<int64_t> sizes) {
  LFARM_ASSIGN_OR_RETURN(HostTensor result,
                         HostTensor::uninitialized(values.dtype(), std::move(sizes)));
  const auto bytes = static_cast<size_t>(dtype_size(values.dtype()));
  std::vector<char> is_written(static_cast<size_t>(result.elements()), 0);
  std::byte* const to = result.mutable_bytes().data();
  int64_t written = 0;
  for (int64_t k = 0; k < values.elements(); ++k) {
    const int64_t place = places.get_int(k);
    if (place < 0) continue;
    const auto at = static_cast<size_t>(place);
    if (std::exchange(is_written[at], 1) != 0) {
      return invalid_input(cat("loops visit element ", place, " twice"));
    }
    std::memcpy(to + at * bytes, values.data() + static_cast<size_t>(k) * bytes, bytes);
    ++written;
  }
  if (written != result.elements()) {
    return invalid_input(cat("loops visit ", written, " of ", result.elements(), " elements"));
  }
  return result;
}

Result<std::vector<int64_t>> symbols_of(const Graph& graph, std::span<const HostTensor> inputs) {
  std::vector<std::vector<int64_t>> sizes;
  for (const HostTensor& input : inputs) sizes.push_back(input.sizes());
  return bind_symbols(graph, sizes);
}

}  // namespace

Result<std::vector<HostTensor>> interpret_nest(const Graph& body, const LoopNest& nest,
                                               std::span<const HostTensor> inputs,
                                               const InterpretOptions& options) {
  const Graph looped = looped_body(body);
  LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> symbols, symbols_of(looped, inputs));
  LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> visited,
                         interpret(nest_graph(body, nest), inputs, options));
  const size_t count = looped.outputs.size();
  std::vector<HostTensor> results;
  for (size_t k = 0; k < count; ++k) {
    const Shape& shape = looped.node(looped.outputs[k].node).shape;
    LFARM_ASSIGN_OR_RETURN(results.emplace_back(), in_place(visited[k], visited[count + k],
                                                            evaluate_shape(shape, symbols)));
  }
  return results;
}

Result<std::vector<HostTensor>> interpret_loops(const LoopedNodes& looped,
                                                std::span<const HostTensor> inputs,
                                                const InterpretOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> symbols, symbols_of(looped.body, inputs));
  LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> visited, interpret(looped.loops, inputs, options));
  std::vector<HostTensor> given(inputs.begin(), inputs.end());
  for (size_t k = 0; k < looped.nodes.size(); ++k) {
    const Shape& shape = looped.body.node(looped.nodes[k]).shape;
    LFARM_ASSIGN_OR_RETURN(HostTensor node, in_place(visited[2 * k], visited[2 * k + 1],
                                                     evaluate_shape(shape, symbols)));
    given.push_back(std::move(node));
  }
  return interpret(after_loops(looped), given, options);
}

}  // namespace common
