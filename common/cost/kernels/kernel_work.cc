#include "common/cost/kernels/kernel_work.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "common/ir/expr/bounds.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/grouped_form.h"
#include "common/schedule/sort_selection.h"

namespace common {

namespace {

double size_of(const Expr& size, const std::vector<int64_t>& symbols) {
  return static_cast<double>(std::max<int64_t>(1, size.evaluate(symbols)));
}

// A value of 16 bits, or one that only its type has changed since it was.
bool is_half_value(const Graph& body, NodeId id) {
  const Node& node = body.node(id);
  if (is_half(node.dtype)) return true;
  bool is_moved = node.op == Op::kCast || node.op == Op::kView || node.op == Op::kGather;
  return is_moved && is_half_value(body, node.operands[0]);
}

// Whether a view's conditions are that its positions lie in the input, and others read zero: as
// windows of images with a border have them.
bool is_bordered(const View& view, const Shape& input) {
  if (!view.valid.empty() && view.fill != 0) return false;
  return std::all_of(view.valid.begin(), view.valid.end(), [&](const Validity& v) {
    for (size_t d = 0; d < input.size(); ++d) {
      if (v.value == view.index[d] && v.bound == input[d]) return true;
    }
    return false;
  });
}

// An input of 16 bits, or what views and casts make of one.
bool is_half_input(const Graph& body, NodeId id) {
  const Node& node = body.node(id);
  if (node.op == Op::kInput) return is_half(node.dtype);
  if (node.op != Op::kCast && node.op != Op::kView) return false;
  // The copy engine fills the border of images with zeros.
  bool is_moved = node.op == Op::kCast ||
                  is_bordered(attr<ViewAttr>(node).view, body.node(node.operands[0]).shape);
  return is_moved && is_half_input(body, node.operands[0]);
}

// The nodes that the value is computed by, each once: its own and those below it, without inputs
// and constants.
std::set<NodeId> computed_by(const Graph& body, NodeId id) {
  std::set<NodeId> found;
  std::vector<NodeId> open{id};
  while (!open.empty()) {
    NodeId next = open.back();
    open.pop_back();
    const Node& node = body.node(next);
    bool is_read = node.op == Op::kInput || node.op == Op::kConstant;
    if (is_read || !found.insert(next).second) continue;
    open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  return found;
}

// Whether the value takes elements through a view that is not valid everywhere.
bool reads_border(const Graph& body, NodeId id) {
  const std::set<NodeId> nodes = computed_by(body, id);
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId one) {
    const Node& node = body.node(one);
    return node.op == Op::kView && !attr<ViewAttr>(node).view.valid.empty();
  });
}

}  // namespace

size_t shared_prefix(const Graph& body) {
  const Shape& first = body.node(body.outputs[0].node).shape;
  size_t prefix = first.size();
  bool differs = false;
  for (const auto& output : body.outputs) {
    const Shape& shape = body.node(output.node).shape;
    if (shape == first) continue;
    differs = true;
    auto end = std::mismatch(first.begin(), first.end(), shape.begin(), shape.end()).first;
    prefix = std::min(prefix, static_cast<size_t>(end - first.begin()));
  }
  return differs ? prefix : 0;
}

std::vector<int> reduction_depths(const Graph& body) {
  std::vector<int> depths(body.nodes.size(), 0);
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    const Node& node = body.nodes[id];
    for (NodeId operand : node.operands) {
      depths[id] = std::max(depths[id], depths[static_cast<size_t>(operand)]);
    }
    if (node.op == Op::kReduce || node.op == Op::kSoftmax || node.op == Op::kNorm) ++depths[id];
  }
  return depths;
}

double computed_operations(const Graph& body, NodeId id) {
  const std::set<NodeId> nodes = computed_by(body, id);
  auto operations = std::count_if(nodes.begin(), nodes.end(), [&](NodeId one) {
    return body.node(one).op != Op::kView && body.node(one).op != Op::kGather;
  });
  return operations <= 1 && is_half_value(body, id) ? 0 : static_cast<double>(operations);
}

