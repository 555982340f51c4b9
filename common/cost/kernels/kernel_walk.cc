#include "common/cost/kernels/kernel_walk.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "common/base/contains.h"
#include "common/base/divide_up.h"
#include "common/cost/kernels/kernel_work.h"
#include "common/cost/kernels/profile_loops.h"
#include "common/cost/loop_time.h"
#include "common/cost/operation_cost.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/body_traffic.h"
#include "common/ir/llir/fallback_form.h"
#include "common/ir/llir/grouped_form.h"
#include "common/schedule/cpu_tile.h"

namespace common {
namespace {

using Indices = std::vector<Expr>;
using Order = LoopOrder;
using Place = ProfileLoops::Place;

// In float32 vector units compute what is hard; in float64 a library does, one by one.
constexpr double kLibrary = 15;

// What a generator may decide about a kernel's loops; it takes what is cheapest.
struct Layout {
  Order order;         // of the outputs' loops
  bool lanes = false;  // reductions of neighbours side by side, the outputs' last loop innermost
};

// The first output's loops, and how else a generator may arrange them.
struct OutputLoops {
  Order order;                    // as they come
  std::vector<char> merges = {};  // whether loops k and k + 1 may be one
  // Orders in which a reduction that is repeated in the loops as they come would not be.
  std::set<Order> wishes = {};
  bool wants_lanes = false;
};

// The walk of one layout.
class Walk {
 public:
  Walk(const Graph& body, const std::vector<int64_t>& symbols, const Layout* layout)
      : body_(body),
        symbols_(symbols),
        layout_(layout),
        reductions_(reduction_depths(body)),
        loops_(symbols) {}

  KernelProfile run() {
    for (double bytes : bytes_read(body_, symbols_)) profile_.moved_bytes += bytes;
    for (double bytes : bytes_written(body_, symbols_)) profile_.moved_bytes += bytes;
    for (const auto& input : body_.inputs) {
      profile_.bytes += count_bytes(input.dtype, input.shape, symbols_);
    }
    std::map<std::vector<int64_t>, Indices> nests;
    size_t prefix = shared_prefix(body_);
    Indices shared;
    for (const auto& output : body_.outputs) {
      const Node& node = body_.node(output.node);
      profile_.bytes += count_bytes(node.dtype, node.shape, symbols_);
      std::vector<int64_t> sizes;
      for (const Expr& size : node.shape) sizes.push_back(size.evaluate(symbols_));
      auto [nest, is_new] = nests.emplace(sizes, Indices{});
      if (is_new) {
        // Axes that all outputs begin with have one loop each.
        auto cut = node.shape.begin() + static_cast<std::ptrdiff_t>(prefix);
        if (nests.size() == 1) shared = loops_.open(Shape(node.shape.begin(), cut));
        nest->second = shared;
        for (const Expr& index : loops_.open(Shape(cut, node.shape.end()))) {
          nest->second.push_back(index);
        }
      }
      Order order = order_of(nest->second);
      if (is_new && nests.size() == 1) {
        first_.order = order;
        first_.merges.assign(order.empty() ? 0 : order.size() - 1, 1);
      }
      // Outputs that share outer loops share what is computed in them.
      computed_.enter(prefix > 0 || order.empty() ? 0 : order.front());
      has_own_loops_ = node.shape.size() > prefix;
      if (layout_ != nullptr && order == first_.order) order = layout_->order;
      Context here{order, true};
      demand(output.node, nest->second, here);
      add(nest->second, here, {.simple = 1});  // the store
    }
    if (nests.size() == 1 && (layout_ == nullptr || layout_->order == first_.order)) merge();
    return profile_;
  }

  const OutputLoops& output_loops() const { return first_; }

 private:
  struct Context {
    Order order;
    bool is_output;            // in the outputs' own loops, not in those of a reduction
    bool is_gathered = false;  // read at places that are not known before
    bool is_spread = false;    // in a row so short that a compiler takes many rows at once instead
    bool is_packed = false;    // into panels: by squares, of which each line is read once
  };

  // What is computed again is no part of the work that there is.
  void count(double& total, double times) const {
    if (!repeats_) total += times;
  }

