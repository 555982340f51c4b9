#include "common/lowering/body/dot_product.h"

#include <cstring>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/with_indices.h"

namespace common {
namespace {

// Something that is known to hold or not: position < bound.
struct Fact {
  Expr position, bound;
  bool holds = true;
};

class DotFinder {
 public:
  DotFinder(int step, BodyEmitter& emitter)
      : step_(step), emitter_(emitter), body_(emitter.graph()), writer_(emitter.writer()) {}

  std::optional<DotOperand> run(NodeId node, const Indices& at) {
    if (!find(node, at, "")) return std::nullopt;
    return found_;
  }

 private:
  static constexpr size_t kReadsMax = 4;

  // Adds what the element is read from where `condition` holds, as `facts_` say in other words.
  bool find(NodeId id, const Indices& at, const std::string& condition) {
    const Node& node = body_.node(id);
    if (node.op == Op::kCast && is_half(body_.node(node.operands[0]).dtype)) {
      return find(node.operands[0], at, condition);
    }
    if (node.op == Op::kSelect) return find_selected(node, at, condition);
    if (node.op == Op::kView && is_valid(attr<ViewAttr>(node).view, at)) {
      Indices inner;
      for (const Expr& e : attr<ViewAttr>(node).view.index) inner.push_back(placed(e, at));
      return find(node.operands[0], inner, condition);
    }
    if (node.op != Op::kInput && node.op != Op::kGather) return false;
    if (!is_half(node.dtype) && node.dtype != DType::kFloat32) return false;
    if (!found_.reads.empty() && node.dtype != found_.stored) return false;
    // What a gather reads its positions from may be there only where the facts hold.
    if (node.op == Op::kGather && !facts_.empty()) return false;
    auto read = plain_read(id, at, emitter_);
    if (!read || stride_along(read->offset, step_) != 1) return false;
    found_.stored = node.dtype;
    found_.reads.push_back({condition, std::move(*read)});
    return found_.reads.size() <= kReadsMax;
  }

  bool find_selected(const Node& select, const Indices& at, const std::string& condition) {
    auto fact = fact_of(select.operands[0], at);
    if (!fact || depends(fact->position) || depends(fact->bound)) return false;
    std::string less = cat(writer_.text(fact->position), " < ", writer_.text(fact->bound));
    std::string before = condition.empty() ? "" : cat(condition, " && ");
    facts_.push_back(*fact);
    if (!find(select.operands[1], at, cat(before, less))) return false;
    // Reads are tried in order, so that the others need not say that it does not hold.
    facts_.back().holds = false;
    bool found = find(select.operands[2], at, condition);
    facts_.pop_back();
    return found;
  }

  std::optional<Fact> fact_of(NodeId id, const Indices& at) const {
    const Node& node = body_.node(id);
    if (node.op == Op::kView && attr<ViewAttr>(node).view.valid.empty()) {
      Indices inner;
      for (const Expr& e : attr<ViewAttr>(node).view.index) inner.push_back(placed(e, at));
      return fact_of(node.operands[0], inner);
    }
    if (node.op != Op::kBinary || attr<BinaryAttr>(node).op != BinaryOp::kLess) return std::nullopt;
    auto position = integer(node.operands[0], at);
    auto bound = integer(node.operands[1], at);
    if (!position || !bound) return std::nullopt;
    return Fact{*position, *bound};
  }

  // An integer that follows from indices.
  std::optional<Expr> integer(NodeId id, const Indices& at) const {
    const Node& node = body_.node(id);
    switch (node.op) {
      case Op::kIota:
        return at[0];
      case Op::kView: {
        const View& view = attr<ViewAttr>(node).view;
        if (!view.valid.empty()) return std::nullopt;
        Indices inner;
        for (const Expr& e : view.index) inner.push_back(placed(e, at));
        return integer(node.operands[0], inner);
      }
      case Op::kConstant: {
        auto value = uniform_integer(node);
        return value ? std::optional(Expr(*value)) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  static std::optional<int64_t> uniform_integer(const Node& constant) {
    if (constant.dtype != DType::kInt64) return std::nullopt;
    const Bytes& data = *attr<ConstantAttr>(constant).data;
    if (data.size() != sizeof(int64_t)) return std::nullopt;
    int64_t value = 0;
    std::memcpy(&value, data.data(), sizeof value);
    return value;
  }

  bool is_valid(const View& view, const Indices& at) const {
    const Bounds& bounds = writer_.bounds();
    for (const Validity& valid : view.valid) {
      Expr position = placed(valid.value, at), bound = placed(valid.bound, at);
      if (!bounds.provably_non_negative(position) && !is_known_least(position)) return false;
      if (!bounds.provably_less(position, bound) && !is_known_less(position, bound)) return false;
    }
    return true;
  }
  // By a fact: position >= 0 where some position is not below its bound.
  bool is_known_least(const Expr& position) const {
    for (const Fact& fact : facts_) {
      if (!fact.holds && writer_.simplify(fact.position - fact.bound) == position) return true;
    }
    return false;
  }
  bool is_known_less(const Expr& position, const Expr& bound) const {
    Expr distance = writer_.simplify(position - bound);
    for (const Fact& fact : facts_) {
      if (fact.holds && writer_.simplify(fact.position - fact.bound) == distance) return true;
    }
    return false;
  }

  bool depends(const Expr& e) const { return e.uses({Var::Kind::kIndex, step_}); }
  Expr placed(const Expr& e, const Indices& at) const {
    return writer_.simplify(with_indices(e, at));
  }

  int step_;
  BodyEmitter& emitter_;
  const Graph& body_;
  CodeWriter& writer_;
  std::vector<Fact> facts_;
  DotOperand found_;
};

int64_t elements_of(const DotOperand& factor, const BodyEmitter& emitter, const Bounds& bounds) {
  int64_t elements = 0;
  for (const DotRead& each : factor.reads) {
    const auto input = static_cast<size_t>(each.read.input);
    elements += bounds.upper(element_count(emitter.graph().inputs[input].shape));
  }
  return elements;
}

}  // namespace

std::optional<DotProduct> dot_product(const Node& product, const Indices& at, int step,
                                      BodyEmitter& emitter) {
  auto first = DotFinder(step, emitter).run(product.operands[0], at);
  if (!first) return std::nullopt;
  auto second = DotFinder(step, emitter).run(product.operands[1], at);
  if (!second) return std::nullopt;
  // Of two different half types there is no function.
  if (is_half(first->stored) && is_half(second->stored) && first->stored != second->stored) {
    return std::nullopt;
  }
  const Bounds& bounds = emitter.writer().bounds();
  const bool is_turned = first->stored == second->stored ? elements_of(*first, emitter, bounds) >
                                                               elements_of(*second, emitter, bounds)
                                                         : is_half(first->stored);
  if (is_turned) std::swap(first, second);
  if (first->reads.size() > 1) return std::nullopt;
  return DotProduct{first->stored, std::move(first->reads[0].read), std::move(*second)};
}

}  // namespace common