bool is_widened_input(const Graph& body, NodeId id) {
  const Node& node = body.node(id);
  return node.op == Op::kCast && node.dtype == DType::kFloat32 &&
         is_half(body.node(node.operands[0]).dtype) && is_half_input(body, id);
}

ContractionSize contraction_size(const Graph& body, const Node& node,
                                 const std::vector<int64_t>& symbols) {
  TileProblem problem = tile_problem(body, node);
  ContractionSize size;
  size.is_wide = dtype_size(node.dtype) == 8;
  const Node& left = body.node(node.operands[0]);
  const Node& right = body.node(node.operands[1]);
  size.is_short = left.dtype == DType::kBfloat16 && right.dtype == DType::kBfloat16;
  size.is_half = is_half_value(body, node.operands[0]) && is_half_value(body, node.operands[1]);
  size.is_copied = is_half_input(body, node.operands[0]) && is_half_input(body, node.operands[1]);
  size.has_border = reads_border(body, node.operands[0]) || reads_border(body, node.operands[1]);
  for (int label : problem.batch) {
    size.batch *= size_of(problem.label_size[static_cast<size_t>(label)], symbols);
  }
  size.rows = size_of(problem.m_size, symbols);
  size.columns = size_of(problem.n_size, symbols);
  size.steps = size_of(problem.k_size, symbols);
  if (!has_row_order(node)) return size;
  auto id = static_cast<NodeId>(&node - body.nodes.data());
  if (auto form = grouped_form(body, id)) {
    size.rows = std::exchange(size.batch, 1);
    size.groups = size_of(form->groups, symbols);
    const NodeId rows = node.operands[static_cast<size_t>(1 - form->matrices)];
    size.is_copied = is_half_input(body, rows) && is_half_input(body, form->data);
    size.row_operations =
        computed_operations(body, node.operands[static_cast<size_t>(1 - form->matrices)]);
  }
  return size;
}

AttentionSize attention_size(const Kernel& kernel, const AttentionForm& form,
                             const std::vector<int64_t>& symbols) {
  const Graph& body = kernel.body;
  auto is_half = [&](NodeId product, int other) {
    return is_half_value(body, body.node(product).operands[static_cast<size_t>(1 - other)]);
  };
  AttentionSize size;
  size.rows = size_of(form.size(form.rows), symbols);
  size.normalises_first = !form.weights.scales_rows ||
                          schedule_value(kernel.schedule, Template::kAttention, "online") == 0;
  size.rounds = form.weights.rounds_to.has_value() &&
                schedule_value(kernel.schedule, Template::kAttention, "online") != 0;
  size.seen = visible_share(form, symbols);
  auto operations = [&](NodeId product, int operand) {
    return computed_operations(body, body.node(product).operands[static_cast<size_t>(operand)]);
  };
  size.query_operations = operations(form.scores, form.queries);
  size.key_operations = operations(form.scores, 1 - form.queries);
  size.value_operations = operations(form.product, 1 - form.probabilities);
  size.is_half = is_half(form.scores, form.queries) && is_half(form.product, form.probabilities);
  size.batch = size_of(form.size(form.batch), symbols);
  size.keys = size_of(form.label_size[static_cast<size_t>(form.key)], symbols);
  size.depth = contraction_size(body, body.node(form.scores), symbols).steps;
  size.width = size_of(form.size(form.columns), symbols);
  return size;
}

