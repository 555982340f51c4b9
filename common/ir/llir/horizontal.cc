#include "common/ir/llir/horizontal.h"

#include <algorithm>
#include <cstdint>

#include "common/base/cat.h"
#include "common/ir/llir/in_place.h"

namespace common {

bool can_be_part(const Kernel& kernel) {
  if (kernel.form == Template::kScatter) return kernel.body.outputs.size() == 1;
  return kernel.form == Template::kLoops && horizontal_parts(kernel.body).size() == 1;
}

namespace {

// Whether outputs that have such a node in common compute something together: what only moves, or
// is there without a computation, they have as soon apart.
bool is_shared_work(const Node& node) {
  return node.op != Op::kInput && node.op != Op::kConstant && node.op != Op::kIota &&
         node.op != Op::kView && node.op != Op::kScatter;
}

// What an output computes of elements of its own shape; nothing where it is a scatter.
std::vector<NodeId> own_work(const Graph& body, NodeId output) {
  std::vector<NodeId> work;
  const Shape& shape = body.node(output).shape;
  if (body.node(output).op == Op::kScatter) return work;
  std::vector<char> needed(body.nodes.size(), 0);
  needed[static_cast<size_t>(output)] = 1;
  for (NodeId id = output; id >= 0; --id) {
    if (needed[static_cast<size_t>(id)] == 0) continue;
    const Node& node = body.node(id);
    if (is_shared_work(node) && node.shape == shape) work.push_back(id);
    for (NodeId operand : node.operands) needed[static_cast<size_t>(operand)] = 1;
  }
  return work;
}

}  // namespace

std::vector<std::vector<size_t>> horizontal_parts(const Graph& body) {
  constexpr size_t kNobody = SIZE_MAX;
  std::vector<size_t> part_of;                            // by output
  std::vector<size_t> owner(body.nodes.size(), kNobody);  // by node: an output that computes it
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const NodeId output = body.outputs[k].node;
    part_of.push_back(k);
    for (NodeId id : own_work(body, output)) {
      size_t& other = owner[static_cast<size_t>(id)];
      bool is_alike =
          other != kNobody && body.node(body.outputs[other].node).shape == body.node(output).shape;
      if (is_alike && part_of[other] != part_of[k]) {
        auto [first, later] = std::minmax(part_of[other], part_of[k]);
        std::replace(part_of.begin(), part_of.end(), size_t{later}, size_t{first});
      }
      other = k;
    }
  }
  std::vector<std::vector<size_t>> parts(part_of.size());
  for (size_t k = 0; k < part_of.size(); ++k) parts[part_of[k]].push_back(k);
  std::erase_if(parts, [](const auto& part) { return part.empty(); });
  return parts;
}

Kernel horizontal_part(const Kernel& kernel, const std::vector<std::vector<size_t>>& parts,
                       size_t part) {
  Kernel result;
  Graph body = kernel.body;
  body.outputs.clear();
  for (size_t output : parts[part]) body.outputs.push_back(kernel.body.outputs[output]);
  result.body = without_dead_nodes(body);
  bool scatters = result.body.node(result.body.outputs[0].node).op == Op::kScatter;
  result.form = scatters ? Template::kScatter : Template::kLoops;
  if (part < kernel.part_nests.size() && !kernel.part_nests[part].groups.empty()) {
    result.nest = kernel.part_nests[part];
  }
  return result;
}

Status verify_horizontal(const Kernel& kernel) {
  size_t outputs = kernel.body.outputs.size();
  if (kernel.form != Template::kHorizontal) {
    if (kernel.part_nests.empty()) return {};
    return invalid_input("nests of parts in a kernel that has none");
  }
  if (outputs < 2 || outputs > kHorizontalPartsMax) {
    return invalid_input(cat("a horizontal kernel of ", outputs, " outputs"));
  }
  if (kernel.nest) return invalid_input("a horizontal kernel's nests are its parts'");
  if (kernel.part_nests.empty()) return {};
  const std::vector<std::vector<size_t>> parts = horizontal_parts(kernel.body);
  if (kernel.part_nests.size() != parts.size()) {
    return invalid_input("nests for some parts alone");
  }
  for (size_t k = 0; k < parts.size(); ++k) {
    Kernel part = horizontal_part(kernel, parts, k);
    bool scatters = part.form == Template::kScatter;
    if (scatters && !part.nest) continue;
    if (scatters && !is_looped_scatter(kernel, parts[k][0])) {
      return invalid_input(cat("part ", k, ": this scatter has no loops"));
    }
    if (!part.nest) return invalid_input(cat("part ", k, " has no nest"));
    Status nest = verify(*part.nest, nest_body(part.body, *part.nest));
    if (!nest.ok()) return invalid_input(cat("the nest of part ", k, ": ", nest.error().message));
    if (part.nest->is_epilogue || part.nest->threads.blocks > 1) {
      return invalid_input(cat("part ", k, " leaves sums to other blocks"));
    }
  }
  return {};
}

}  // namespace common
