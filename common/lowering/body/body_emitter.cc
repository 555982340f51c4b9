#include "common/lowering/body/body_emitter.h"

#include <algorithm>
#include <cstring>

#include "common/base/cat.h"
#include "common/cost/operation_cost.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/lowering/text/c_text.h"
#include "common/lowering/text/exact_bfloat16.h"

namespace common {

namespace {

// A body that needs more statements than this would take minutes to compile.
constexpr int64_t kMaxStatements = 20'000;
constexpr int kMaxDepth = 2'000;
// Stand for a row's steps in keys; no kernel has as many symbols.
constexpr int kRowSymbol = 1 << 20;

// Instructions of a GPU beside one. Philox is ten rounds of two products.
constexpr double kPhiloxInstructions = 40;

double unary_instructions(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNeg:
    case UnaryOp::kAbs:
    case UnaryOp::kNot:
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
    case UnaryOp::kFloor:
    case UnaryOp::kCeil:
    case UnaryOp::kTrunc:
    case UnaryOp::kRound:
    case UnaryOp::kSign:
      return 0;
    case UnaryOp::kSqrt:
    case UnaryOp::kRsqrt:
    case UnaryOp::kRecip:
      return 6;
    default:
      return 20;
  }
}

// A place that is read from memory is eight bytes wide and held inside of an axis; what lies there
// is no neighbour of the next step's.
constexpr StepWork kFoundPlace{.simple = 8, .jumps = 1};

// Whether a node has an expression of its own, which a row of its values saves.
bool is_computed(Op op) { return is_elementwise(op) || op == Op::kGather || op == Op::kView; }

}  // namespace

struct BodyEmitter::Check {
  Expr position, bound;
  bool below = false;  // position >= 0 is known
  bool above = false;  // position < bound is known
};

void Scratch::add(const std::string& name, std::string_view type, int64_t element_bytes,
                  const Expr& count) {
  pieces_.push_back({name, std::string(type), bytes_});
  Expr bytes = count * Expr(element_bytes);
  bytes_ += floor_div(bytes + 63, 64) * Expr(64);
}

BodyEmitter::BodyEmitter(const Graph& graph, CodeWriter& writer)
    : graph_(graph), w_(writer), nest_(writer), lanes_(writer), turns_(writer), squares_(writer) {
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    int depth = 0;
    for (NodeId operand : node.operands) depth = std::max(depth, reduction_depth_[at(operand)]);
    reduction_depth_.push_back(depth + (node.op == Op::kReduce ? 1 : 0));
    if (node.op != Op::kInput) continue;
    stored_[static_cast<NodeId>(id)] = {cat("in", attr<InputAttr>(node).position), node.shape};
  }
}

BodyEmitter::~BodyEmitter() = default;

CodeValue BodyEmitter::declare(int level, DType dtype, std::string_view expression,
                               const StepWork& work) {
  return w_.declare(level, c_value_type(dtype), "v", expression, work);
}

// Of a step whose line has left the caches, beside one whose line is there.
constexpr double kPageJump = 10;

// Of neighbours in a few cache lines' distance, one line holds several. Lines whole pages of 4 KiB
// apart belong to one set of the cache, which holds a dozen: of more none is there any longer when
// the next of its elements is asked for (256 channels of images of 64 x 64 places, float32, took
// 2.5 ns an element where other strides take 0.23).
StepWork BodyEmitter::access_work(const Expr& offset, int level) const {
  constexpr int64_t kNear = 16, kPage = 1024, kWays = 16;
  constexpr double kNearJump = 0.5;
  const int loop = w_.loop_index(level);
  const int64_t stride = std::abs(stride_along(offset, loop));
  if (stride <= 1) return kSimpleStep;
  if (stride < kNear) return {.jumps = kNearJump};
  const bool is_page = stride != INT32_MAX && stride % kPage == 0;
  const int64_t last = w_.bounds().upper(Expr::index(loop));
  if (is_page && last >= kWays) return {.jumps = kPageJump};
  return {.jumps = last >= kFirstCacheLines ? kLineJump : 1};
}

