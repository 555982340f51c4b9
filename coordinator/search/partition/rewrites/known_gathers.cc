#include "coordinator/search/partition/rewrites/known_gathers.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/ir/hlir/builder.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::DType;
using common::Expr;
using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;
using common::UnaryOp;

using Numbers = std::vector<double>;

// Longer lists of positions are left to gathers.
constexpr int64_t kCountMax = 65536;
// Positions that rise by p in every q steps: of larger q tables are as good.
constexpr size_t kStepsMax = 64;
// Numbers that doubles and 64-bit integers tell apart alike.
constexpr double kWholeMax = 1e15;

// Computed values of at most one axis that follow from counting, element by element.
class KnownNumbers {
 public:
  explicit KnownNumbers(const Graph& graph) : graph_(graph) {}

  // Null where the value depends on data, or is none of the kinds that positions are made of.
  const Numbers* find(NodeId id) {
    auto known = found_.find(id);
    if (known == found_.end()) known = found_.emplace(id, compute(graph_.node(id))).first;
    return known->second ? &*known->second : nullptr;
  }

 private:
  static std::optional<size_t> count(const common::Shape& shape) {
    if (shape.size() > 1) return std::nullopt;
    if (shape.empty()) return 1;
    bool is_short = shape[0].is_constant() && shape[0].constant() <= kCountMax;
    return is_short ? std::optional(static_cast<size_t>(shape[0].constant())) : std::nullopt;
  }

  std::optional<Numbers> compute(const Node& node) {
    auto size = count(node.shape);
    bool is_number = node.dtype == DType::kFloat32 || node.dtype == DType::kFloat64 ||
                     node.dtype == DType::kInt32 || node.dtype == DType::kInt64;
    if (!size || !is_number) return std::nullopt;
    Numbers numbers(*size);
    if (node.op == Op::kIota) {
      for (size_t k = 0; k < *size; ++k) numbers[k] = static_cast<double>(k);
      return numbers;
    }
    if (node.op == Op::kConstant) {
      auto value = common::uniform_constant(node);
      if (!value) return std::nullopt;
      numbers.assign(*size, *value);
      return rounded(std::move(numbers), node.dtype);
    }
    std::vector<const Numbers*> operands;
    for (NodeId operand : node.operands) {
      operands.push_back(find(operand));
      if (operands.back() == nullptr) return std::nullopt;
    }
    for (size_t k = 0; k < *size; ++k) {
      auto number = element(node, operands, k);
      if (!number) return std::nullopt;
      numbers[k] = *number;
    }
    return rounded(std::move(numbers), node.dtype);
  }

  static std::optional<double> element(const Node& node, const std::vector<const Numbers*>& from,
                                       size_t k) {
    switch (node.op) {
      case Op::kView: {
        const common::View& view = attr<common::ViewAttr>(node).view;
        if (!view.valid.empty()) return std::nullopt;
        const int64_t indices[] = {static_cast<int64_t>(k)};
        int64_t at = view.index.empty() ? 0 : view.index[0].evaluate({}, indices);
        return from[0]->at(static_cast<size_t>(at));
      }
      case Op::kCast:
        return common::is_float(node.dtype) ? (*from[0])[k] : std::trunc((*from[0])[k]);
      case Op::kUnary:
        return unary(attr<common::UnaryAttr>(node).op, (*from[0])[k]);
      case Op::kBinary:
        return binary(node, (*from[0])[k], (*from[1])[k]);
      default:
        return std::nullopt;
    }
  }

  static std::optional<double> unary(UnaryOp op, double x) {
    switch (op) {
      case UnaryOp::kNeg:
        return -x;
      case UnaryOp::kFloor:
        return std::floor(x);
      case UnaryOp::kCeil:
        return std::ceil(x);
      case UnaryOp::kTrunc:
        return std::trunc(x);
      default:
        return std::nullopt;
    }
  }

  static std::optional<double> binary(const Node& node, double x, double y) {
    switch (attr<common::BinaryAttr>(node).op) {
      case BinaryOp::kAdd:
        return x + y;
      case BinaryOp::kSub:
        return x - y;
      case BinaryOp::kMul:
        return x * y;
      case BinaryOp::kDiv:
        if (y == 0) return std::nullopt;
        return common::is_float(node.dtype) ? x / y : std::trunc(x / y);
      case BinaryOp::kFloorDiv:
        return y == 0 ? std::nullopt : std::optional(std::floor(x / y));
      case BinaryOp::kMin:
        return std::min(x, y);
      case BinaryOp::kMax:
        return std::max(x, y);
      default:
        return std::nullopt;
    }
  }

  // Empty where a number is beyond what the type, or this way to compute, holds.
  static std::optional<Numbers> rounded(Numbers numbers, DType dtype) {
    const double most = dtype == DType::kInt32 ? double{INT32_MAX} : kWholeMax;
    for (double& number : numbers) {
      if (!(std::abs(number) <= most)) return std::nullopt;
      if (dtype == DType::kFloat32) number = static_cast<float>(number);
    }
    return numbers;
  }

  const Graph& graph_;
  std::unordered_map<NodeId, std::optional<Numbers>> found_;
};

