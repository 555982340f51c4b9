#include "common/ir/nest/nest_graph.h"

#include <limits>
#include <utility>

#include "common/base/contains.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/nest/node_adder.h"
#include "common/ir/nest/output_groups.h"

namespace common {
namespace {

// Of squares that are turned: any serves.
constexpr int64_t kSquare = 16;

// Loops in the order in which they run, and the band's indices by theirs.
struct Loops {
  Shape extents;
  std::vector<Expr> band;        // of each loop of the band, its index
  std::vector<Validity> inside;  // of the band's loops that are cut

  Expr add(const Expr& extent) {
    extents.push_back(extent);
    return Expr::index(static_cast<int>(extents.size()) - 1);
  }
  void bound(size_t loop, const Expr& extent) { inside.push_back({band[loop], extent}); }
};

// Loops that run as they are, but for the last, which runs in blocks of `width` steps: blocks stand
// before loop `before`.
void add_blocked(Loops& loops, const std::vector<Expr>& extents, size_t before, int64_t width) {
  Expr block;
  for (size_t k = 0; k < extents.size(); ++k) {
    const bool is_last = k + 1 == extents.size();
    if (k == before) block = loops.add(ceil_div(extents.back(), width));
    loops.band.push_back(is_last ? block * Expr(width) + loops.add(width) : loops.add(extents[k]));
  }
  loops.bound(loops.band.size() - 1, extents.back());
}

// The last two in squares.
void add_squares(Loops& loops, const std::vector<Expr>& extents) {
  const size_t first = extents.size() - 2;
  for (size_t k = 0; k < first; ++k) loops.band.push_back(loops.add(extents[k]));
  Expr row = loops.add(ceil_div(extents[first], kSquare));
  Expr column = loops.add(ceil_div(extents[first + 1], kSquare));
  loops.band.push_back(row * Expr(kSquare) + loops.add(kSquare));
  loops.bound(first, extents[first]);
  loops.band.push_back(column * Expr(kSquare) + loops.add(kSquare));
  loops.bound(first + 1, extents[first + 1]);
}

void add_band(Loops& loops, const std::vector<Expr>& extents,
              const std::optional<AccumulatorBlock>& block) {
  if (block && !extents.empty()) return add_blocked(loops, extents, block->before, block->width);
  for (const Expr& extent : extents) loops.band.push_back(loops.add(extent));
}

Loops loops_of(const LoopNest& nest, size_t group) {
  Loops loops;
  const std::vector<Expr>& shared = nest.shared.extents;
  const bool is_single = nest.groups.size() == 1;
  if (nest.transposed) {
    add_squares(loops, shared);
  } else if (nest.threads.rows > 1) {
    add_blocked(loops, shared, shared.size() - 1, nest.threads.rows);
  } else {
    add_band(loops, shared, is_single ? nest.groups[0].accumulators : std::nullopt);
  }
  const GroupNest& own = nest.groups[group];
  add_band(loops, own.own.extents, is_single ? std::nullopt : own.accumulators);
  return loops;
}

// Where the group's elements are: an expression over the loops for each axis.
std::vector<Expr> positions_of(const LoopNest& nest, size_t group, const Loops& loops) {
  std::vector<Expr> positions;
  auto add = [&](const LoopBand& band, size_t first) {
    for (const Expr& position : band.position) {
      positions.push_back(position.substitute([&](Var v) {
        return v.kind == Var::Kind::kIndex ? loops.band[first + static_cast<size_t>(v.id)]
                                           : Expr::var(v);
      }));
    }
  };
  add(nest.shared, 0);
  add(nest.groups[group].own, nest.shared.extents.size());
  return positions;
}

// What a part that has no steps leaves.
std::optional<double> neutral(ReduceOp op) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::kSum:
      return 0;
    case ReduceOp::kProd:
      return 1;
    case ReduceOp::kMax:
      return -kInfinity;
    case ReduceOp::kMin:
      return kInfinity;
    default:
      return std::nullopt;
  }
}

class NestGraphBuilder {
 public:
  NestGraphBuilder(const Graph& body, const LoopNest& nest)
      : body_(body), nest_(nest), nodes_(graph_) {
    graph_.symbols = body.symbols;
    graph_.inputs = body.inputs;
  }

