#include "tests/fuzz/graphs/graph_grower.h"

#include <algorithm>
#include <cmath>

#include "common/base/contains.h"
#include "common/runtime/tensor/tensor.h"

namespace fuzz {

using common::BinaryOp;
using common::Coordinate;
using common::DType;
using common::Expr;
using common::ReduceOp;
using common::ScanOp;
using common::ScatterMode;
using common::UnaryOp;

namespace {

constexpr size_t kRankMax = 5;

size_t at(int axis) { return static_cast<size_t>(axis); }

// All axes but a matrix's two.
common::Shape leading(common::Shape shape) {
  shape.resize(shape.size() - 2);
  return shape;
}

}  // namespace

void GraphGrower::keep(NodeId id) { pool_.push_back(id); }

common::NodeId GraphGrower::some() {
  // Mostly recent nodes, so that graphs are deep and little of them is dead.
  if (pool_.size() > 4 && chance(0.7)) return pool_[pool_.size() - 1 - random_.below(4)];
  return pool_[random_.below(pool_.size())];
}

common::NodeId GraphGrower::some(const std::function<bool(NodeId)>& wanted) {
  for (int attempt = 0; attempt < 12; ++attempt) {
    NodeId x = some();
    if (wanted(x)) return x;
  }
  auto it = std::find_if(pool_.begin(), pool_.end(), wanted);
  return it == pool_.end() ? pool_.front() : *it;
}

common::NodeId GraphGrower::some_certain() {
  return some([&](NodeId x) { return tame_.is_certain(x); });
}

common::NodeId GraphGrower::some_index() {
  NodeId x =
      some([&](NodeId id) { return tame_.is_certain(id) && common::is_integer(b_.dtype(id)); });
  if (common::is_integer(b_.dtype(x))) return x;
  return tame_.cast(x, pick({DType::kInt64, DType::kInt32, DType::kInt16, DType::kUint8}));
}

common::NodeId GraphGrower::some_computable() {
  return tame_.computable(some([&](NodeId x) {
    const Numbers& n = tame_.numbers(x);
    return n.error <= 0.05 * std::max(1.0, n.bound);  // else hardly a comparison could fail
  }));
}

common::NodeId GraphGrower::as_float(NodeId x) {
  x = tame_.computable(x);
  if (common::is_float(b_.dtype(x))) return x;
  x = tame_.within(x, 100);
  return tame_.cast(x, chance(0.7) ? DType::kFloat32 : DType::kFloat64);
}

common::NodeId GraphGrower::some_float() { return as_float(some_computable()); }

common::NodeId GraphGrower::some_ordered() {
  NodeId x = some([&](NodeId id) { return tame_.numbers(id).special; });
  bool ordered = b_.dtype(x) == DType::kFloat32 || b_.dtype(x) == DType::kFloat64;
  return ordered ? x : tame_.computable(x);
}

bool GraphGrower::fits(const Shape& shape) const {
  return shape.size() <= kRankMax && tame_.most_elements(shape) <= elements_max_;
}

common::Expr GraphGrower::some_size() {
  const auto& symbols = b_.symbols();
  if (!symbols.empty() && chance(0.3)) {
    return Expr::symbol(static_cast<int>(random_.below(symbols.size())));
  }
  return chance(0.08) ? pick<int64_t>({16, 17, 40}) : pick<int64_t>({1, 1, 2, 3, 4, 5, 7});
}

common::Shape GraphGrower::some_shape(int rank_max) {
  Shape shape;
  for (int rank = below(rank_max + 1); rank > 0; --rank) shape.push_back(some_size());
  while (!fits(shape)) shape.pop_back();
  return shape;
}

std::optional<common::NodeId> GraphGrower::shaped(NodeId x, DType dtype, Shape shape) {
  if (!b_.can_expand(x, shape)) return std::nullopt;
  bool rounds = !common::is_float(dtype) && common::is_float(b_.dtype(x));
  if (rounds && !tame_.is_certain(x)) return std::nullopt;
  x = tame_.cast(x, dtype);
  return tame_.view(x, *common::view_expand(b_.shape(x), shape));
}

common::NodeId GraphGrower::partner(NodeId x, bool certain) {
  for (int attempt = 0; attempt < 12; ++attempt) {
    NodeId y = some();
    auto shape = b_.broadcast(b_.shape(x), b_.shape(y));
    if (y == x || !shape || !fits(*shape) || (certain && !tame_.is_certain(y))) continue;
    bool rounds = !common::is_float(b_.dtype(x)) && common::is_float(b_.dtype(y));
    if (rounds && !tame_.is_certain(y)) continue;
    return tame_.cast(tame_.computable(y), b_.dtype(x));
  }
  if (b_.rank(x) > 0 && chance(0.5)) {  // its own mirror image
    int axis = below(b_.rank(x));
    Expr size = b_.shape(x)[at(axis)];
    return tame_.view(x, common::view_slice(b_.shape(x), axis, size - 1, size, -1));
  }
  return tame_.scalar(b_.dtype(x), b_.dtype(x) == DType::kBool ? 1 : pick({0.0, 1.0, 2.0, 3.0}));
}

void GraphGrower::grow() {
  switch (below(25)) {
    case 0:
    case 1:
      return grow_unary();
    case 2:
    case 3:
      return grow_binary();
    case 4:
      return grow_comparison();
    case 5:
      return grow_select();
    case 6:
      return grow_cast();
    case 7:
    case 8:
      return grow_reduce();
    case 9:
      return grow_scan();
    case 10:
      return grow_position();
    case 11:
      return grow_gather();
    case 12:
      return grow_scatter();
    case 13:
      return chance(0.5) ? grow_product() : grow_contract();
    case 14:
      return grow_structure();
    case 15:
      return chance(0.3) ? grow_layers() : grow_source();
    case 16:
      return grow_draw();
    default:
      return grow_view();
  }
}

void GraphGrower::grow_unary() {
  NodeId x = some_computable();
  DType dtype = b_.dtype(x);
  if (dtype == DType::kBool) return keep(tame_.unary(UnaryOp::kNot, x));
  if (!common::is_float(dtype)) {
    return keep(
        tame_.unary(pick({UnaryOp::kNeg, UnaryOp::kAbs, UnaryOp::kSign, UnaryOp::kNot}), x));
  }
  for (int attempt = 0; attempt < 8; ++attempt) {
    auto op = static_cast<UnaryOp>(below(common::kUnaryOpCount));
    bool jumps = op == UnaryOp::kSign || op == UnaryOp::kFloor || op == UnaryOp::kCeil ||
                 op == UnaryOp::kTrunc || op == UnaryOp::kRound;
    if (op == UnaryOp::kNot || (jumps && !tame_.is_certain(x))) continue;
    return keep(tame_.unary(op, x));
  }
}

void GraphGrower::grow_binary() {
  if (chance(0.1)) {
    NodeId x = some_ordered();
    return keep(tame_.binary(pick({BinaryOp::kMin, BinaryOp::kMax}), x, partner(x, false)));
  }
  NodeId x = some_computable();
  DType dtype = b_.dtype(x);
  for (int attempt = 0; attempt < 8; ++attempt) {
    auto op = static_cast<BinaryOp>(below(static_cast<int>(BinaryOp::kLess)));
    bool bitwise = op >= BinaryOp::kAnd && op <= BinaryOp::kShr;
    bool for_floats = op == BinaryOp::kAtan2 || op == BinaryOp::kCopysign ||
                      op == BinaryOp::kHypot || op == BinaryOp::kNextafter;
    bool jumps = op == BinaryOp::kFloorDiv || op == BinaryOp::kMod || op == BinaryOp::kFmod;
    bool is_float = common::is_float(dtype);
    if (is_float ? bitwise : for_floats) continue;
    if (dtype == DType::kBool && !bitwise && op != BinaryOp::kMin && op != BinaryOp::kMax) continue;
    if (is_float && jumps && !tame_.is_certain(x)) continue;
    NodeId y = partner(x, is_float && jumps);
    if (chance(0.3)) std::swap(x, y);
    if (is_float && jumps && !(tame_.is_certain(x) && tame_.is_certain(y))) continue;
    return keep(tame_.binary(op, x, y));
  }
}

void GraphGrower::grow_comparison() {
  NodeId x = some_certain();
  if (common::is_half(b_.dtype(x))) x = tame_.computable(x);
  NodeId y = partner(x, true);
  if (!tame_.is_certain(x) || !tame_.is_certain(y)) return;
  keep(tame_.binary(
      pick({BinaryOp::kLess, BinaryOp::kLessEqual, BinaryOp::kEqual, BinaryOp::kNotEqual}), x, y));
}

void GraphGrower::grow_select() {
  NodeId c = some_certain();
  if (b_.dtype(c) != DType::kBool) c = tame_.cast(c, DType::kBool);
  NodeId x = some();
  auto both = b_.broadcast(b_.shape(c), b_.shape(x));
  if (!both || !fits(*both)) x = tame_.cast(c, DType::kBfloat16);
  NodeId y = tame_.cast(partner(x, !common::is_float(b_.dtype(x))), b_.dtype(x));
  auto branches = b_.broadcast(b_.shape(x), b_.shape(y));
  if (!branches || !b_.broadcast(*branches, b_.shape(c))) y = x;
  auto all = b_.broadcast(b_.shape(c), y == x ? b_.shape(x) : *branches);
  if (!all || !fits(*all)) return;
  keep(chance(0.5) ? tame_.select(c, x, y) : tame_.select(c, y, x));
}

void GraphGrower::grow_cast() {
  NodeId x = some();
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto to = static_cast<DType>(below(static_cast<int>(DType::kComplex64)));
    bool rounds = !common::is_float(to) && common::is_float(b_.dtype(x));
    if (to == b_.dtype(x) || (rounds && !tame_.is_certain(x))) continue;
    return keep(tame_.cast(x, to));
  }
}