int BodyEmitter::safe_level(const Indices& indices, const Shape& shape) {
  int level = 0;
  bool safe = true;
  const Bounds& bounds = w_.bounds();
  for (size_t k = 0; k < indices.size(); ++k) {
    level = std::max(level, w_.level_of(indices[k]));
    safe = safe && bounds.provably_non_negative(indices[k]) &&
           bounds.provably_less(indices[k], shape[k]);
  }
  return safe ? level : std::max(level, w_.barrier());
}

CodeValue BodyEmitter::value(NodeId id, const Indices& given) {
  const Node& node = graph_.node(id);
  if (!status_.ok()) return {c_literal(node.dtype, 0), 0, -1};
  if (w_.statements() > kMaxStatements || depth_ > kMaxDepth) {
    status_ = unsupported("the kernel's body is too large; fuse less");
    return {c_literal(node.dtype, 0), 0, -1};
  }
  Indices indices;
  indices.reserve(given.size());
  for (const Expr& e : given) indices.push_back(w_.simplify(e));
  ValueKey key{id, kElementTag, indices};
  if (const CodeValue* known = w_.find(key)) return *known;
  ++depth_;
  CodeValue result;
  auto row = row_of(id, indices);
  if (int lane = array_lane(id, indices); lane >= 0) {
    result = lane_value(id, indices, lane);
  } else if (row && choices_.given.staged.count(id) != 0) {
    choices_.used.staged.insert(id);
    result = staged_value(id, indices, *row);
  } else {
    result = compute(id, indices);
  }
  --depth_;
  w_.remember(key, result);
  return result;
}

std::optional<RowLoop> BodyEmitter::row_loop() const {
  if (team_) return team_->row_loop();
  int index = w_.covered_index();
  if (index < 0) return std::nullopt;
  return RowLoop{w_.depth() - 1, {index}, true, {}};
}

std::optional<BodyEmitter::Row> BodyEmitter::row_of(NodeId id, const Indices& indices) {
  const Node& node = graph_.node(id);
  auto loop = row_loop();
  if (!loop || (team_ ? node.op == Op::kView : !is_computed(node.op))) return std::nullopt;
  Row row{{id, kRowTag, {}}, loop->base};
  bool along = false;
  for (size_t k = 0; k < indices.size(); ++k) {
    bool moves = false, fits = w_.bounds().provably_non_negative(indices[k]) &&
                               w_.bounds().provably_less(indices[k], node.shape[k]);
    row.key.indices.push_back(indices[k].substitute([&](Var v) -> Expr {
      if (v.kind != Var::Kind::kIndex) return Expr::var(v);
      for (size_t step = 0; step < loop->steps.size(); ++step) {
        if (v.id != loop->steps[step]) continue;
        moves = true;
        return Expr::symbol(kRowSymbol + static_cast<int>(step));
      }
      fits = fits && w_.level_of_index(v.id) <= loop->base;
      return Expr::var(v);
    }));
    if (moves && loop->only) fits = fits && indices[k] == Expr::index(loop->steps[0]);
    if (!fits) return std::nullopt;
    along = along || moves;
  }
  if (!along) return std::nullopt;
  row.key.indices.insert(row.key.indices.end(), loop->extent.begin(), loop->extent.end());
  ++seen_.row_uses[id];
  return row;
}

std::string BodyEmitter::scratch_row(const Node& node, const Row& row) {
  std::string name = w_.fresh("row");
  Expr extent = 1;
  for (size_t k = 0; k < node.shape.size(); ++k) {
    if (row.key.indices[k] == Expr::symbol(kRowSymbol)) extent = node.shape[k];
  }
  scratch_.add(name, c_storage_type(node.dtype), dtype_size(node.dtype), extent);
  return name;
}

CodeValue BodyEmitter::staged_value(NodeId id, const Indices& indices, const Row& row) {
  const Node& node = graph_.node(id);
  auto place = [&](const std::string& name) {
    return team_ ? team_->row_place(name) : cat(name, "[", w_.index_name(w_.covered_index()), "]");
  };
  if (const CodeValue* known = w_.find(row.key)) {
    return declare(w_.depth(), node.dtype, place(known->text));
  }
  std::string name = team_ ? team_->declare_row(node.dtype) : scratch_row(node, row);
  CodeValue x = compute(id, indices);
  w_.line(cat(place(name), " = ", x.text, ";"));
  w_.remember_after(row.key, {name, row.base, -1});
  return x;
}