namespace {

// Short lines by insertion, others digit by digit (256 counts a digit, those that are equal in all
// keys are only counted).
SortWork line_work(double length, DType key) {
  constexpr double kShort = 48, kCounts = 256;
  if (length <= kShort) return {length * length / 4, length};
  const double moved = 8 * length + 3 * kCounts, counted = 2 * length;
  return {sort_key_bytes(key) * counted + static_cast<double>(dtype_size(key)) * moved, 0};
}

// Every key is compared with the last of the `count` least so far. Of keys in random order about
// count * (1 + ln(length / count)) are less than it, as the harmonic numbers say.
SortWork selection_work(const SortSelection& selection, double length, double count, DType key) {
  constexpr double kCompared = 2, kTurns = 2;
  const double before = std::min(length, count * (1 + std::log(std::max(1.0, length / count))));
  SortWork work{length * kCompared, before * kTurns};
  if (selection.method == SelectionMethod::kFew) {
    work.steps += before * count / 2;
    return work;
  }
  const auto room = static_cast<double>(selection.room);
  const double sorts = 1 + std::max(0.0, (before - room) / (room - count));
  work.steps += sorts * line_work(std::min(room, length), key).steps;
  return work;
}

}  // namespace

SortWork sort_work(const Graph& body, const Node& node, const SortSize& size) {
  const Node& operand = body.node(node.operands[0]);
  const auto& sort = attr<SortAttr>(node);
  const SortSelection selection =
      sort_selection(operand.shape[static_cast<size_t>(sort.axis)], sort.count);
  const SortWork work =
      selection.method == SelectionMethod::kWhole
          ? line_work(size.length, operand.dtype)
          : selection_work(selection, size.length, static_cast<double>(sort.count), operand.dtype);
  return {size.lines * work.steps, size.lines * work.turns};
}

SortSize sort_size(const Graph& body, const Node& node, const std::vector<int64_t>& symbols) {
  const Node& key = body.node(node.operands[0]);
  const auto axis = static_cast<size_t>(attr<SortAttr>(node).axis);
  const Expr& length = key.shape[axis];
  SortSize size;
  size.length = size_of(length, symbols);
  size.lines = count_elements(key.shape, symbols) / size.length;
  size.blocks = sort_blocks(key.dtype, Bounds(body.symbols, {}).upper(length));
  return size;
}

namespace {

double sum_length(const Graph& body, const Node& sum, const std::vector<int64_t>& symbols) {
  const Shape& operand = body.node(sum.operands[0]).shape;
  double elements = count_elements(operand, symbols);
  double rows = sum.op == Op::kReduce ? count_elements(sum.shape, symbols)
                                      : elements / count_elements({operand.back()}, symbols);
  return elements / std::max(1.0, rows);
}

// Whether a softmax or a norm computes its sums along the axis that the output sorts or scans.
bool is_along_axis(const Graph& body, const Node& node) {
  const Node& output = body.node(body.outputs[0].node);
  int axis = output.op == Op::kSort ? attr<SortAttr>(output).axis : attr<ScanAttr>(output).axis;
  if (node.op == Op::kSoftmax) return attr<SoftmaxAttr>(node).axis == axis;
  int rank = static_cast<int>(node.shape.size());
  return node.op == Op::kNorm && axis >= rank - attr<NormAttr>(node).axes;
}

// Nodes whose elements a line of the output is made of, one of each for an element.
std::vector<char> along_line(const Graph& body) {
  std::vector<char> along(body.nodes.size(), 0);
  const Node& output = body.node(body.outputs[0].node);
  for (NodeId operand : output.operands) along[static_cast<size_t>(operand)] = 1;
  for (size_t id = body.nodes.size(); id-- > 0;) {
    const Node& node = body.nodes[id];
    if (along[id] == 0 || !is_elementwise(node.op)) continue;
    for (NodeId operand : node.operands) along[static_cast<size_t>(operand)] = 1;
  }
  return along;
}

// Threads that walk a line of the output together; 1 where each has lines of its own.
double line_threads(const Graph& body, const std::vector<int64_t>& symbols) {
  constexpr double kScan = 256;
  const Node& output = body.node(body.outputs[0].node);
  if (output.op == Op::kSort) {
    return static_cast<double>(sort_size(body, output, symbols).blocks.key_threads());
  }
  auto axis = static_cast<size_t>(attr<ScanAttr>(output).axis);
  return axis + 1 == output.shape.size() ? kScan : 1;
}

}  // namespace