  // Short rows are summed in a few instructions.
  void count_rows(double rows, double length) {
    constexpr double kLong = 16;
    if (length <= kWrittenOut) return;
    count(profile_.row_sums, rows * std::min(1.0, length / kLong));
  }

  void add(const Indices& indices, const Context& at, const StepWork& step) {
    Place p = loops_.place(indices, at.order);
    WalkedLoop work;
    work.runs = p.times;
    work.is_repeated = repeats_;
    work.is_by_columns = by_columns_;
    if (p.is_innermost) {
      work.extent = loops_.extent(at.order.back());
      work.runs = p.times / work.extent;
      work.vectors.is_asked = at.is_output;
    }
    for (WalkedLoop& known : profile_.loops) {
      if (known.runs == work.runs && known.extent == work.extent && known.vectors == work.vectors &&
          known.is_repeated == work.is_repeated && known.is_by_columns == work.is_by_columns) {
        known += step;
        return;
      }
    }
    work += step;
    profile_.loops.push_back(work);
  }

  // The innermost loops are one where whatever they read lies in their order.
  void merge() {
    const Order& order = first_.order;
    if (order.empty()) return;
    double inner = loops_.extent(order.back()), more = 1;
    for (size_t k = first_.merges.size(); k-- > 0 && first_.merges[k] != 0;) {
      more *= loops_.extent(order[k]);
    }
    for (WalkedLoop& work : profile_.loops) {
      if (!work.vectors.is_asked || work.extent != inner) continue;
      work.extent *= more;
      work.runs /= more;
    }
  }

  void demand(NodeId id, const Indices& indices, const Context& at) {
    const Node& node = body_.node(id);
    if (node.op == Op::kView) return demand_view(node, indices, at);
    Place p = loops_.place(indices, at.order);
    double times = p.times;
    size_t loop = p.is_innermost ? at.order.back() + 1 : 0;
    if (computed_.is_kept(id, loop, times)) return;
    // What is only read is read again: rows are kept of what was computed.
    bool is_read = node.op == Op::kInput || node.op == Op::kGather;
    bool repeats = computed_.was_computed(id, times) && !is_read;
    if (repeats && loop == 0) return;
    bool around = std::exchange(repeats_, repeats_ || repeats);
    compute(id, indices, at, times);
    repeats_ = around;
  }

  void compute(NodeId id, const Indices& indices, const Context& at, double times) {
    const Node& node = body_.node(id);
    switch (node.op) {
      case Op::kConstant:
        return;
      case Op::kIota:
        return note_merges([&](const std::vector<int64_t>& loops) {
          return indices.empty() ? 0 : indices[0].evaluate(symbols_, loops);
        });
      case Op::kInput:
        return note_load(node, indices, at);
      case Op::kReduce:
        return demand_reduce(node, indices, at);
      case Op::kContract:
        return demand_contract(node, times);
      case Op::kFourier:
        // Both parts are of one transform, whose operands are read once.
        if (!transformed_.insert(node.operands).second) return;
        break;
      case Op::kSoftmax:
      case Op::kNorm:
        return demand_row(node, indices, at, times);
      case Op::kGather:
        return demand_gather(node, indices, at, times);
      case Op::kScatter:
        return demand_scatter(node, indices, at);
      case Op::kScan:
        note_scan(node, times);
        break;
      case Op::kSort:
        note_sort(node);
        break;
      default:
        note_operation(node, indices, at, times);
    }
    // What is summed is computed for the sum first, in whatever order an operation names the two.
    std::vector<NodeId> operands = node.operands;
    std::stable_sort(operands.begin(), operands.end(), [&](NodeId a, NodeId b) {
      return reductions_[static_cast<size_t>(a)] > reductions_[static_cast<size_t>(b)];
    });
    for (NodeId operand : operands) {
      // All of a line is sorted for some of its positions.
      const bool is_whole = node.op != Op::kSort || attr<SortAttr>(node).count == 0;
      bool is_aligned =
          node.op != Op::kFourier && is_whole && body_.node(operand).shape.size() == indices.size();
      Indices own;
      if (!is_aligned) own = loops_.open(body_.node(operand).shape);
      demand(operand, is_aligned ? indices : own, is_aligned ? at : Context{order_of(own), false});
    }
  }