CodeValue BodyEmitter::compute(NodeId id, const Indices& indices) {
  const Node& node = graph_.node(id);
  if (auto it = stored_.find(id); it != stored_.end()) {
    return load(it->second, node.dtype, indices);
  }
  switch (node.op) {
    case Op::kConstant:
      return constant(node, indices);
    case Op::kIota:
      if (node.dtype == DType::kInt64 && indices[0].is_constant()) {
        return {c_int_literal(indices[0].constant()), 0, -1};
      }
      return declare(w_.level_of(indices[0]), node.dtype,
                     cat("(", c_value_type(node.dtype), ")", w_.text(indices[0])));
    case Op::kView:
      return view(node, indices);
    case Op::kCast:
    case Op::kUnary:
    case Op::kBinary:
    case Op::kSelect:
    case Op::kPhilox:
      return elementwise(node, indices);
    case Op::kGather:
      return value(node.operands[0], gathered_position(node, indices));
    case Op::kReduce:
      return reduction(id, indices);
    default:
      status_ = unsupported(
          cat("a ", op_name(node.op), " node cannot be computed in place; give it a kernel"));
      return {c_literal(node.dtype, 0), 0, -1};
  }
}

CodeValue BodyEmitter::load(const StoredNode& stored, DType dtype, const Indices& indices) {
  Expr offset = w_.simplify(linear_position(indices, stored.shape));
  int level = std::max(safe_level(indices, stored.shape), w_.level_of(offset));
  seen_.load_offsets.push_back(offset);
  bool safe = level == w_.level_of(offset);
  if (safe) {
    auto x = turns_.load(stored.pointer, dtype, offset, level);
    if (!x) x = squares_.load(stored.pointer, dtype, offset);
    if (!x && team_) x = team_->load(stored.pointer, dtype, offset);
    if (x) return *x;
  }
  nest_.note_load(offset);
  if (team_) {
    int64_t size = dtype_size(dtype);
    team_->note_access(offset, size, size, false, level);
  }
  return declare(level, dtype, cat(stored.pointer, "[", w_.text(offset), "]"),
                 turns_.is_far(offset) ? StepWork{.jumps = kPageJump} : access_work(offset, level));
}

CodeValue BodyEmitter::constant(const Node& node, const Indices& indices) {
  const Bytes& data = *attr<ConstantAttr>(node).data;
  auto size = static_cast<size_t>(dtype_size(node.dtype));
  bool uniform = !data.empty();
  for (size_t k = size; k < data.size(); k += size) {
    uniform = uniform && std::memcmp(data.data(), data.data() + k, size) == 0;
  }
  if (uniform) return {c_element_literal(node.dtype, data.data()), 0, -1};
  ValueKey table{static_cast<NodeId>(&node - graph_.nodes.data()), kIndexTag, {}};
  const CodeValue* known = w_.find(table);
  if (known == nullptr) {
    std::string list;
    for (size_t k = 0; k < data.size(); k += size) {
      list += cat(k ? ", " : "", c_element_literal(node.dtype, data.data() + k));
    }
    std::string name = w_.fresh("table");
    // At least one element, for C; an empty constant is never read.
    w_.line(0, cat("static const ", c_storage_type(node.dtype), " ", name, "[] = {",
                   list.empty() ? "0" : list, "};"));
    w_.remember(table, {name, 0, -1});
    known = w_.find(table);
  }
  return load({known->text, node.shape}, node.dtype, indices);
}

