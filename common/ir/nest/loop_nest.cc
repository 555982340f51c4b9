#include "common/ir/nest/loop_nest.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/nest/lower_structure.h"
#include "common/ir/nest/output_groups.h"
#include "common/ir/nest/reduction_fusion.h"

namespace common {
namespace {

constexpr int64_t kThreadsMax = 1024;
constexpr int64_t kWarp = 32;
constexpr int64_t kBlocksMax = 1 << 16;
constexpr int64_t kWidthMax = 1 << 16;
constexpr int64_t kRowsMax = 16;

bool is_node(const Graph& body, NodeId id) {
  return id >= 0 && static_cast<size_t>(id) < body.nodes.size();
}

bool is_power_of_two(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

Status verify_reductions(const ReductionChoices& choices, const Graph& body) {
  auto is_reduction = [&](NodeId id) {
    return is_node(body, id) && body.node(id).op == Op::kReduce;
  };
  std::set<NodeId> taken;
  for (const auto& [first, others] : choices.fused) {
    std::vector<NodeId> group = {first};
    for (NodeId other : others) {
      if (!is_reduction(first) || !is_reduction(other) || !can_fuse(body, group, other)) {
        return invalid_input(cat("%", other, " cannot be computed in the loops of %", first));
      }
      group.push_back(other);
    }
    for (NodeId id : group) {
      if (!taken.insert(id).second) return invalid_input(cat("%", id, " is fused twice"));
    }
  }
  for (NodeId id : choices.flat) {
    if (!is_reduction(id) || !has_adjacent_axes(attr<ReduceAttr>(body.node(id)))) {
      return invalid_input(cat("%", id, " is no reduction over adjacent axes"));
    }
  }
  for (NodeId id : choices.staged) {
    if (!is_node(body, id)) return invalid_input(cat("there is no node %", id, " to stage"));
  }
  for (NodeId id : choices.walked) {
    if (!is_reduction(id) || !walked_steps(body, id)) {
      return invalid_input(cat("%", id, " is no reduction of at most ", kWalkedMax, " steps"));
    }
  }
  return {};
}

// Whole warps, or a part of one that its exchanges halve down to a thread.
bool is_group_size(int64_t threads) {
  return threads > kWarp ? threads % kWarp == 0 : is_power_of_two(threads);
}

Status verify_threads(const ThreadGroup& t) {
  bool fits = is_group_size(t.threads) && is_power_of_two(t.side) && is_power_of_two(t.access) &&
              t.threads * t.side <= kThreadsMax && t.access <= 16 && t.blocks >= 1 &&
              t.blocks <= kBlocksMax;
  if (!fits || (t.side > 1 && t.threads == 1)) {
    return invalid_input("a group of threads has an impossible size");
  }
  if (t.rows < 1 || t.rows > kRowsMax || (t.rows > 1 && (t.threads == 1 || t.side > 1))) {
    return invalid_input("only a group's threads compute several rows at once");
  }
  if (t.rows > 1 && t.blocks > 1) return invalid_input("blocks share a single row's reduction");
  // Groups of a warp at most share a block.
  if (t.blocks > 1 && (t.side > 1 || t.threads <= kWarp)) {
    return invalid_input("blocks share a reduction only where a group is a whole block");
  }
  return {};
}

Status verify_accumulators(const LoopNest& nest, const LoopBand& band,
                           const AccumulatorBlock& block) {
  if (nest.transposed) return invalid_input("transposed loops have no accumulators");
  if (block.width < 1 || block.width > kWidthMax || block.before >= band.extents.size()) {
    return invalid_input(cat("accumulators of ", block.width, " steps before loop ", block.before,
                             " of ", band.extents.size()));
  }
  return {};
}

}  // namespace

Graph nest_body(const Graph& kernel_body, const LoopNest& nest) {
  return lower_structure(kernel_body, nest.is_epilogue ? Kept::kContractions : Kept::kNone);
}

Expr reduced_elements(const Graph& body, NodeId reduction) {
  const Node& node = body.node(reduction);
  Expr elements = 1;
  for (int axis : attr<ReduceAttr>(node).axes) {
    elements *= body.node(node.operands[0]).shape[static_cast<size_t>(axis)];
  }
  return elements;
}

std::optional<int64_t> walked_steps(const Graph& body, NodeId reduction) {
  const Node& node = body.node(reduction);
  const auto& reduce = attr<ReduceAttr>(node);
  if (reduce.op == ReduceOp::kArgmax || reduce.op == ReduceOp::kArgmin) return std::nullopt;
  Expr steps = reduced_elements(body, reduction);
  if (!steps.is_constant() || steps.constant() < 1 || steps.constant() > kWalkedMax) {
    return std::nullopt;
  }
  return steps.constant();
}

Expr grid_steps(const LoopNest& nest) {
  const std::vector<Expr>& loops = nest.shared.extents;
  return element_count({loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(nest.grid)});
}

Status verify(const LoopNest& nest, const Graph& body) {
  std::vector<OutputGroup> groups = group_outputs(body);
  if (nest.groups.size() != groups.size()) {
    return invalid_input(cat("a nest for ", nest.groups.size(),
                             " groups of outputs, of which the "
                             "body has ",
                             groups.size()));
  }
  auto cut = static_cast<std::ptrdiff_t>(shared_axes(groups));
  const Shape& first = groups[0].shape;
  LFARM_RETURN_IF_ERROR(
      verify_band(nest.shared, Shape(first.begin(), first.begin() + cut), body.symbols));
  bool is_single = groups.size() == 1;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupNest& group = nest.groups[g];
    const Shape& shape = groups[g].shape;
    LFARM_RETURN_IF_ERROR(
        verify_band(group.own, Shape(shape.begin() + cut, shape.end()), body.symbols));
    if (!group.accumulators) continue;
    LFARM_RETURN_IF_ERROR(
        verify_accumulators(nest, is_single ? nest.shared : group.own, *group.accumulators));
  }
  size_t loops = nest.shared.extents.size();
  if (nest.grid > loops)
    return invalid_input(cat("a grid of ", nest.grid, " of ", loops, " loops"));
  bool is_blocked = is_single && nest.groups[0].accumulators;
  if (is_blocked && nest.grid > nest.groups[0].accumulators->before) {
    return invalid_input("the grid lies inside of the blocks of accumulators");
  }
  if (nest.blocks_in_grid && (!is_blocked || nest.grid != nest.groups[0].accumulators->before)) {
    return invalid_input("the grid does not end where the blocks of accumulators begin");
  }
  if (nest.transposed && (!is_single || loops < 2 || nest.grid > loops - 2)) {
    return invalid_input("only the two loops inside of a single group's grid can be transposed");
  }
  if (nest.simd < 0 || nest.simd > kWidthMax || nest.unroll < 1 || nest.unroll > kWidthMax) {
    return invalid_input("innermost loops have an impossible width");
  }
  if (nest.threads.rows > 1 && (!is_single || nest.grid == 0 || nest.grid != loops)) {
    return invalid_input("rows at once are steps of a grid of all loops");
  }
  LFARM_RETURN_IF_ERROR(verify_reductions(nest.reductions, body));
  return verify_threads(nest.threads);
}

}  // namespace common
