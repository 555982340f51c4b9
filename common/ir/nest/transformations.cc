#include "common/ir/nest/transformations.h"

#include <utility>

#include "common/ir/nest/output_groups.h"

namespace common {
namespace {

Result<LoopNest> verified(LoopNest nest, const Graph& body) {
  LFARM_RETURN_IF_ERROR(verify(nest, body));
  return nest;
}

Status verify_band_of(const LoopNest& nest, BandOf band) {
  if (band.group >= -1 && band.group < static_cast<int>(nest.groups.size())) return {};
  return invalid_input("there is no such group of outputs");
}

Result<LoopNest> with_band(LoopNest nest, const Graph& body, BandOf band,
                           std::optional<LoopBand> changed, const char* what) {
  if (!changed) return invalid_input(what);
  band.in(nest) = std::move(*changed);
  return verified(std::move(nest), body);
}

}  // namespace

LoopNest plain_loops(const Graph& body) {
  std::vector<OutputGroup> groups = group_outputs(body);
  auto cut = static_cast<std::ptrdiff_t>(shared_axes(groups));
  LoopNest nest;
  const Shape& first = groups[0].shape;
  nest.shared = plain_band(Shape(first.begin(), first.begin() + cut));
  for (const OutputGroup& g : groups) {
    nest.groups.push_back({plain_band(Shape(g.shape.begin() + cut, g.shape.end())), {}});
  }
  return nest;
}

LoopBand& BandOf::in(LoopNest& nest) const {
  return group < 0 ? nest.shared : nest.groups[static_cast<size_t>(group)].own;
}

const LoopBand& BandOf::in(const LoopNest& nest) const {
  return group < 0 ? nest.shared : nest.groups[static_cast<size_t>(group)].own;
}

Result<LoopNest> split(const LoopNest& nest, const Graph& body, BandOf band, size_t loop,
                       const Expr& by) {
  LFARM_RETURN_IF_ERROR(verify_band_of(nest, band));
  return with_band(nest, body, band, split_loop(band.in(nest), loop, by),
                   "the loop is not there, or its steps are no multiple of the inner loop's");
}

Result<LoopNest> fuse(const LoopNest& nest, const Graph& body, BandOf band, size_t loop) {
  LFARM_RETURN_IF_ERROR(verify_band_of(nest, band));
  return with_band(nest, body, band, fuse_loops(band.in(nest), loop),
                   "there is no loop within that one");
}

Result<LoopNest> reorder(const LoopNest& nest, const Graph& body, BandOf band,
                         const std::vector<size_t>& order) {
  LFARM_RETURN_IF_ERROR(verify_band_of(nest, band));
  return with_band(nest, body, band, reorder_loops(band.in(nest), order),
                   "the order does not name every loop once");
}

Result<LoopNest> bind_grid(const LoopNest& nest, const Graph& body, size_t loops, bool blocks) {
  LoopNest bound = nest;
  bound.grid = loops;
  bound.blocks_in_grid = blocks;
  return verified(std::move(bound), body);
}

Result<LoopNest> block(const LoopNest& nest, const Graph& body, int group, size_t before,
                       int64_t width) {
  if (group < 0 || group >= static_cast<int>(nest.groups.size())) {
    return invalid_input("there is no such group of outputs");
  }
  LoopNest blocked = nest;
  blocked.groups[static_cast<size_t>(group)].accumulators = AccumulatorBlock{before, width};
  return verified(std::move(blocked), body);
}

Result<LoopNest> transpose(const LoopNest& nest, const Graph& body) {
  LoopNest transposed = nest;
  transposed.transposed = true;
  return verified(std::move(transposed), body);
}

Result<LoopNest> cut_squares(const LoopNest& nest, const Graph& body, size_t row, int64_t rows,
                             int64_t columns) {
  size_t loops = nest.shared.extents.size();
  if (row + 1 >= loops) return invalid_input("there is no loop within the square's rows");
  auto band = split_loop(nest.shared, loops - 1, columns);
  if (band) band = split_loop(*band, row, rows);
  if (!band) return invalid_input("these loops are not made of whole squares");
  std::vector<size_t> order;
  for (size_t k = 0; k < band->extents.size(); ++k) {
    if (k != row + 1) order.push_back(k);
  }
  order.insert(order.end() - 1, row + 1);
  LoopNest squares = nest;
  squares.shared = reorder_loops(*band, order).value();
  squares.grid = squares.shared.extents.size() - 2;
  squares.transposed = true;
  return verified(std::move(squares), body);
}

Result<LoopNest> vectorise(const LoopNest& nest, const Graph& body, int64_t width, int64_t unroll) {
  LoopNest vectorised = nest;
  vectorised.simd = width;
  vectorised.unroll = unroll;
  return verified(std::move(vectorised), body);
}

Result<LoopNest> fuse_reductions(const LoopNest& nest, const Graph& body, NodeId first,
                                 NodeId other) {
  LoopNest fused = nest;
  fused.reductions.fused[first].push_back(other);
  return verified(std::move(fused), body);
}

Result<LoopNest> flatten(const LoopNest& nest, const Graph& body, NodeId reduction) {
  LoopNest flat = nest;
  flat.reductions.flat.insert(reduction);
  return verified(std::move(flat), body);
}

Result<LoopNest> stage(const LoopNest& nest, const Graph& body, NodeId node) {
  LoopNest staged = nest;
  staged.reductions.staged.insert(node);
  return verified(std::move(staged), body);
}

Result<LoopNest> walk(const LoopNest& nest, const Graph& body, NodeId reduction) {
  LoopNest walked = nest;
  walked.reductions.walked.insert(reduction);
  return verified(std::move(walked), body);
}

Result<LoopNest> bind_threads(const LoopNest& nest, const Graph& body, const ThreadGroup& threads) {
  LoopNest bound = nest;
  bound.threads = threads;
  return verified(std::move(bound), body);
}

}  // namespace common