CodeValue BodyEmitter::view(const Node& node, const Indices& indices) {
  const View& v = attr<ViewAttr>(node).view;
  auto through = [&](const Expr& e) { return w_.simplify(with_indices(e, indices)); };
  Indices inner;
  for (const Expr& e : v.index) inner.push_back(through(e));
  const Bounds& bounds = w_.bounds();
  int lane = lanes_.innermost();
  bool along = lies_along_lanes(node, indices, inner);
  std::vector<Check> moving, fixed;  // whether they differ from lane to lane; all are the former
  for (const Validity& valid : v.valid) {
    Check check{through(valid.value), through(valid.bound)};
    check.below = bounds.provably_non_negative(check.position);
    check.above = bounds.provably_less(check.position, check.bound);
    if (bounds.upper(check.position) < 0 || bounds.lower(check.position - check.bound) >= 0) {
      return {c_literal(node.dtype, v.fill), 0, -1};
    }
    if (check.below && check.above) continue;
    int level = std::max(w_.level_of(check.position), w_.level_of(check.bound));
    if (along && level < w_.level_of_index(lane)) {
      fixed.push_back(std::move(check));
      continue;
    }
    bool holds = false;
    auto& steps = lanes_.checks();
    if (!steps || !steps->decides(check.position, check.bound, &holds) || !holds) {
      moving.push_back(std::move(check));
    }
  }
  if (moving.empty()) {
    return fixed.empty() ? value(node.operands[0], inner) : row_or_fill(node, inner, fixed);
  }
  if (auto x = load_or_fill(node, indices, inner, moving)) return *x;
  moving.insert(moving.end(), fixed.begin(), fixed.end());

  int level = 0;
  for (const Expr& e : indices) level = std::max(level, w_.level_of(e));
  level = std::max(level, safe_level(indices, node.shape));
  CodeWriter::Outward outward(w_, level);
  std::string name = w_.fresh("v");
  // A vector of conditions masks what is read.
  w_.line(cat(c_value_type(node.dtype), " ", name, " = ", c_literal(node.dtype, v.fill), ";"),
          {.simple = 2});
  w_.open(true);
  CodeValue operand = value(node.operands[0], inner);
  w_.line(cat(name, " = ", operand.text, ";"));
  w_.close(cat("if (", condition(moving), ")"));
  return {name, level, -1};
}

// The axis of `shape` that each check is about, by its place among `inner`; empty where one is
// about none, or where an axis may have no elements.
template <class Check>
std::optional<std::vector<size_t>> checked_axes(const std::vector<Check>& checks,
                                                const Indices& inner, const Shape& shape,
                                                const Bounds& bounds) {
  std::vector<size_t> axes;
  for (const Check& check : checks) {
    size_t axis = 0;
    while (axis < inner.size() && !(inner[axis] == check.position && shape[axis] == check.bound)) {
      ++axis;
    }
    if (axis == inner.size() || bounds.lower(shape[axis]) < 1) return std::nullopt;
    axes.push_back(axis);
  }
  return axes;
}

// A view of memory whose checks an outer loop decides: an inner loop then loads without a branch,
// from the start of the memory where they do not hold. Where a GPU's thread takes neighbours at
// once, they are loaded together, from the first place of each axis beyond whose end they lie.
std::optional<CodeValue> BodyEmitter::load_or_fill(const Node& view, const Indices& indices,
                                                   const Indices& inner,
                                                   const std::vector<Check>& checks) {
  if (team_) {
    NodeId source = view.operands[0];
    while (graph_.node(source).op == Op::kCast) source = graph_.node(source).operands[0];
    int level = 0;
    for (const Check& check : checks) {
      level = std::max({level, w_.level_of(check.position), w_.level_of(check.bound)});
    }
    const Shape& shape = graph_.node(view.operands[0]).shape;
    auto axes = checked_axes(checks, inner, shape, w_.bounds());
    const Team& team = team_->team();
    bool is_alike = team.size == 1 && team.vector > 1 && level <= team.level;
    if (!is_alike || stored_.count(source) == 0 || !axes) return std::nullopt;
    Indices places = inner;
    for (size_t k = 0; k < checks.size(); ++k) {
      std::string place = w_.fresh("p");
      w_.line(level, cat("const int64_t ", place, " = ", condition({checks[k]}), " ? ",
                         w_.text(checks[k].position), " : 0;"));
      places[(*axes)[k]] = Expr::index(w_.bind_index(place, shape[(*axes)[k]], level));
    }
    std::string holds = w_.declare(level, "bool", "h", condition(checks)).text;
    CodeValue x = value(view.operands[0], places);
    return declare(
        std::max(level, x.level), view.dtype,
        cat(holds, " ? ", x.text, " : ", c_literal(view.dtype, attr<ViewAttr>(view).view.fill)));
  }
  auto found = stored_.find(view.operands[0]);
  if (lanes_.is_open() || found == stored_.end()) return std::nullopt;
  const StoredNode& stored = found->second;
  const Bounds& bounds = w_.bounds();
  for (size_t k = 0; k < indices.size(); ++k) {
    if (!bounds.provably_non_negative(indices[k]) ||
        !bounds.provably_less(indices[k], view.shape[k])) {
      return std::nullopt;
    }
  }
  int outside = 0;
  for (const Check& check : checks) {
    outside = std::max({outside, w_.level_of(check.position), w_.level_of(check.bound)});
  }
  Expr offset = w_.simplify(linear_position(inner, stored.shape));
  Expr start = offset.sum_constant(), step = 0;
  for (const Expr::Term& term : offset.terms()) {
    Expr product = term.coefficient;
    for (const Expr& factor : term.factors) product *= factor;
    (w_.level_of(product) <= outside ? start : step) += product;
  }
  if (w_.level_of(step) <= outside || !bounds.provably_non_negative(step) ||
      !bounds.provably_less(step, element_count(stored.shape))) {
    return std::nullopt;
  }
  seen_.load_offsets.push_back(offset);
  nest_.note_load(offset);
  const int inside = w_.level_of(step);
  std::string holds = w_.fresh("holds"), row = w_.fresh("row");
  w_.line(outside, cat("const _Bool ", holds, " = ", condition(checks), ";"));
  w_.line(outside, cat("const ", c_storage_type(view.dtype), "* const ", row, " = ", holds, " ? ",
                       stored.pointer, " + (", w_.text(start), ") : ", stored.pointer, ";"));
  return declare(inside, view.dtype,
                 cat(holds, " ? ", row, "[", w_.text(step),
                     "] : ", c_literal(view.dtype, attr<ViewAttr>(view).view.fill)),
                 access_work(step, inside));
}