  // Carried in float64. Along the last axis each step waits for the one before; along another one
  // its neighbours go with it, through memory.
  void note_scan(const Node& node, double times) {
    constexpr double kWaits = 10, kBeside = 1.5;
    auto axis = static_cast<size_t>(attr<ScanAttr>(node).axis);
    count(profile_.row_ops, times * (axis + 1 == node.shape.size() ? kWaits : kBeside));
  }

  void note_sort(const Node& node) {
    profile_.sort = sort_size(body_, node, symbols_);
    SortWork work = sort_work(body_, node, profile_.sort);
    count(profile_.sort_steps, work.steps);
    count(profile_.sort_turns, work.turns);
  }

  void note_operation(const Node& node, const Indices& indices, const Context& at, double times) {
    OperationCost cost = operation_cost(node);
    if (cost.hardness == Hardness::kSimple) {
      count(profile_.simple_ops, times);
    } else {
      count(profile_.hard_ops, times * (node.dtype == DType::kFloat64 ? kLibrary : 1));
    }
    add(indices, at, operation_work(node));
  }

  static Indices through(const Node& view, const Indices& indices) {
    Indices seen;
    for (const Expr& e : attr<ViewAttr>(view).view.index) {
      seen.push_back(at_indices(e, indices));
    }
    return seen;
  }

  void demand_view(const Node& node, const Indices& indices, const Context& at) {
    const View& view = attr<ViewAttr>(node).view;
    if (!view.valid.empty()) {
      add(indices, at, {.simple = 3});  // a vector of conditions masks what is read
      std::fill(first_.merges.begin(), first_.merges.end(), 0);
    }
    demand(node.operands[0], through(node, indices), at);
  }

  // A kernel with one output may go by squares, so that both sides are read a line at a time.
  // `lines`: steps that touch lines of their own, before any line is asked for again.
  StepWork jump(const Context& at, double lines) const {
    bool by_squares = at.is_output && body_.outputs.size() == 1;
    if (by_squares) return {.turns = 1};
    return {.jumps = lines >= kFirstCacheLines && !at.is_packed ? kLineJump : 1};
  }

  // How many lines a load touches, by its offset in a loop nest, before it comes back to one.
  template <class Offset>
  double lines_between(const Order& order, Offset offset) const {
    constexpr int64_t kLine = 16;
    std::vector<int64_t> loops(loops_.count(), 0);
    const int64_t begin = offset(loops);
    double lines = 1;
    for (size_t k = order.size(); k-- > 0;) {
      loops[order[k]] = 1;
      if (std::abs(offset(loops) - begin) < kLine) break;
      loops[order[k]] = 0;
      lines *= loops_.extent(order[k]);
    }
    return lines;
  }

  template <class Offset>
  void note_merges(Offset offset) {
    std::vector<int64_t> loops(loops_.count(), 0);
    int64_t begin = offset(loops);
    auto stride = [&](size_t loop) {
      loops[loop] = 1;
      int64_t step = offset(loops) - begin;
      loops[loop] = 0;
      return step;
    };
    for (size_t k = 0; k < first_.merges.size(); ++k) {
      size_t outer = first_.order[k], inner = first_.order[k + 1];
      auto extent = static_cast<int64_t>(loops_.extent(inner));
      if (stride(outer) != stride(inner) * extent) first_.merges[k] = 0;
    }
  }

