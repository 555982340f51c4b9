#include "common/ir/tiled/sort_loops.h"

#include <bit>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/bounds.h"
#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/indices.h"
#include "common/ir/tiled/loop_axes.h"
#include "common/ir/tiled/sort_items.h"

namespace common {
namespace {

constexpr int64_t kSortWarp = 32, kKeys = 256;
// Stages of longer networks are too many for a graph.
constexpr int64_t kNetworkMax = int64_t{1} << 24;

bool is_power(int64_t x) { return x > 0 && std::has_single_bit(static_cast<uint64_t>(x)); }

class SortLoopsAdder {
 public:
  SortLoopsAdder(Graph& graph, NodeId sort, bool packed)
      : nodes_(graph),
        sort_(graph, sort),
        longest_(Bounds(graph.symbols, {}).upper(sort_.length())),
        packed_(packed) {}

  Result<VisitedNode> operator()(const RankLoops& loops) {
    if (loops.places < 1 || loops.parts < 1 || loops.places % (2 * loops.parts) != 0) {
      return invalid_input("threads share no comparisons of two items each");
    }
    LFARM_ASSIGN_OR_RETURN(const SortItems keys, sort_.items(packed_));
    LoopAxes axes = line_axes();
    const auto own = static_cast<int>(axes.extents.size());
    const Expr place = axes.add(loops.places);
    axes.inside.push_back({place, sort_.length()});
    const SortItems items = sort_.read(keys, axes, place);
    // Of all pairs, the item, and the other's round, thread and number of two.
    LoopAxes pairs = line_axes();
    pairs.add(loops.places);
    const Expr round = pairs.add(loops.places / (2 * loops.parts));
    const Expr thread = pairs.add(loops.parts), second = pairs.add(2);
    const Expr other = (round * Expr(loops.parts) + thread) * Expr(2) + second;
    Indices index;
    for (int d = 0; d <= own; ++d) index.push_back(Expr::index(d));
    const SortItems one = sort_.view(items, pairs.read(index, 0));
    index.back() = other;
    const NodeId is_before =
        sort_.is_before(sort_.view(items, pairs.read(std::move(index), 0)), one);
    const NodeId count = nodes_.cast(is_before, DType::kInt64);
    const NodeId rank = nodes_.reduce(ReduceOp::kSum, count, {own + 1, own + 2, own + 3});
    return VisitedNode{items.position, sort_.places(rank, sort_.is_item(items))};
  }

  Result<VisitedNode> operator()(const NetworkLoops& loops) {
    if (!is_power(loops.chunk)) return invalid_input("a network's places are no power of two");
    int64_t count = loops.chunk;
    while (!loops.is_whole && count < longest_ && count <= kNetworkMax) count *= 2;
    if (count > kNetworkMax) return invalid_input("a network is too long");
    LFARM_ASSIGN_OR_RETURN(const SortItems keys, sort_.items(packed_));
    LoopAxes axes = line_axes();
    const Expr place = axes.add(count);
    axes.inside.push_back({place, sort_.length()});
    SortItems items = sort_.read(keys, axes, place);
    for (int64_t run = 2; run <= count; run *= 2) {
      for (int64_t step = run / 2; step > 0; step /= 2) items = stage(items, count, run, step);
    }
    // The first places are the line's.
    LoopAxes line = line_axes();
    const Expr rank = line.add(sort_.count());
    line.inside.push_back({rank, Expr(count)});
    items = sort_.read(flat(items, count), line, rank);
    const NodeId ranks = nodes_.view(nodes_.iota(sort_.count()), line.read({rank}, 0));
    return VisitedNode{items.position, sort_.places(ranks, sort_.is_item(items))};
  }

  Result<VisitedNode> operator()(const CountLoops& loops) {
    if (is_float(nodes_.dtype(sort_.node().operands[0])) || packed_) {
      return invalid_input("only integers of 8 bits are counted");
    }
    const int64_t warps = loops.threads / kSortWarp;
    if (warps < 1 || loops.counters < 1) return invalid_input("no warp counts");
    LFARM_ASSIGN_OR_RETURN(const SortItems keys, sort_.items(false));
    // Each warp's part of the line.
    const Expr part = ceil_div(sort_.length(), loops.threads) * Expr(kSortWarp);
    LoopAxes axes = line_axes();
    const auto warp_axis = static_cast<int>(axes.extents.size()), in_part = warp_axis + 1;
    const Expr warp = axes.add(warps);
    const Expr place = warp * part + axes.add(part);
    axes.inside.push_back({place, sort_.length()});
    const SortItems items = sort_.read(keys, axes, place);
    const NodeId is_item = sort_.is_item(items);
    const NodeId is_key = keys_of(items, is_item, axes.extents, warp_axis);
    const NodeId running = nodes_.scan(ScanOp::kSum, is_key, in_part + 1);
    const NodeId within = nodes_.binary(BinaryOp::kSub, running, is_key);
    const NodeId counts = nodes_.reduce(ReduceOp::kSum, is_key, {in_part + 1});
    const NodeId first = before_counters(counts, warps, loops.counters);
    const NodeId ranks = nodes_.binary(
        BinaryOp::kAdd, nodes_.widened(first, nodes_.shape(is_key), {in_part + 1}), within);
    const NodeId rank =
        nodes_.reduce(ReduceOp::kSum, nodes_.binary(BinaryOp::kMul, is_key, ranks), {warp_axis});
    return VisitedNode{items.position, sort_.places(rank, is_item)};
  }

