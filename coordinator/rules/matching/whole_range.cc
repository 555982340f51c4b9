// Which whole numbers a class may hold.
#include <algorithm>
#include <cmath>

#include "coordinator/rules/matching/parts.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::DType;
using common::Node;
using common::Op;

// All sums and products of two of these are exact in 64 bits.
constexpr int64_t kGreatest = int64_t{1} << 31;
constexpr int kClassesMax = 64;  // looked at before giving up

// Whole numbers up to this are numbers of the type. 0 where none of them is meant.
int64_t greatest_whole(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return kGreatest;
    case DType::kInt32:
      return kGreatest - 1;
    case DType::kFloat32:
      return int64_t{1} << 24;
    case DType::kInt16:
      return 32767;
    case DType::kFloat16:
      return 2048;
    case DType::kBfloat16:
      return 256;
    case DType::kInt8:
      return 127;
    default:
      return 0;
  }
}

class Ranges {
 public:
  explicit Ranges(const Rewriter& r) : r_(r) {}

  std::optional<WholeRange> of(ClassId cls) {
    if (r_.dtype(cls) == DType::kBool) return WholeRange{0, 1};
    if (auto value = r_.uniform_value(cls)) {
      bool whole =
          std::abs(*value) <= static_cast<double>(kGreatest) && *value == std::floor(*value);
      if (!whole) return std::nullopt;
      return checked(cls, static_cast<int64_t>(*value), static_cast<int64_t>(*value));
    }
    if (++classes_ > kClassesMax) return std::nullopt;
    for (Op op : {Op::kIota, Op::kSort, Op::kView, Op::kGather, Op::kCast, Op::kScatter,
                  Op::kSelect, Op::kBinary, Op::kReduce}) {
      auto found = r_.find(cls, op);
      if (!found) continue;
      auto range = of_node(*found->node, found->operands);
      if (range) return checked(cls, range->least, range->most);
    }
    return std::nullopt;
  }

 private:
  std::optional<WholeRange> checked(ClassId cls, int64_t least, int64_t most) const {
    WholeRange range{least, most};
    if (!holds(r_.dtype(cls), range)) return std::nullopt;
    return range;
  }

  // The positions below the extent.
  std::optional<WholeRange> below(const common::Expr& extent) const {
    int64_t count = common::Bounds(r_.symbols(), {}).upper(extent);
    if (count > kGreatest) return std::nullopt;
    return WholeRange{0, std::max<int64_t>(count, 1) - 1};
  }

  std::optional<WholeRange> of_both(ClassId a, ClassId b) {
    auto x = of(a);
    auto y = x ? of(b) : std::nullopt;
    if (!y) return std::nullopt;
    return WholeRange{std::min(x->least, y->least), std::max(x->most, y->most)};
  }

  std::optional<WholeRange> of_binary(BinaryOp op, ClassId a, ClassId b) {
    bool known = op == BinaryOp::kAdd || op == BinaryOp::kSub || op == BinaryOp::kFloorDiv ||
                 op == BinaryOp::kMin || op == BinaryOp::kMax;
    auto x = known ? of(a) : std::nullopt;
    auto y = x ? of(b) : std::nullopt;
    if (!y) return std::nullopt;
    switch (op) {
      case BinaryOp::kAdd:
        return WholeRange{x->least + y->least, x->most + y->most};
      case BinaryOp::kSub:
        return WholeRange{x->least - y->most, x->most - y->least};
      case BinaryOp::kMin:
        return WholeRange{std::min(x->least, y->least), std::min(x->most, y->most)};
      case BinaryOp::kMax:
        return WholeRange{std::max(x->least, y->least), std::max(x->most, y->most)};
      default:
        if (x->least < 0 || y->least < 1) return std::nullopt;
        return WholeRange{x->least / y->most, x->most / y->least};
    }
  }

  // A sum of so many numbers, each in the range.
  std::optional<WholeRange> of_sum(const Node& sum, ClassId x) {
    const auto& reduce = attr<common::ReduceAttr>(sum);
    auto each = reduce.op == common::ReduceOp::kSum ? of(x) : std::nullopt;
    if (!each) return std::nullopt;
    common::Expr count = 1;
    for (int axis : reduce.axes) count *= r_.shape(x)[static_cast<size_t>(axis)];
    int64_t most = common::Bounds(r_.symbols(), {}).upper(count);
    if (most > kGreatest) return std::nullopt;
    return WholeRange{std::min<int64_t>(each->least, 0) * most,
                      std::max<int64_t>(each->most, 0) * most};
  }

  std::optional<WholeRange> of_node(const Node& node, const std::vector<ClassId>& operands) {
    switch (node.op) {
      case Op::kIota:
        return below(node.shape[0]);
      case Op::kSort:
        return below(r_.shape(operands[0])[static_cast<size_t>(attr<common::SortAttr>(node).axis)]);
      case Op::kView:
        if (!attr<common::ViewAttr>(node).view.valid.empty()) return std::nullopt;
        return of(operands[0]);
      case Op::kGather:
      case Op::kCast:  // what the type does not hold, checked() refuses
        return of(operands[0]);
      case Op::kScatter:
        if (attr<common::ScatterAttr>(node).mode != common::ScatterMode::kAssign) {
          return std::nullopt;
        }
        return of_both(operands[0], operands[1]);
      case Op::kSelect:
        return of_both(operands[1], operands[2]);
      case Op::kBinary:
        return of_binary(attr<common::BinaryAttr>(node).op, operands[0], operands[1]);
      case Op::kReduce:
        return of_sum(node, operands[0]);
      default:
        return std::nullopt;
    }
  }

  const Rewriter& r_;
  int classes_ = 0;
};

}  // namespace

bool holds(DType dtype, const WholeRange& range) {
  int64_t greatest = greatest_whole(dtype);
  return greatest != 0 && -greatest <= range.least && range.least <= range.most &&
         range.most <= greatest;
}

std::optional<WholeRange> whole_range(const Rewriter& r, ClassId cls) { return Ranges(r).of(cls); }

}  // namespace coordinator