  // Neighbours in the innermost loop that lie side by side are loaded at once.
  void note_load(const Node& node, const Indices& indices, const Context& at) {
    auto offset_at = [&](const std::vector<int64_t>& loops) {
      int64_t sum = 0;
      for (size_t k = 0; k < indices.size(); ++k) {
        sum = sum * node.shape[k].evaluate(symbols_) + indices[k].evaluate(symbols_, loops);
      }
      return sum;
    };
    note_merges(offset_at);
    Place p = loops_.place(indices, at.order);
    if (!p.is_innermost) return add(indices, at, {.simple = 1});
    size_t last = at.order.back();
    std::vector<int64_t> loops(loops_.count(), 0);
    auto offset = [&](int64_t step) {
      loops[last] = step;
      return offset_at(loops);
    };
    auto end = static_cast<int64_t>(loops_.extent(last)) - 1;
    int64_t begin = offset(0);
    int64_t stride = offset(1) - begin;
    if (offset(end) - begin != stride * end || offset(end / 2) - begin != stride * (end / 2)) {
      count(profile_.folded_reads, p.times);
    }
    // Of rows side by side each load takes elements that are a row apart.
    if (stride == 1 && at.is_spread) return add(indices, at, {.jumps = 1});
    if (stride == 0 || stride == 1) return add(indices, at, {.simple = 1});
    add(indices, at, jump(at, lines_between(at.order, offset_at)));
  }

  // The loops that an index tensor's value depends on.
  void note_sources(NodeId id, const Indices& indices, std::set<size_t>& loops,
                    std::set<NodeId>& seen) const {
    if (!seen.insert(id).second) return;
    const Node& node = body_.node(id);
    if (node.op == Op::kView) {
      return note_sources(node.operands[0], through(node, indices), loops, seen);
    }
    bool is_leaf = node.op == Op::kInput || node.op == Op::kIota;
    for (NodeId operand : node.operands) {
      if (body_.node(operand).shape.size() != indices.size()) is_leaf = true;
    }
    if (is_leaf) {
      std::vector<char> used = loops_.uses(indices);
      for (size_t loop = 0; loop < used.size(); ++loop) {
        if (used[loop] != 0) loops.insert(loop);
      }
      return;
    }
    for (NodeId operand : node.operands) note_sources(operand, indices, loops, seen);
  }

  // Rows that are read one element after the other are found once each.
  void demand_gather(const Node& node, const Indices& indices, const Context& at, double times) {
    std::set<size_t> found_by;
    for (size_t k = 1; k < node.operands.size(); ++k) {
      std::set<NodeId> seen;
      note_sources(node.operands[k], indices, found_by, seen);
      demand(node.operands[k], indices, at);
    }
    // Stands for the value of the index: some expression of the loops that it depends on. Steps of
    // kApart are longer than any row, so that a division by a row's length keeps the dependence.
    constexpr int64_t kApart = 2'147'483'647;
    Expr anywhere;
    for (size_t loop : found_by) anywhere += Expr::index(static_cast<int>(loop)) * Expr(kApart);
    Indices seen;
    for (const Coordinate& c : attr<GatherAttr>(node).coordinates) {
      seen.push_back(c.slot >= 0 ? anywhere : at_indices(c.expr, indices));
    }
    bool by_elements = !at.order.empty() && found_by.count(at.order.back()) != 0;
    count(profile_.simple_ops, times);
    if (by_elements) {
      add(indices, at, {.jumps = 1});
      add(indices, at, {.simple = 8});  // the place, eight bytes wide, is held inside
    } else {
      count(profile_.random_reads, loops_.place({anywhere}, at.order).times);
    }
    if (body_.node(node.operands[0]).op == Op::kInput && by_elements) return;
    Context within = at;
    within.is_gathered = true;
    demand(node.operands[0], seen, within);
  }

  // What the base holds already stays where it is; the rest is done once an update.
  void demand_scatter(const Node& node, const Indices& indices, const Context& at) {
    demand(node.operands[0], indices, at);
    Indices updates = loops_.open(body_.node(node.operands[1]).shape);
    Context inner{order_of(updates), false};
    count(profile_.random_reads, loops_.place(updates, inner.order).times);
    for (size_t k = 1; k < node.operands.size(); ++k) demand(node.operands[k], updates, inner);
  }

