#include "common/schedule/tile_shape.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/divide_up.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/grouped_form.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/body/exchanged_sums.h"
#include "common/lowering/body/half_operands.h"

namespace common {
namespace {

// Thread instructions, counted in machine code for sm_90a: of a load with its address, of a
// function, of a division, and of all else.
constexpr double kLoad = 3, kFunction = 20, kDivision = 10, kSimple = 1;
constexpr int64_t kChunk = 8;          // elements of 16 bytes
constexpr int64_t kStepChannels = 64;  // of a step of blocks that keep patches

// Adds up what an element of a node takes, down to inputs and to contractions.
class Count {
 public:
  // `columns`: of the product, where elements of results are counted; 0: of an operand.
  Count(const Graph& body, const std::vector<int64_t>& symbols, double columns = 0)
      : body_(body), symbols_(symbols), columns_(columns) {}

  // A value that several nodes read at the same place is computed once; `place` names the last node
  // that changed it.
  void add(NodeId id, NodeId place, double times) {
    const Node& node = body_.node(id);
    if (node.op == Op::kContract || !seen_.insert({id, place}).second) return;
    switch (node.op) {
      case Op::kConstant:
      case Op::kIota:
        return;
      case Op::kInput:
        if (is_of_columns(node)) return;
        work_.loads += times;
        work_.load_bytes += times * static_cast<double>(dtype_size(node.dtype));
        work_.instructions += times * kLoad;
        return;
      case Op::kReduce: {
        double steps = count_elements(body_.node(node.operands[0]).shape, symbols_) /
                       std::max(1.0, count_elements(node.shape, symbols_));
        work_.instructions += times * steps * kSimple;
        return add(node.operands[0], id, times * steps);
      }
      case Op::kView:
      case Op::kGather:
        place = id;
        if (is_condition(node)) work_.instructions += times * kSimple;
        break;
      default:
        add_operation(node, times);
    }
    for (NodeId operand : node.operands) add(operand, place, times);
  }

  ElementWork work() const { return work_; }

 private:
  // A thread stays in its columns, and reads what belongs to them once.
  bool is_of_columns(const Node& node) const {
    return columns_ > 1 && count_elements(node.shape, symbols_) <= columns_;
  }
  static bool is_condition(const Node& node) {
    return node.op == Op::kView && !attr<ViewAttr>(node).view.valid.empty();
  }

  // Of a value that is rounded to bfloat16 just before, whose bits are those of the float32
  // already.
  bool widens_rounded(const Node& node) const {
    if (node.op != Op::kCast || node.dtype != DType::kFloat32) return false;
    const Node& rounded = body_.node(node.operands[0]);
    return rounded.op == Op::kCast && rounded.dtype == DType::kBfloat16;
  }

  void add_operation(const Node& node, double times) {
    if (widens_rounded(node)) return;
    bool is_division = node.op == Op::kBinary && attr<BinaryAttr>(node).op == BinaryOp::kDiv;
    bool is_function = node.op == Op::kUnary && attr<UnaryAttr>(node).op > UnaryOp::kNot;
    work_.has_calls = work_.has_calls || is_division || is_function;
    work_.instructions += times * (is_function ? kFunction : is_division ? kDivision : kSimple);
  }

  const Graph& body_;
  const std::vector<int64_t>& symbols_;
  double columns_;
  std::set<std::pair<NodeId, NodeId>> seen_;
  ElementWork work_;
};

// The share of an axis' taps, over all its windows, that read a pixel.
double inside_of(const WindowOperand::Axis& axis, const std::vector<int64_t>& symbols) {
  const int64_t size = axis.size.evaluate(symbols);
  const int64_t count = std::max<int64_t>(1, axis.count.evaluate(symbols));
  int64_t inside = 0;
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    // Windows w with 0 <= start + step * w < size.
    const int64_t start = axis.first + axis.dilation * tap, step = std::max<int64_t>(1, axis.step);
    const int64_t first = start >= 0 ? 0 : divide_up(-start, step);
    const int64_t last = start >= size ? 0 : divide_up(size - start, step);
    inside += std::max<int64_t>(0, std::min(count, last) - first);
  }
  return static_cast<double>(inside) / static_cast<double>(count * axis.taps);
}

bool is_within(const Expr& size, int64_t least, int64_t most) {
  return size.is_constant() && size.constant() >= least && size.constant() <= most;
}

}  // namespace