double longest_sum(const Kernel& kernel, const std::vector<int64_t>& symbols) {
  const Graph& body = kernel.body;
  bool has_lines = kernel.form == Template::kSort || kernel.form == Template::kScan;
  std::vector<char> along = has_lines ? along_line(body) : std::vector<char>(body.nodes.size(), 0);
  double threads = has_lines ? line_threads(body, symbols) : 1;
  double longest = 0;
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    const Node& node = body.nodes[id];
    if (node.op != Op::kReduce && node.op != Op::kSoftmax && node.op != Op::kNorm) continue;
    bool is_shared = along[id] != 0 && is_along_axis(body, node);
    longest = std::max(longest, sum_length(body, node, symbols) / (is_shared ? threads : 1));
  }
  return longest;
}

double effort(const KernelProfile& profile) {
  constexpr double kLanes = 16, kRun = 10, kRowSum = 10, kFunction = 20, kDivision = 6;
  double sum = profile.row_sums * kRowSum;
  for (const WalkedLoop& work : profile.loops) {
    if (work.is_repeated) continue;
    double step =
        work.simple + work.choices + work.divisions * kDivision + work.functions * kFunction;
    double vectors = std::floor(work.extent / kLanes) + std::fmod(work.extent, kLanes) / 2;
    if (work.extent < kLanes) vectors = std::max(1.0, work.extent / 4);
    sum += work.runs * (kRun + step * vectors +
                        (work.jumps + work.turns / 4 + work.calls * kFunction) * work.extent);
  }
  return sum;
}

double visible_share(const AttentionForm& form, const std::vector<int64_t>& symbols) {
  constexpr int64_t kSamples = 8;
  if (!form.weights.keeps_zero || (form.hidden.first.empty() && form.hidden.last.empty())) return 1;
  int64_t keys = form.label_size[static_cast<size_t>(form.key)].evaluate(symbols);
  double seen = 0;
  for (int64_t k = 0; k < kSamples; ++k) {
    std::vector<int64_t> indices(form.label_size.size(), 0);
    for (int label : form.rows) {
      int64_t size = form.label_size[static_cast<size_t>(label)].evaluate(symbols);
      indices[static_cast<size_t>(label)] = size * (2 * k + 1) / (2 * kSamples);
    }
    int64_t first = 0, last = keys - 1;
    for (const Expr& e : form.hidden.first) first = std::max(first, e.evaluate(symbols, indices));
    for (const Expr& e : form.hidden.last) last = std::min(last, e.evaluate(symbols, indices));
    seen += static_cast<double>(std::max<int64_t>(0, last + 1 - first));
  }
  return seen / static_cast<double>(std::max<int64_t>(1, keys) * kSamples);
}

void note_transforms(const Graph& body, const std::vector<int64_t>& symbols,
                     KernelProfile& profile) {
  auto form = fourier_form(body);
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    if (node.op != Op::kFourier) continue;
    double frequencies = count_elements(node.shape, symbols);
    double points = size_of(body.node(node.operands[0]).shape.back(), symbols);
    auto parts = static_cast<double>(node.operands.size());
    profile.transform_products += frequencies * points * parts;
    // A kernel that computes both parts has done so with the first.
    if (form && form->any() != static_cast<NodeId>(i)) continue;
    double rows = frequencies / size_of(node.shape.back(), symbols);
    profile.transform_steps += rows * points * parts * (1 + std::log2(points));
  }
}

Expr at_indices(const Expr& e, const std::vector<Expr>& indices) {
  return e.substitute([&](Var v) -> Expr {
    if (v.kind != Var::Kind::kIndex) return Expr::var(v);
    return indices[static_cast<size_t>(v.id)];
  });
}

}  // namespace common