  Graph build() {
    for (NodeId id = 0; id < static_cast<NodeId>(body_.nodes.size()); ++id) {
      node_of_.push_back(is_shared(id) ? shared_reduction(id) : nodes_.add(copy(id)));
    }
    const std::vector<OutputGroup> groups = group_outputs(body_);
    std::vector<NodeId> values(body_.outputs.size()), places(body_.outputs.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      const Loops loops = loops_of(nest_, g);
      View visit{loops.extents, positions_of(nest_, g, loops), loops.inside, 0};
      View place = visit;
      place.fill = -1;
      NodeId position = nodes_.view(nodes_.flat_positions(groups[g].shape), place);
      for (size_t output : groups[g].outputs) {
        values[output] = nodes_.view(node_of_[static_cast<size_t>(looped_node(output))], visit);
        places[output] = position;
      }
    }
    values.insert(values.end(), places.begin(), places.end());
    for (NodeId id : values) nodes_.output(id);
    return std::move(graph_);
  }

 private:
  Node copy(NodeId id) const {
    Node node = body_.node(id);
    for (NodeId& operand : node.operands) operand = node_of_[static_cast<size_t>(operand)];
    return node;
  }
  NodeId looped_node(size_t output) const {
    const NodeId id = body_.outputs[output].node;
    return body_.node(id).op == Op::kScatter ? body_.node(id).operands[1] : id;
  }

  bool is_shared(NodeId id) const {
    const Node& node = body_.node(id);
    return node.op == Op::kReduce && nest_.threads.threads > 1 && is_float(node.dtype) &&
           neutral(attr<ReduceAttr>(node).op) && !nest_.reductions.walked.count(id) &&
           !node.shape.empty();
  }

  // Steps are dealt to threads `access` at a time; each sums its own, then the parts are summed.
  NodeId shared_reduction(NodeId id) {
    const Node& node = body_.node(id);
    const auto& reduction = attr<ReduceAttr>(node);
    const Shape& shape = body_.node(node.operands[0]).shape;
    const int64_t blocks = std::exchange(has_blocks_, false) ? nest_.threads.blocks : 1;
    const int64_t parts = nest_.threads.threads * blocks, access = nest_.threads.access;
    const Expr steps = reduced_elements(body_, id);
    View view_of_parts;
    view_of_parts.shape = node.shape;
    const int kept = static_cast<int>(node.shape.size());
    view_of_parts.shape.push_back(ceil_div(steps, parts * access));
    // Without threads that have no step.
    view_of_parts.shape.push_back(min(Expr(parts), ceil_div(steps, access)));
    view_of_parts.shape.push_back(access);
    const Expr step = (Expr::index(kept) * Expr(parts) + Expr::index(kept + 1)) * Expr(access) +
                      Expr::index(kept + 2);
    view_of_parts.valid = {{step, steps}};
    view_of_parts.fill = *neutral(reduction.op);
    Expr below = steps;
    int next = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!contains(reduction.axes, static_cast<int>(d))) {
        view_of_parts.index.push_back(Expr::index(next++));
        continue;
      }
      below = *exact_div(below, shape[d]);
      view_of_parts.index.push_back(mod(floor_div(step, below), shape[d]));
    }
    NodeId x =
        nodes_.view(node_of_[static_cast<size_t>(node.operands[0])], std::move(view_of_parts));
    // A sum is rounded once, as the interpreter's sums are: parts are not.
    x = nodes_.reduce(reduction.op, nodes_.cast(x, DType::kFloat64), {kept, kept + 2});
    return nodes_.cast(nodes_.reduce(reduction.op, x, {kept}), node.dtype);
  }

  const Graph& body_;
  const LoopNest& nest_;
  Graph graph_;
  NodeAdder nodes_;
  std::vector<NodeId> node_of_;  // of the body's nodes
  bool has_blocks_ = true;       // for the first reduction that a group shares
};

}  // namespace

Graph looped_body(const Graph& body) {
  Graph result = body;
  for (GraphOutput& output : result.outputs) {
    const Node& node = body.node(output.node);
    if (node.op == Op::kScatter) output.node = node.operands[1];
  }
  return result;
}

Graph nest_graph(const Graph& body, const LoopNest& nest) {
  return NestGraphBuilder(body, nest).build();
}

}  // namespace common