bool suits_tensor_cores(const Contraction& c, Side few) {
  constexpr int64_t kMost = 16;
  Side many = few == Side::kLeft ? Side::kRight : Side::kLeft;
  DType dtype = c.operand_dtype(few);
  return is_within(c.own_size(few), 2, kMost) && is_half(dtype) && c.operand_dtype(many) == dtype &&
         c.node().dtype == DType::kFloat32 && c.runs_along_k(many) &&
         c.reads_chunks(few, true, kChunk) && c.reads_chunks(many, true, kChunk);
}

bool is_few(const Contraction& c, Side side) {
  constexpr int64_t kMost = 4;
  return is_within(c.own_size(side), 1, kMost) || suits_tensor_cores(c, side);
}

std::optional<TileShape> tile_shape(const Contraction& c, const std::vector<int64_t>& symbols) {
  DType half = c.operand_dtype(Side::kLeft);
  if (!is_half(half) || c.operand_dtype(Side::kRight) != half) return std::nullopt;
  bool is_grouped = c.group() != nullptr;
  if (!is_grouped && (is_few(c, Side::kLeft) || is_few(c, Side::kRight))) return std::nullopt;
  auto size = [&](const Expr& e) { return std::max<int64_t>(1, e.evaluate(symbols)); };
  TileShape shape;
  shape.batch = size(c.batch_size());
  shape.rows = size(c.problem().m_size);
  shape.columns = size(c.problem().n_size);
  shape.steps = size(c.problem().k_size);
  double inside = 1;
  if (const auto windows = window_operand(c)) {
    for (const WindowOperand::Axis& axis : windows->axes) {
      shape.taps *= axis.taps;
      shape.has_windows = shape.has_windows || axis.taps > 1 || axis.step > 1;
      inside *= inside_of(axis, symbols);
    }
    if (shape.taps > 1 && windows->channels % kStepChannels == 0) {
      shape.grid = window_grid(*windows);
    }
  }
  for (Side side : {Side::kLeft, Side::kRight}) {
    TileOperand& operand = side == Side::kLeft ? shape.left : shape.right;
    operand.is_copied = c.reads_chunks(side, c.runs_along_k(side), kChunk);
    if (operand.is_copied) continue;
    Count count(c.body(), symbols);
    count.add(c.operand(side), -1, 1);
    operand.element = count.work();
    if (side == Side::kLeft) operand.element.load_bytes *= inside;
  }
  Count count(c.body(), symbols, static_cast<double>(shape.columns));
  shape.result_bytes = 0;
  for (const GraphOutput& output : c.body().outputs) {
    count.add(output.node, -1, 1);
    shape.result_bytes += static_cast<double>(dtype_size(c.body().node(output.node).dtype));
  }
  shape.result = count.work();
  if (auto type = exchanged_sums(c)) shape.sum_bytes = dtype_size(*type);
  return shape;
}

std::optional<TileShape> tile_shape(const PairedProducts& pair,
                                    const std::vector<int64_t>& symbols) {
  auto first = tile_shape(Contraction(pair.body, pair.first), symbols);
  auto shape = tile_shape(Contraction(pair.body, pair.second), symbols);
  if (!first || !shape) return std::nullopt;
  shape->steps += first->steps;
  shape->has_windows = shape->has_windows || first->has_windows;
  shape->is_pair = true;
  return shape;
}

std::optional<TileShape> tile_shape(const Graph& body, const std::vector<int64_t>& symbols) {
  Graph lowered = lower_structure(body, Kept::kContractions);
  if (has_row_order(lowered)) return std::nullopt;
  if (auto pair = paired_products(lowered)) return tile_shape(*pair, symbols);
  NodeId product = only_contraction(lowered);
  if (product < 0) return std::nullopt;
  const Graph narrow = with_half_operands(lowered, product);
  return tile_shape(Contraction(narrow, only_contraction(narrow)), symbols);
}

}  // namespace common