 private:
  LoopAxes line_axes() const {
    LoopAxes axes;
    axes.add_all(sort_.lines());
    return axes;
  }
  // Items in one axis of places.
  SortItems flat(const SortItems& items, int64_t count) {
    LoopAxes axes = line_axes();
    return reshaped(items, axes, axes.add(count));
  }
  // Items at a place of the network, over axes that begin with those of lines.
  SortItems reshaped(const SortItems& items, const LoopAxes& axes, const Expr& place) {
    const Shape shape = nodes_.shape(items.key);
    const size_t lines = sort_.lines().size();
    Indices index =
        unfold({shape.begin() + static_cast<std::ptrdiff_t>(lines), shape.end()}, place);
    for (size_t d = lines; d > 0; --d) {
      index.insert(index.begin(), Expr::index(static_cast<int>(d) - 1));
    }
    return sort_.view(items, axes.read(std::move(index), 0));
  }

  // Places `step` apart are compared. Runs of `run` places go up and down in turn.
  SortItems stage(const SortItems& items, int64_t count, int64_t run, int64_t step) {
    LoopAxes axes = line_axes();
    const Expr pair = axes.add(count / (2 * step)), second = axes.add(2), within = axes.add(step);
    const auto place = [&](const Expr& which) {
      return (pair * Expr(2) + which) * Expr(step) + within;
    };
    const SortItems own = reshaped(items, axes, place(second));
    const SortItems other = reshaped(items, axes, place(Expr(1) - second));
    const Expr goes_down = mod(floor_div(pair, run / (2 * step)), 2);
    const NodeId bits = nodes_.cast(nodes_.iota(2), DType::kBool);
    const NodeId keeps_second = nodes_.view(bits, axes.read({mod(goes_down + second, 2)}, 0));
    const NodeId moves = nodes_.binary(BinaryOp::kXor, sort_.is_before(other, own), keeps_second);
    return sort_.select(moves, other, own);
  }

  // 1 where an item has a key of 8 bits, over an axis of keys before the others' from `axis` on.
  NodeId keys_of(const SortItems& items, NodeId is_item, Shape shape, int axis) {
    const DType dtype = nodes_.dtype(sort_.node().operands[0]);
    // In the order of the sort, from 0: its keys of descending sorts are negative.
    const bool is_negative = attr<SortAttr>(sort_.node()).descending;
    const double least = dtype == DType::kInt8 ? -128 : is_negative ? -kKeys : 0;
    NodeId number =
        nodes_.binary(BinaryOp::kSub, items.key, nodes_.full(DType::kInt64, shape, least));
    number = nodes_.binary(BinaryOp::kMod, number, nodes_.full(DType::kInt64, shape, kKeys));
    number = nodes_.select(is_item, number, nodes_.full(DType::kInt64, shape, -1));
    shape.insert(shape.begin() + axis, Expr(kKeys));
    const NodeId keys = nodes_.view(nodes_.iota(kKeys), {shape, {Expr::index(axis)}, {}, 0});
    const NodeId equal =
        nodes_.binary(BinaryOp::kEqual, keys, nodes_.widened(number, shape, {axis}));
    return nodes_.cast(equal, DType::kInt64);
  }

  // Of each key's counters, which are neighbours, what all counters before it have together. Those
  // that there is no memory for count as gone.
  NodeId before_counters(NodeId counts, int64_t warps, int64_t counters) {
    LoopAxes row;
    Indices index = row.add_all(sort_.lines());
    const Indices line = index;
    const Expr counter = row.add(counters);
    row.inside.push_back({counter, Expr(kKeys * warps)});
    index.push_back(floor_div(counter, warps));
    index.push_back(mod(counter, warps));
    const NodeId own = nodes_.view(counts, row.read(std::move(index), 0));
    const NodeId sums = nodes_.scan(ScanOp::kSum, own, static_cast<int>(line.size()));
    LoopAxes back;
    index = back.add_all(sort_.lines());
    const Expr key = back.add(kKeys);
    index.push_back(key * Expr(warps) + back.add(warps));
    back.inside.push_back({index.back(), Expr(counters)});
    return nodes_.view(nodes_.binary(BinaryOp::kSub, sums, own), back.read(std::move(index), 0));
  }

  NodeAdder nodes_;
  SortItemsAdder sort_;
  int64_t longest_;
  bool packed_;
};

struct Printer {
  std::string operator()(const RankLoops& loops) const {
    return cat("lines of ", loops.places, " places, each item compared with all by ", loops.parts,
               " threads");
  }
  std::string operator()(const NetworkLoops& loops) const {
    return cat("lines in a network of ", loops.is_whole ? "" : "chunks of ", loops.chunk,
               " places, runs of 2 and more merged by steps from half a run to 1");
  }
  std::string operator()(const CountLoops& loops) const {
    return cat("lines in parts by ", loops.threads / kSortWarp, " warps, which count keys in ",
               loops.counters, " counters");
  }
};

}  // namespace

std::string print(const SortLoops& loops) {
  return std::visit(Printer{}, loops.method) + (loops.packed ? "; keys of 32 bits" : "");
}

Result<LoopedNodes> looped_sort(Graph body, NodeId sort, const SortLoops& loops) {
  Graph graph = body;
  LFARM_ASSIGN_OR_RETURN(const VisitedNode visited,
                         std::visit(SortLoopsAdder(graph, sort, loops.packed), loops.method));
  return looped_nodes(std::move(body), {sort}, std::move(graph), {visited}, print(loops));
}

}  // namespace common