// Where a gather reads, for the positions that are known.
class KnownPositions {
 public:
  explicit KnownPositions(const Graph& graph) : graph_(graph), numbers_(graph) {}

  // The position of one axis of `size` elements over the gather's loop indices.
  std::optional<Expr> find(NodeId index, const Expr& size) {
    if (!size.is_constant() || size.constant() < 1) return std::nullopt;
    Expr at = graph_.node(index).shape.empty() ? Expr(0) : Expr::index(0);
    if (graph_.node(index).op == Op::kView) {
      const common::View& view = attr<common::ViewAttr>(graph_.node(index)).view;
      if (!view.valid.empty() || view.index.size() > 1) return std::nullopt;
      at = view.index.empty() ? Expr(0) : view.index[0];
      index = graph_.node(index).operands[0];
    }
    const Numbers* numbers = numbers_.find(index);
    if (numbers == nullptr || numbers->empty()) return std::nullopt;
    std::vector<int64_t> positions;
    for (double number : *numbers) {
      positions.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(number), 0, size.constant() - 1));
    }
    return expression_of(positions, at);
  }

 private:
  const Graph& graph_;
  KnownNumbers numbers_;
};

// `node`, a gather, with the copies of its operands: it reads `places` where they are known, one an
// axis.
NodeId put(common::GraphBuilder& builder, const Node& node,
           const std::vector<std::optional<Expr>>& places) {
  const auto& coordinates = attr<common::GatherAttr>(node).coordinates;
  std::vector<common::Coordinate> left;
  std::vector<NodeId> indices;
  common::View view{node.shape, {}, {}, 0};
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    common::Coordinate each = coordinates[axis];
    if (places[axis]) each = {-1, *places[axis]};
    view.index.push_back(each.expr);
    if (each.slot >= 0) {
      indices.push_back(node.operands[static_cast<size_t>(each.slot) + 1]);
      each.slot = static_cast<int>(indices.size()) - 1;
    }
    left.push_back(std::move(each));
  }
  if (indices.empty()) return builder.view(node.operands[0], view);
  return builder.gather(node.operands[0], indices, node.shape, std::move(left));
}

}  // namespace

std::optional<Expr> expression_of(std::span<const int64_t> values, const Expr& at) {
  const int64_t first = values[0];
  if (values.size() == 1) return Expr(first);
  for (size_t q = 1; q < std::min(values.size(), kStepsMax + 1); ++q) {
    const int64_t rise = values[q] - first;
    bool repeats = true;
    for (size_t k = q; k < values.size() && repeats; ++k) {
      repeats = values[k] - values[k - q] == rise;
    }
    if (!repeats) continue;
    const auto steps = static_cast<int64_t>(q);
    for (int64_t offset = 0; offset < steps; ++offset) {
      Expr found = common::floor_div(rise * at + offset, steps) + first;
      Expr counted = common::floor_div(rise * Expr::index(0) + offset, steps) + first;
      bool fits = true;
      for (int64_t k = 0; k < steps && fits; ++k) {
        fits = counted.evaluate({}, std::span(&k, 1)) == values[static_cast<size_t>(k)];
      }
      if (fits) return found;
    }
  }
  return std::nullopt;
}

Graph replace_known_gathers(const Graph& graph) {
  KnownPositions positions(graph);
  std::unordered_map<NodeId, std::vector<std::optional<Expr>>> known;  // of gathers, by axis
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op != Op::kGather) continue;
    std::vector<std::optional<Expr>> places;
    const common::Shape& data = graph.node(node.operands[0]).shape;
    for (const common::Coordinate& each : attr<common::GatherAttr>(node).coordinates) {
      places.emplace_back();
      if (each.slot < 0) continue;
      NodeId index = node.operands[static_cast<size_t>(each.slot) + 1];
      places.back() = positions.find(index, data[places.size() - 1]);
    }
    bool any = std::ranges::any_of(places, [](const auto& place) { return place.has_value(); });
    if (any) known.emplace(static_cast<NodeId>(id), std::move(places));
  }
  if (known.empty()) return graph;
  common::GraphBuilder builder(graph.symbols);
  const std::vector<NodeId> inputs = builder.inputs_like(graph);
  std::vector<NodeId> copies;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    Node copy = graph.nodes[id];
    if (copy.op == Op::kInput) {
      copies.push_back(inputs[static_cast<size_t>(attr<common::InputAttr>(copy).position)]);
      continue;
    }
    for (NodeId& operand : copy.operands) operand = copies[static_cast<size_t>(operand)];
    auto places = known.find(static_cast<NodeId>(id));
    if (places != known.end()) {
      copies.push_back(put(builder, copy, places->second));
    } else if (copy.op == Op::kView) {
      copies.push_back(builder.view(copy.operands[0], attr<common::ViewAttr>(copy).view));
    } else {
      copies.push_back(builder.raw(std::move(copy)));
    }
  }
  for (const common::GraphOutput& output : graph.outputs) {
    builder.output_like(output, copies[static_cast<size_t>(output.node)]);
  }
  return builder.finish();
}

}  // namespace coordinator
