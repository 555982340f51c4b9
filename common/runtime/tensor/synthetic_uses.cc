// Which values integer inputs may take: ranges flow forward from constants and positions, wishes
// flow backward from gathers, scatters and divisions.
#include <algorithm>
#include <optional>

#include "common/ir/expr/index.h"
#include "common/runtime/tensor/synthetic.h"

namespace common {
namespace {

constexpr int64_t kFar = int64_t{1} << 40;  // beyond any size; sums of a few stay in range

struct Range {
  int64_t least = -kFar;
  int64_t greatest = kFar;
};

int64_t bounded(int64_t x) { return std::clamp(x, -kFar, kFar); }

class Uses {
 public:
  Uses(const Graph& graph, std::span<const int64_t> symbols)
      : graph_(graph), symbols_(symbols), known_(graph.nodes.size()), wishes_(graph.nodes.size()) {}

  // One per input.
  std::vector<IntegerUse> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) known_[i] = forward(graph_.nodes[i]);
    for (size_t i = graph_.nodes.size(); i-- > 0;) backward(graph_.nodes[i], wishes_[i]);
    std::vector<IntegerUse> uses(graph_.inputs.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].op != Op::kInput) continue;
      IntegerUse& use = uses[at(attr<InputAttr>(graph_.nodes[i]).position)];
      use.flag = use.flag || wishes_[i].flag;
      if (wishes_[i].constrained) narrow(use, {wishes_[i].least, wishes_[i].greatest});
    }
    return uses;
  }

 private:
  // What is known of an integer node's values whatever the inputs hold.
  std::optional<Range> forward(const Node& node) const {
    if (!is_integer(node.dtype)) return std::nullopt;
    auto operand = [&](size_t k) { return known_[at(node.operands[k])]; };
    switch (node.op) {
      case Op::kConstant: {
        const Bytes& data = *attr<ConstantAttr>(node).data;
        auto width = static_cast<size_t>(dtype_size(node.dtype));
        Range range{kFar, -kFar};
        for (size_t i = 0; i + width <= data.size(); i += width) {
          int64_t value = bounded(load_element_int(node.dtype, data.data() + i));
          range = {std::min(range.least, value), std::max(range.greatest, value)};
        }
        if (data.empty()) return std::nullopt;
        return range;
      }
      case Op::kIota:
        return Range{0, bounded(node.shape[0].evaluate(symbols_) - 1)};
      case Op::kView:
        if (!attr<ViewAttr>(node).view.valid.empty()) return std::nullopt;
        return view_range(node, operand(0));
      case Op::kCast:
        return operand(0);
      case Op::kBinary: {
        auto a = operand(0);
        auto b = operand(1);
        if (!a || !b) return std::nullopt;
        BinaryOp op = attr<BinaryAttr>(node).op;
        if (op == BinaryOp::kAdd) {
          return Range{bounded(a->least + b->least), bounded(a->greatest + b->greatest)};
        }
        if (op == BinaryOp::kSub) {
          return Range{bounded(a->least - b->greatest), bounded(a->greatest - b->least)};
        }
        bool small = std::max({a->greatest, b->greatest, -a->least, -b->least}) < (1 << 20);
        if (op == BinaryOp::kMul && small) {
          auto [low, high] = std::minmax({a->least * b->least, a->least * b->greatest,
                                          a->greatest * b->least, a->greatest * b->greatest});
          return Range{low, high};
        }
        return std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  // Element `value` of iota is how sizes become tensors; other views keep the operand's range.
  std::optional<Range> view_range(const Node& node, const std::optional<Range>& whole) const {
    const View& view = attr<ViewAttr>(node).view;
    if (graph_.node(node.operands[0]).op != Op::kIota || view.index[0].uses_index()) return whole;
    int64_t value = bounded(view.index[0].evaluate(symbols_));
    return Range{value, value};
  }

  static void narrow(IntegerUse& use, Range range) {
    range.least = std::max<int64_t>(range.least, 0);
    int64_t least = use.constrained ? std::max(use.least, range.least) : range.least;
    int64_t greatest = use.constrained ? std::min(use.greatest, range.greatest) : range.greatest;
    // Wishes that contradict are alternatives, such as x and x + size of a negative position.
    if (least > greatest) return;
    use.least = least;
    use.greatest = greatest;
    use.constrained = true;
  }
  void wish(NodeId id, Range range) {
    if (is_integer(graph_.node(id).dtype)) narrow(wishes_[at(id)], range);
  }
  void flag(NodeId id) { wishes_[at(id)].flag = true; }

  // A value that is compared with positions or a size lies among them; other tests make a flag.
  void compare(NodeId id, const std::optional<Range>& other) {
    if (!other || other->greatest < 2) return flag(id);
    wish(id, {0, other->greatest});
  }

  void positions(const Node& node, const std::vector<Coordinate>& coordinates, size_t first) {
    const Shape& data = graph_.node(node.operands[0]).shape;
    for (size_t k = 0; k < coordinates.size(); ++k) {
      if (coordinates[k].slot < 0) continue;
      int64_t size = data[k].evaluate(symbols_);
      wish(node.operands[first + at(coordinates[k].slot)], {0, std::max<int64_t>(size - 1, 0)});
    }
  }

  void backward(const Node& node, const IntegerUse& wanted) {
    Range range{wanted.least, wanted.greatest};
    auto pass = [&](size_t k) {
      if (wanted.constrained) wish(node.operands[k], range);
      if (wanted.flag) flag(node.operands[k]);
    };
    switch (node.op) {
      case Op::kView:
        return pass(0);
      case Op::kCast:
        if (!is_integer(node.dtype)) return flag(node.operands[0]);
        return pass(0);
      case Op::kUnary:
      case Op::kReduce:
        return pass(0);
      case Op::kSelect:
        pass(1);
        return pass(2);
      case Op::kGather:
        pass(0);
        return positions(node, attr<GatherAttr>(node).coordinates, 1);
      case Op::kScatter:
        pass(0);
        pass(1);
        return positions(node, attr<ScatterAttr>(node).coordinates, 2);
      case Op::kBinary:
        return backward_binary(node, wanted);
      case Op::kLoop:
        return backward_loop(node);
      default:
        return;
    }
  }

  void backward_binary(const Node& node, const IntegerUse& wanted) {
    NodeId a = node.operands[0];
    NodeId b = node.operands[1];
    BinaryOp op = attr<BinaryAttr>(node).op;
    if (is_comparison(op)) {
      compare(a, known_[at(b)]);
      return compare(b, known_[at(a)]);
    }
    if (op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv || op == BinaryOp::kMod ||
        op == BinaryOp::kFmod) {
      wish(b, {1, 7});
    }
    if (op == BinaryOp::kShl || op == BinaryOp::kShr) wish(b, {0, 7});
    if (op == BinaryOp::kPow) wish(b, {0, 3});
    if (!wanted.constrained) return;
    Range range{wanted.least, wanted.greatest};
    auto known_a = known_[at(a)];
    auto known_b = known_[at(b)];
    switch (op) {
      case BinaryOp::kAdd:
        // Of two unknown parts, each gets half.
        if (!known_a && !known_b) known_a = known_b = Range{0, range.greatest / 2};
        if (known_b) wish(a, {range.least - known_b->least, range.greatest - known_b->greatest});
        if (known_a) wish(b, {range.least - known_a->least, range.greatest - known_a->greatest});
        return;
      case BinaryOp::kSub:
        if (known_b) wish(a, {range.least + known_b->greatest, range.greatest + known_b->least});
        if (known_a) wish(b, {known_a->greatest - range.greatest, known_a->least - range.least});
        return;
      case BinaryOp::kMul:
        if (known_b && known_b->greatest > 0) wish(a, {0, range.greatest / known_b->greatest});
        if (known_a && known_a->greatest > 0) wish(b, {0, range.greatest / known_a->greatest});
        return;
      case BinaryOp::kFloorDiv:
      case BinaryOp::kDiv:
        if (known_b && known_b->least > 0 && known_b->least < (1 << 20)) {
          wish(a, {0, bounded(range.greatest) * known_b->least + known_b->least - 1});
        }
        return;
      case BinaryOp::kMin:
      case BinaryOp::kMax:
        wish(a, range);
        return wish(b, range);
      default:
        return;
    }
  }

  void backward_loop(const Node& node) {
    const auto& loop = attr<LoopAttr>(node);
    std::vector<IntegerUse> inside = Uses(*loop.body, symbols_).run();
    int64_t fixed = loop.carried + loop.invariant;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      auto slot = static_cast<int64_t>(k);
      if (slot >= fixed) slot = fixed + (slot - fixed) / loop.trip_count;
      const IntegerUse& use = inside[at(slot)];
      if (use.constrained) wish(node.operands[k], {use.least, use.greatest});
      if (use.flag) flag(node.operands[k]);
    }
  }

  const Graph& graph_;
  std::span<const int64_t> symbols_;
  std::vector<std::optional<Range>> known_;
  std::vector<IntegerUse> wishes_;
};

}  // namespace

std::vector<IntegerUse> integer_uses(const Graph& graph, std::span<const int64_t> symbols) {
  return Uses(graph, symbols).run();
}

}  // namespace common