std::string BodyEmitter::condition(const std::vector<Check>& checks) {
  std::string result;
  for (const Check& check : checks) {
    std::string text = w_.text(check.position);
    const char* also = result.empty() ? "" : " & ";
    if (!check.below) result += cat(also, "(", text, " >= 0)");
    also = result.empty() ? "" : " & ";
    if (!check.above) result += cat(also, "(", text, " < ", w_.text(check.bound), ")");
  }
  return result;
}

bool BodyEmitter::lies_along_lanes(const Node& view, const Indices& indices, const Indices& inner) {
  int lane = lanes_.innermost();
  auto stored = stored_.find(view.operands[0]);
  if (lane < 0 || team_ || stored == stored_.end()) return false;
  for (size_t k = 0; k < indices.size(); ++k) {
    if (!w_.bounds().provably_non_negative(indices[k]) ||
        !w_.bounds().provably_less(indices[k], view.shape[k])) {
      return false;
    }
  }
  Expr offset = w_.simplify(linear_position(inner, stored->second.shape));
  return stride_along(offset, lane) == 1 &&
         w_.level_of(with_index({offset}, lane, 0)[0]) < w_.level_of_index(lane);
}

CodeValue BodyEmitter::row_or_fill(const Node& view, const Indices& inner,
                                   const std::vector<Check>& checks) {
  int lane = lanes_.innermost();
  const LaneBlock& block = lanes_.block();
  const StoredNode& stored = stored_.at(view.operands[0]);
  std::string type(c_storage_type(view.dtype));
  ValueKey key{static_cast<NodeId>(&view - graph_.nodes.data()), kIndexTag, {}};
  if (w_.find(key) == nullptr) {
    std::string fills = w_.fresh("fill");
    std::string i = w_.fresh("f");
    w_.line(0, cat(type, " ", fills, "[", block.width, "];"));
    w_.line(0, cat(counting_loop(i, "0", cat(block.width)), " ", fills, "[", i,
                   "] = ", c_literal(view.dtype, attr<ViewAttr>(view).view.fill), ";"));
    w_.remember(key, {fills, 0, -1});
  }
  Expr offset = w_.simplify(linear_position(inner, stored.shape));
  seen_.load_offsets.push_back(offset);
  Expr start = w_.simplify(with_index({offset}, lane, 0)[0]);
  int level = std::max(block.level, w_.level_of(start));
  for (const Check& check : checks) {
    level = std::max({level, w_.level_of(check.position), w_.level_of(check.bound)});
  }
  std::string row = w_.fresh("row");
  w_.line(level,
          cat("const ", type, "* const ", row, " = ", condition(checks), " ? ", stored.pointer,
              " + (", w_.text(start), ") + ", block.begin, " : ", w_.find(key)->text, ";"));
  return declare(w_.level_of_index(lane), view.dtype, cat(row, lanes_.place(lane)));
}