void GraphGrower::grow_reduce() {
  bool ordered = chance(0.2);
  NodeId x = ordered ? some_ordered() : some_computable();
  std::vector<int> axes;
  for (int k = 0; k < b_.rank(x); ++k) {
    if (chance(0.5)) axes.push_back(k);
  }
  if (axes.empty()) return;
  ReduceOp op = b_.dtype(x) == DType::kBool
                    ? pick({ReduceOp::kAny, ReduceOp::kAll})
                    : pick({ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin});
  if (ordered && b_.dtype(x) != DType::kBool) op = pick({ReduceOp::kMax, ReduceOp::kMin});
  keep(tame_.reduce(op, x, axes, chance(0.5)));
}

void GraphGrower::grow_scan() {
  bool ordered = chance(0.2);
  NodeId x = ordered ? some_ordered() : some_computable();
  if (b_.rank(x) == 0 || b_.dtype(x) == DType::kBool) return;
  ScanOp op = pick({ScanOp::kSum, ScanOp::kProd, ScanOp::kMax, ScanOp::kMin, ScanOp::kLogSumExp});
  if (ordered) op = pick({ScanOp::kMax, ScanOp::kMin});
  if (op == ScanOp::kLogSumExp) x = as_float(x);
  keep(tame_.scan(op, x, below(b_.rank(x))));
}

