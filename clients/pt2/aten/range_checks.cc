#include "clients/pt2/aten/range_checks.h"

namespace clients {
namespace {

using common::attr;
using common::Node;
using common::Op;

// Whether casting keeps every value.
bool widens(DType from, DType to) {
  return common::is_integer(from) && common::is_integer(to) && to != DType::kUint8 &&
         (common::dtype_size(from) < common::dtype_size(to) || from == to);
}

}  // namespace

// Through views and casts that keep every value.
RangeChecks::Source RangeChecks::behind(NodeId index) const {
  Source source{index, common::view_identity(b_.shape(index))};
  while (true) {
    const Node& node = b_.node(source.base);
    if (node.op == Op::kCast && widens(b_.dtype(node.operands[0]), node.dtype)) {
      source.base = node.operands[0];
      continue;
    }
    if (node.op != Op::kView) return source;
    const View& inner = attr<common::ViewAttr>(node).view;
    if (!inner.valid.empty()) return source;
    auto composed = common::view_compose(source.view, inner, b_.symbols());
    if (!composed || !composed->valid.empty()) return source;
    source = {node.operands[0], std::move(*composed)};
  }
}

// Axes along which the view reads the same element again have one element.
View RangeChecks::without_repeats(const Source& source) const {
  View view = source.view;
  std::vector<char> used(view.shape.size(), 0);
  for (const Expr& index : view.index) {
    index.visit_vars([&](common::Var v) {
      if (v.kind == common::Var::Kind::kIndex) used[static_cast<size_t>(v.id)] = 1;
    });
  }
  for (size_t k = 0; k < used.size(); ++k) {
    if (!used[k] && b_.bounds().lower(view.shape[k]) >= 1) view.shape[k] = 1;
  }
  return view;
}

// Every element of the base is read, as far as that is easy to see: axes in another order, or the
// elements in their order.
bool RangeChecks::reads_all(const Source& source) const {
  Sizes from = b_.shape(source.base);
  const View& view = source.view;
  std::vector<char> taken(view.shape.size(), 0);
  bool is_permuted = true;
  for (size_t k = 0; k < from.size(); ++k) {
    if (from[k].is_constant(1) && view.index[k].is_constant(0)) continue;
    auto var = view.index[k].as_var();
    bool is_axis = var && var->kind == common::Var::Kind::kIndex;
    size_t axis = is_axis ? static_cast<size_t>(var->id) : 0;
    is_permuted = is_permuted && is_axis && !taken[axis] && view.shape[axis] == from[k];
    if (is_axis) taken[axis] = 1;
  }
  for (size_t axis = 0; axis < taken.size(); ++axis) {
    is_permuted = is_permuted && (taken[axis] || view.shape[axis].is_constant(1));
  }
  if (is_permuted) return true;
  Expr offset = common::view_offset(view, from, b_.symbols());
  Expr in_order = common::view_offset(common::view_identity(view.shape), view.shape, b_.symbols());
  return common::element_count(view.shape) == common::element_count(from) && offset == in_order;
}

NodeId RangeChecks::flat(NodeId x) {
  return b_.reshape(x, {b_.simplify(common::element_count(b_.shape(x)))});
}

// Tells which of the two ends needs no comparison.
bool RangeChecks::is_certain(NodeId index, const IndexRange& range, bool* low, bool* high) {
  ValueRange values = ranges_.of(index);
  common::Bounds bounds = b_.bounds();
  Expr least = range.wraps ? -range.limit : Expr(0);
  *low = values.low && bounds.lower(*values.low - least) >= 0;
  *high = values.high && bounds.lower(range.limit - 1 - *values.high) >= 0;
  return *low && *high;
}

// Whether a check of the same values refuses all that this one would.
bool RangeChecks::is_known(NodeId values, const IndexRange& range) const {
  for (const Known& known : known_) {
    if (known.values != values || known.range.accepted != range.accepted) continue;
    bool is_tighter = b_.bounds().lower(range.limit - known.range.limit) >= 0;
    if (is_tighter && (range.wraps || !known.range.wraps)) return true;
  }
  return false;
}

void RangeChecks::add(NodeId index, const IndexRange& range, const std::string& source_text) {
  if (!common::is_integer(b_.dtype(index))) return;
  bool low_holds = false, high_holds = false;
  if (is_certain(index, range, &low_holds, &high_holds)) return;
  Source source = behind(index);
  source.view = without_repeats(source);
  bool is_whole = reads_all(source);
  NodeId values = is_whole ? source.base : b_.view(source.base, source.view);
  if (is_known(values, range)) return;
  known_.push_back({values, range});

  Sizes shape = b_.shape(source.base);
  NodeId places = b_.iota(DType::kInt64, b_.simplify(common::element_count(shape)));
  if (!is_whole) places = flat(b_.view(b_.reshape(places, shape), source.view));
  NodeId value = b_.cast(flat(values), DType::kInt64);
  NodeId limit = b_.size_scalar(DType::kInt64, range.limit);
  NodeId least = b_.scalar_int(DType::kInt64, 0);
  if (range.wraps) least = b_.binary(BinaryOp::kSub, least, limit);
  std::optional<NodeId> wrong;
  auto is_wrong = [&](NodeId condition) {
    wrong = wrong ? b_.binary(BinaryOp::kOr, *wrong, condition) : condition;
  };
  if (!low_holds) is_wrong(b_.binary(BinaryOp::kLess, value, least));
  if (!high_holds) is_wrong(b_.binary(BinaryOp::kLessEqual, limit, value));
  if (range.accepted) {
    NodeId accepted = b_.scalar_int(DType::kInt64, *range.accepted);
    wrong = b_.binary(BinaryOp::kAnd, *wrong, b_.binary(BinaryOp::kNotEqual, value, accepted));
  }
  NodeId none = b_.scalar_int(DType::kInt64, common::kNoPosition);
  NodeId first = b_.reduce(ReduceOp::kMin, b_.select(*wrong, places, none), {0});
  const Node& base = b_.node(source.base);
  int input = base.op == Op::kInput ? attr<common::InputAttr>(base).position : -1;
  checks_.push_back({first, input, range, source_text});
}

}  // namespace clients