// x to a small constant power, without a call.
CodeValue BodyEmitter::power(const Node& node, const std::vector<CodeValue>& x, bool* done) {
  *done = is_float(node.dtype);
  int level = x[0].level;
  const std::string& base = x[0].text;
  auto is = [&](double exponent) { return x[1].text == c_literal(node.dtype, exponent); };
  if (*done && is(2)) return declare(level, node.dtype, cat(base, " * ", base));
  if (*done && is(3)) return declare(level, node.dtype, cat(base, " * ", base, " * ", base));
  if (*done && is(1)) return x[0];
  if (*done && is(-1)) return declare(level, node.dtype, cat("1 / ", base), {.divisions = 1});
  *done = false;
  return {};
}

CodeValue BodyEmitter::elementwise(const Node& node, const Indices& indices) {
  if (node.op == Op::kSelect) {
    if (auto chosen = choice_by_position(node, indices)) return *chosen;
  }
  // What holds the most reductions comes first: its loops may leave rows for the others.
  std::vector<size_t> order(node.operands.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reduction_depth_[at(node.operands[a])] > reduction_depth_[at(node.operands[b])];
  });
  std::vector<CodeValue> x(order.size());
  int level = 0;
  for (size_t k : order) {
    x[k] = value(node.operands[k], indices);
    level = std::max(level, x[k].level);
  }
  DType from = graph_.node(node.operands[0]).dtype;
  const StepWork work = operation_work(node);
  switch (node.op) {
    case Op::kCast:
      if (node.dtype == DType::kBfloat16 && is_exact_bfloat16(graph_, node.operands[0])) {
        return declare(level, node.dtype, cat("lf_bf16_from_exact(", x[0].text, ")"));
      }
      return declare(level, node.dtype, c_cast(from, node.dtype, x[0].text));
    case Op::kUnary:
      w_.add_instructions(level, unary_instructions(attr<UnaryAttr>(node).op));
      return declare(level, node.dtype, c_unary(attr<UnaryAttr>(node).op, from, x[0].text), work);
    case Op::kSelect:
      return declare(level, node.dtype, cat(x[0].text, " ? ", x[1].text, " : ", x[2].text), work);
    case Op::kPhilox:
      w_.add_instructions(level, kPhiloxInstructions);
      return declare(level, node.dtype,
                     cat("lf_philox_", c_suffix(node.dtype), "(", x[0].text, ", ", x[1].text, ", ",
                         x[2].text, ", ", x[3].text, ")"),
                     work);
    default:
      break;
  }
  BinaryOp op = attr<BinaryAttr>(node).op;
  if (op == BinaryOp::kPow) {
    bool done = false;
    CodeValue result = power(node, x, &done);
    if (done) return result;
  }
  return declare(level, node.dtype, c_binary(op, from, x[0].text, x[1].text), work);
}

Indices BodyEmitter::gathered_position(const Node& node, const Indices& indices) {
  const Node& data = graph_.node(node.operands[0]);
  Indices position;
  const auto& coordinates = attr<GatherAttr>(node).coordinates;
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    const Coordinate& c = coordinates[axis];
    if (c.slot < 0) {
      position.push_back(w_.simplify(c.expr.substitute([&](Var var) -> Expr {
        return var.kind == Var::Kind::kIndex ? indices[at(var.id)] : Expr::var(var);
      })));
      continue;
    }
    NodeId operand = node.operands[at(c.slot) + 1];
    ValueKey key{operand, kIndexTag, indices};
    key.indices.push_back(data.shape[axis]);
    const CodeValue* known = w_.find(key);
    if (known == nullptr) {
      CodeValue x = value(operand, indices);
      CodeValue clamped =
          w_.declare(x.level, "int64_t", "g",
                     cat("lf_clamp_index((int64_t)", x.text, ", ", w_.text(data.shape[axis]), ")"),
                     kFoundPlace);
      clamped.index = w_.bind_index(clamped.text, data.shape[axis], clamped.level);
      w_.remember(key, clamped);
      position.push_back(Expr::index(clamped.index));
      continue;
    }
    position.push_back(Expr::index(known->index));
  }
  return position;
}

}  // namespace common