void GraphGrower::grow_position() {
  NodeId x = some([&](NodeId id) { return tame_.is_certain(id) && b_.rank(id) > 0; });
  if (!tame_.is_certain(x) || b_.rank(x) == 0) return;
  int axis = below(b_.rank(x));
  if (chance(0.4)) {
    const Expr length = b_.shape(x)[at(axis)];
    auto n = Numbers{static_cast<double>(tame_.most(length)), 0, 0, false};
    const bool selects = length.is_constant() && length.constant() > 0 && chance(0.3);
    const int64_t count = selects ? 1 + below(static_cast<int>(length.constant())) : 0;
    return keep(tame_.declare(b_.sort_indices(x, axis, chance(0.5), count), n));
  }
  if (common::is_half(b_.dtype(x))) x = tame_.computable(x);
  if (!tame_.is_certain(x)) return;
  keep(tame_.reduce(pick({ReduceOp::kArgmax, ReduceOp::kArgmin}), x, {axis}, chance(0.5)));
}

void GraphGrower::grow_draw() {
  NodeId x = some_index();
  if (!tame_.is_certain(x)) return;
  x = tame_.cast(tame_.within(x, 64), DType::kInt64);
  NodeId y = chance(0.5) ? x : tame_.scalar(DType::kInt64, below(8));
  NodeId word = chance(0.3) ? x : tame_.scalar(DType::kInt64, below(4));
  DType dtype = pick({DType::kInt64, DType::kFloat32});
  // A uniform number is a multiple of 2^-33, see philox_uniform.
  Numbers n = dtype == DType::kInt64 ? Numbers{0x1p32, 0, 0, false} : Numbers{1, 0, 33, false};
  keep(tame_.declare(b_.philox(dtype, tame_.scalar(DType::kInt64, below(100)), y, x, word), n));
}