  void demand_reduce(const Node& node, const Indices& indices, const Context& at) {
    const auto& axes = attr<ReduceAttr>(node).axes;
    const Node& operand = body_.node(node.operands[0]);
    Indices inner;
    Order loops;
    size_t kept = 0;
    for (size_t k = 0; k < operand.shape.size(); ++k) {
      if (!contains(axes, static_cast<int>(k))) {
        inner.push_back(indices[kept++]);
        continue;
      }
      Indices own = loops_.open({operand.shape[k]});
      for (size_t loop : order_of(own)) loops.push_back(loop);
      inner.push_back(own[0]);
    }
    Place p = loops_.place(indices, at.order);
    if (at.is_output) wish(indices, at.order);
    bool in_lanes = at.is_output && !at.is_gathered && p.is_innermost && has_own_loops_;
    first_.wants_lanes = first_.wants_lanes || in_lanes;
    in_lanes = in_lanes && layout_ != nullptr && layout_->lanes;
    Context within{Order(at.order.begin(), at.order.begin() + static_cast<std::ptrdiff_t>(p.depth)),
                   false};
    if (in_lanes) within.order.pop_back();
    within.order.insert(within.order.end(), loops.begin(), loops.end());
    if (in_lanes) within.order.push_back(at.order.back());
    double length = 1;
    for (size_t loop : loops) length *= loops_.extent(loop);
    double steps = p.times * length;
    within.is_spread = at.is_output && p.is_innermost && has_own_loops_ && !in_lanes &&
                       length > 1 && length <= kWrittenOut;
    count(in_lanes ? profile_.simple_ops : profile_.row_ops, steps);
    if (!in_lanes && !loops.empty()) {
      double row = loops_.extent(loops.back());
      count(profile_.row_sums, steps / row * row_end_work(body_, node, row).row_sums);
    }
    if (in_lanes) {
      // From their first values on to the last, in loops of their own whose lengths a compiler does
      // not know.
      add(indices, at, {.simple = 3});
      count(profile_.lane_blocks, p.times / loops_.extent(at.order.back()));
    }
    add(inner, within, in_lanes ? lane_reduction_work(node, true) : reduction_work(body_, node));
    demand(node.operands[0], inner, within);
  }

  // The loops that the value depends on first: then it is computed once for all the others.
  void wish(const Indices& indices, const Order& order) {
    if (order != first_.order || shared_prefix(body_) != 0) return;
    std::vector<char> used = loops_.uses(indices);
    Order first;
    for (char wanted : {1, 0}) {
      for (size_t loop : order) {
        if (used[loop] == wanted) first.push_back(loop);
      }
    }
    if (first != order && first.back() == order.back()) first_.wishes.insert(first);
  }

  void demand_contract(const Node& node, double times) {
    if (common::fallback_form(body_, static_cast<NodeId>(&node - body_.nodes.data()))) return;
    ContractionSize size = contraction_size(body_, node, symbols_);
    profile_.contraction = size;
    count(profile_.contraction_ops, times * size.steps);
    // Of matrices that rows choose among, each is read as it is.
    const auto grouped = has_row_order(node)
                             ? grouped_form(body_, static_cast<NodeId>(&node - body_.nodes.data()))
                             : std::nullopt;
    // Operands are packed, not read once per product.
    const TileProblem problem = tile_problem(body_, node);
    const size_t columns = problem.swapped ? 0 : 1;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      NodeId operand = node.operands[k];
      if (grouped && static_cast<size_t>(grouped->matrices) == k) continue;
      Indices packed = loops_.open(body_.node(operand).shape);
      Order order = k == columns ? Order{} : row_blocks(problem, operand);
      for (size_t loop : order_of(packed)) order.push_back(loop);
      if (k == columns && is_widened_input(body_, operand)) {
        operand = body_.node(operand).operands[0];
      }
      Context at{order, false};
      at.is_packed = true;
      demand(operand, packed, at);
    }
    demand_by_columns(node, problem);
  }

  // A loop over the blocks of columns for each of which a product's rows are computed; none where
  // they are only read, which costs little.
  Order row_blocks(const TileProblem& problem, NodeId rows) {
    if (problem.n.empty() || computed_operations(body_, rows) == 0) return {};
    const int64_t columns = problem.n_size.evaluate(symbols_);
    const int64_t block =
        columns_beside_packed_rows(columns, shares_rows(problem.m_size, body_.symbols));
    return order_of(loops_.open({Expr(divide_up(columns, block))}));
  }