common::Coordinate GraphGrower::inside(const Shape& over, const Expr& size, int slots) {
  if (slots > 0 && chance(0.6)) return {below(slots), {}};
  if (!over.empty() && chance(0.8)) {
    int axis = below(static_cast<int>(over.size()));
    Expr index = Expr::index(axis);
    if (over[at(axis)] == size && chance(0.5)) return {-1, index};
    if (chance(0.5)) return {-1, common::min(index, size - 1)};
    return {-1, common::mod(index * pick<int64_t>({1, 2, 3}) + pick<int64_t>({0, 1, 5}), size)};
  }
  return {-1, chance(0.5) ? Expr(0) : size - 1};
}

void GraphGrower::grow_gather() {
  NodeId data = some([&](NodeId id) { return b_.rank(id) > 0; });
  for (const Expr& size : b_.shape(data)) {
    if (b_.bounds().lower(size) < 1) return;  // nothing to read
  }
  NodeId first = some_index();
  if (!tame_.is_certain(first)) return;
  Shape shape = b_.shape(first);
  if (chance(0.3)) {  // broadcast along a new leading axis
    shape.insert(shape.begin(), some_size());
    if (!fits(shape)) return;
  }
  std::vector<NodeId> indices{first};
  if (chance(0.4)) {
    NodeId second = some_index();
    if (tame_.is_certain(second) && b_.can_expand(second, shape)) indices.push_back(second);
  }
  std::vector<Coordinate> coordinates;
  for (const Expr& size : b_.shape(data)) {
    coordinates.push_back(inside(shape, size, static_cast<int>(indices.size())));
  }
  keep(tame_.declare(b_.gather(data, indices, shape, coordinates), tame_.numbers(data)));
}

void GraphGrower::grow_scatter() {
  auto mode = static_cast<ScatterMode>(below(common::kScatterModeCount));
  NodeId base = mode == ScatterMode::kAssign ? some() : some_computable();
  if (b_.rank(base) == 0 && chance(0.9)) return;
  NodeId index = some_index();
  if (!tame_.is_certain(index)) return;
  if (chance(0.7)) index = tame_.within(index, 6);
  const Shape shape = b_.shape(index);
  std::optional<NodeId> updates;
  for (int attempt = 0; attempt < 6 && !updates; ++attempt) {
    updates =
        shaped(mode == ScatterMode::kAssign ? some() : some_computable(), b_.dtype(base), shape);
  }
  if (!updates) updates = shaped(tame_.scalar(b_.dtype(base), 1), b_.dtype(base), shape);
  std::vector<Coordinate> coordinates;
  for (const Expr& size : b_.shape(base)) {
    bool known = !shape.empty() && chance(0.4);
    if (known) {  // now and then outside, where it is dropped
      int axis = below(static_cast<int>(shape.size()));
      coordinates.push_back({-1, Expr::index(axis) + pick<int64_t>({0, 0, 0, 1, -1})});
    } else {
      coordinates.push_back(chance(0.9) ? Coordinate{0, {}} : Coordinate{-1, size - 1});
    }
  }
  keep(tame_.scatter(mode, base, *updates, {index}, coordinates));
}

void GraphGrower::grow_product() {
  NodeId x = some_computable();
  if (b_.dtype(x) == DType::kBool) x = tame_.cast(x, DType::kInt32);
  if (b_.rank(x) == 0) return;
  if (b_.rank(x) == 1) x = tame_.view(x, common::view_unsqueeze(b_.shape(x), 0));
  NodeId y = some([&](NodeId id) {
    return b_.rank(id) >= 2 && b_.shape(id)[at(b_.rank(id) - 2)] == b_.shape(x).back();
  });
  bool matches = b_.rank(y) >= 2 && b_.shape(y)[at(b_.rank(y) - 2)] == b_.shape(x).back() &&
                 (common::is_float(b_.dtype(x)) || tame_.is_certain(y));
  if (matches) {
    matches = b_.broadcast(leading(b_.shape(x)), leading(b_.shape(y))).has_value();
  }
  if (!matches) {
    std::vector<int> order(at(b_.rank(x)));
    for (int k = 0; k < b_.rank(x); ++k) order[at(k)] = k;
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    y = tame_.view(x, common::view_permute(b_.shape(x), order));
  }
  y = tame_.cast(tame_.computable(y), b_.dtype(x));
  x = tame_.within(x, 64);
  y = tame_.within(y, 64);
  Shape full = *b_.broadcast(leading(b_.shape(x)), leading(b_.shape(y)));
  full.insert(full.end(),
              {b_.shape(x)[at(b_.rank(x) - 2)], b_.shape(y).back(), b_.shape(x).back()});
  if (tame_.most_elements(full) > 4 * elements_max_ || full.size() > kRankMax + 1) return;
  keep(tame_.matmul(x, y));
}

void GraphGrower::grow_contract() {
  NodeId x = some_float();
  NodeId y = some_float();
  x = tame_.within(x, 64);
  y = tame_.within(y, 64);
  if (chance(0.2)) x = tame_.cast(x, pick({DType::kFloat16, DType::kBfloat16}));
  if (chance(0.2)) y = tame_.cast(y, pick({DType::kFloat16, DType::kBfloat16}));
  common::ContractAttr labels;
  Shape full = b_.shape(x);
  for (int k = 0; k < b_.rank(x); ++k) labels.a.push_back(k);
  for (int k = 0; k < b_.rank(y); ++k) {
    Expr size = b_.shape(y)[at(k)];
    int label = static_cast<int>(full.size());
    for (int other = 0; other < b_.rank(x); ++other) {
      bool taken = common::contains(labels.b, other);
      if (full[at(other)] == size && !taken && chance(0.7)) label = other;
    }
    if (label == static_cast<int>(full.size())) full.push_back(size);
    labels.b.push_back(label);
  }
  for (int label = 0; label < static_cast<int>(full.size()); ++label) {
    if (chance(0.6))
      labels.out.insert(labels.out.begin() + below(static_cast<int>(labels.out.size()) + 1), label);
  }
  Shape out;
  for (int label : labels.out) out.push_back(full[at(label)]);
  if (tame_.most_elements(full) > 4 * elements_max_ || !fits(out)) return;
  keep(tame_.contract(x, y, labels));
}

void GraphGrower::grow_structure() {
  NodeId x = some_float();
  if (b_.rank(x) == 0) return;
  if (chance(0.5)) return keep(tame_.softmax(x, below(b_.rank(x)), chance(0.4)));
  const Shape row = b_.shape(x);
  const Expr points = row.back();
  if (points.is_constant() && points.constant() > 0 && points.constant() <= 4096 && chance(0.3)) {
    int64_t count = 1 + below(static_cast<int>(points.constant()));
    return keep(tame_.fourier(x, {chance(0.5), chance(0.5), count}));
  }
  keep(tame_.norm(x, 1 + below(b_.rank(x)), chance(0.5)));
}

// The same few operations one after the other, which the farm rolls into a loop.
void GraphGrower::grow_layers() {
  NodeId x = tame_.within(some_float(), 4);
  NodeId y = partner(x, false);
  if (b_.broadcast(b_.shape(x), b_.shape(y)) != b_.shape(x)) return;
  for (int layers = 3 + below(3); layers > 0; --layers) {
    NodeId scaled = tame_.binary(BinaryOp::kMul, x, y);
    x = tame_.unary(UnaryOp::kTanh,
                    tame_.binary(BinaryOp::kAdd, scaled, tame_.scalar(b_.dtype(x), 0.5)));
  }
  keep(x);
}

void GraphGrower::grow_source() {
  if (chance(0.5)) {
    Expr length = some_size() + (chance(0.3) ? some_size() : Expr(0));
    DType dtype = pick({DType::kInt64, DType::kInt32, DType::kUint8, DType::kInt8, DType::kInt16,
                        DType::kFloat32, DType::kFloat64});
    Numbers n{static_cast<double>(tame_.most(length)), 0, 0, false};
    return keep(tame_.declare(b_.iota(dtype, length), n));
  }
  if (chance(0.3)) {
    Expr size = some_size() * some_size() + 1;
    Numbers n{static_cast<double>(tame_.most(size)), 0, 0, false};
    return keep(tame_.declare(b_.size_scalar(pick({DType::kInt64, DType::kFloat32}), size), n));
  }
  auto dtype = static_cast<DType>(below(static_cast<int>(DType::kComplex64)));
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (int rank = below(4); rank > 0; --rank) {
    sizes.push_back(1 + below(4));
    count *= sizes.back();
  }
  common::HostTensor values = common::HostTensor::zeros(dtype, sizes).value();
  for (int64_t i = 0; i < count; ++i) {
    if (common::is_float(dtype)) values.set(i, static_cast<double>(below(65) - 32) / 8);
    if (!common::is_float(dtype)) values.set_int(i, below(dtype == DType::kBool ? 2 : 8));
  }
  common::Bytes data(values.bytes().begin(), values.bytes().end());
  Numbers n{dtype == DType::kBool ? 1.0 : 7.0, 0, common::is_float(dtype) ? 3 : 0, false};
  keep(tame_.declare(b_.constant(dtype, sizes, std::move(data)), n));
}

}  // namespace fuzz