  // What the rows of a skinny product cost where they are not packed.
  void demand_by_columns(const Node& node, const TileProblem& problem) {
    if (!has_few_rows(problem) || has_row_order(node)) return;
    const auto& c = attr<ContractAttr>(node);
    const std::vector<int>& labels = problem.swapped ? c.a : c.b;
    NodeId columns = node.operands[problem.swapped ? 0 : 1];
    NodeId rows = node.operands[problem.swapped ? 1 : 0];
    bool along_sums = body_.node(columns).op == Op::kInput && !labels.empty() &&
                      contains(problem.k, labels.back());
    if (!along_sums && !problem.m_size.is_constant(1)) return;
    Order order = order_of(loops_.open({problem.n_size}));
    Indices walked = loops_.open(body_.node(rows).shape);
    for (size_t loop : order_of(walked)) order.push_back(loop);
    bool around = std::exchange(repeats_, true);
    by_columns_ = true;
    demand(rows, walked, {order, false});
    by_columns_ = false;
    repeats_ = around;
  }

  void demand_row(const Node& node, const Indices& indices, const Context& at, double times) {
    bool is_softmax = node.op == Op::kSoftmax;
    size_t rank = node.shape.size();
    size_t axis = is_softmax ? static_cast<size_t>(attr<SoftmaxAttr>(node).axis)
                             : rank - static_cast<size_t>(attr<NormAttr>(node).axes);
    // The statistics, a row at a time, and then each element.
    Indices outer = indices, inner = indices;
    Order loops;
    for (size_t k = axis; k < (is_softmax ? axis + 1 : rank); ++k) {
      Indices own = loops_.open({node.shape[k]});
      for (size_t loop : order_of(own)) loops.push_back(loop);
      inner[k] = own[0];
      outer[k] = 0;
    }
    Place p = loops_.place(outer, at.order);
    Context within{Order(at.order.begin(), at.order.begin() + static_cast<std::ptrdiff_t>(p.depth)),
                   false};
    within.order.insert(within.order.end(), loops.begin(), loops.end());
    double length = 1;
    for (size_t loop : loops) length *= loops_.extent(loop);
    const double work = times + p.times * length;  // of elements, and of the rows' statistics
    count(is_softmax ? profile_.hard_ops : profile_.simple_ops, work);
    count(profile_.simple_ops, work);
    count_rows(2 * p.times, length);
    add(inner, within, {.simple = 4});
    if (is_softmax) {
      add(inner, within, {.functions = 1});
      bool around = std::exchange(repeats_, true);
      add(indices, at, {.functions = 1});
      repeats_ = around;
    } else {
      add(outer, at, {.divisions = 2});
    }
    add(indices, at, {.simple = 2});
    demand(node.operands[0], inner, within);
    demand(node.operands[0], indices, at);
  }

  const Graph& body_;
  const std::vector<int64_t>& symbols_;
  const Layout* layout_;
  std::vector<int> reductions_;  // by node: how many one after the other it waits for, with its own
  KernelProfile profile_;
  ProfileLoops loops_;
  OutputLoops first_;
  ComputedValues computed_;
  bool repeats_ = false;
  bool by_columns_ = false;
  std::set<std::vector<NodeId>> transformed_;
  bool has_own_loops_ = true;  // the present output, beside those shared with all others
};

}  // namespace

KernelProfile walk_body(const Graph& body, const std::vector<int64_t>& symbols,
                        bool tries_layouts) {
  Walk plain(body, symbols, nullptr);
  KernelProfile best = plain.run();
  if (!tries_layouts) return best;
  double least = effort(best);
  std::vector<Layout> layouts;
  const OutputLoops& loops = plain.output_loops();
  if (loops.wants_lanes) layouts.push_back({loops.order, true});
  for (const Order& order : loops.wishes) {
    layouts.push_back({order, false});
    if (loops.wants_lanes) layouts.push_back({order, true});
  }
  constexpr size_t kTried = 5;
  if (layouts.size() > kTried) layouts.resize(kTried);
  for (const Layout& layout : layouts) {
    KernelProfile other = Walk(body, symbols, &layout).run();
    double sum = effort(other);
    if (sum >= least) continue;
    least = sum;
    best = std::move(other);
  }
  return best;
}

}  // namespace common
