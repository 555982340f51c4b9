#include "coordinator/search/partition/packed_panels.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/fallback_form.h"
#include "common/ir/llir/load_time.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/search/partition/rewrites/product_sum.h"
#include "coordinator/search/partition/without_unused.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::contains;
using common::ContractAttr;
using common::Expr;
using common::Graph;
using common::Node;
using common::Op;
using common::ReduceAttr;
using common::Shape;
using common::TileProblem;
using common::View;
using common::ViewAttr;

constexpr int64_t kPanelBytes = 64;  // a vector of the widest kind
constexpr int64_t kFewRows = 4;      // with so few, a matrix is best read as it lies
constexpr uint32_t kAdded = 0x80000000;
constexpr uint32_t kShort = 0xc0000000;

// A matrix and its panels, as views of each other.
struct Panels {
  View panels, matrix;
};

class Layout {
 public:
  // `labels` of the matrix' axes; neighbours along the summed axes stay together by `group`.
  Layout(const Shape& shape, const std::vector<int>& labels, const TileProblem& problem,
         int64_t width, int64_t group)
      : shape_(shape), labels_(labels), problem_(problem), width_(width), group_(group) {}

  Panels views() const {
    Expr columns = problem_.n_size, depth = problem_.k_size;
    Panels result;
    for (int label : problem_.batch) result.panels.shape.push_back(size_of(label));
    int first = static_cast<int>(result.panels.shape.size());
    result.panels.shape.insert(result.panels.shape.end(),
                               {up(columns, width_), up(depth, group_), Expr(width_)});
    Expr column = Expr::index(first) * Expr(width_) + Expr::index(first + 2);
    Expr step = Expr::index(first + 1);
    if (group_ > 1) {
      result.panels.shape.emplace_back(group_);
      step = step * Expr(group_) + Expr::index(first + 3);
    }
    for (int label : labels_) result.panels.index.push_back(index_of(label, column, step));
    if (columns.constant() % width_ != 0) result.panels.valid.push_back({column, columns});
    if (depth.constant() % group_ != 0) result.panels.valid.push_back({step, depth});

    result.matrix.shape = shape_;
    for (int label : problem_.batch) result.matrix.index.push_back(Expr::index(axis_of(label)));
    Expr flat = flat_index(problem_.n), at_depth = flat_index(problem_.k);
    result.matrix.index.push_back(common::floor_div(flat, Expr(width_)));
    result.matrix.index.push_back(common::floor_div(at_depth, Expr(group_)));
    result.matrix.index.push_back(common::mod(flat, Expr(width_)));
    if (group_ > 1) result.matrix.index.push_back(common::mod(at_depth, Expr(group_)));
    return result;
  }

 private:
  static Expr up(const Expr& size, int64_t step) {
    return common::floor_div(size + Expr(step - 1), Expr(step));
  }
  int axis_of(int label) const {
    return static_cast<int>(std::find(labels_.begin(), labels_.end(), label) - labels_.begin());
  }
  Expr size_of(int label) const { return problem_.label_size[static_cast<size_t>(label)]; }
  // Of the matrix' axis with the label, where all its columns are counted by `column` and all
  // summed axes by `step`.
  Expr index_of(int label, const Expr& column, const Expr& step) const {
    auto batch = std::find(problem_.batch.begin(), problem_.batch.end(), label);
    if (batch != problem_.batch.end()) {
      return Expr::index(static_cast<int>(batch - problem_.batch.begin()));
    }
    bool is_column = contains(problem_.n, label);
    const std::vector<int>& all = is_column ? problem_.n : problem_.k;
    Expr value = is_column ? column : step;
    for (size_t k = all.size(); k-- > 0;) {
      Expr size = size_of(all[k]);
      if (all[k] == label) return k == 0 ? value : common::mod(value, size);
      value = common::floor_div(value, size);
    }
    return value;
  }
  Expr flat_index(const std::vector<int>& labels) const {
    Expr flat = 0;
    for (int label : labels) flat = flat * size_of(label) + Expr::index(axis_of(label));
    return flat;
  }

  const Shape& shape_;
  const std::vector<int>& labels_;
  const TileProblem& problem_;
  int64_t width_;
  int64_t group_;
};

class PanelPacker {
 public:
  PanelPacker(Selected&& from, common::Machine machine)
      : from_(std::move(from)),
        has_pairs_(machine == common::Machine::kCpuPairs),
        at_load_(common::load_time_nodes(from_.graph)),
        summed_by_(from_.graph.nodes.size(), -1) {
    for (size_t i = 0; i < from_.graph.nodes.size(); ++i) {
      const Node& node = from_.graph.nodes[i];
      if (!is_product_sum(from_.graph, node)) continue;
      summed_by_[at(node.operands[0])] = static_cast<common::NodeId>(i);
    }
  }

  Selected run() {
    to_.graph.symbols = std::move(from_.graph.symbols);
    to_.graph.inputs = std::move(from_.graph.inputs);
    for (size_t i = 0; i < from_.graph.nodes.size(); ++i) {
      Node node = from_.graph.nodes[i];
      for (common::NodeId& operand : node.operands) operand = moved_[at(operand)];
      if (node.op == Op::kContract && from_.lowering[i] == Lowering::kTile) read_panels(i, node);
      if (summed_by_[i] >= 0) read_rows(i, node);
      moved_.push_back(to_.add(std::move(node), from_.lowering[i], from_.gene[i], from_.choice[i]));
    }
    to_.graph.outputs = std::move(from_.graph.outputs);
    for (auto& output : to_.graph.outputs) output.node = moved_[at(output.node)];
    // What was read only by way of what is read from panels, or in bfloat16.
    return without_unused(std::move(to_));
  }

 private:
  bool is_matrix_worth_it(const Node& contract, common::NodeId matrix,
                          const TileProblem& problem) const {
    const Node& node = from_.graph.node(matrix);
    if (!at_load_[at(matrix)] || problem.k.empty() || problem.n.empty()) return false;
    if (node.dtype != contract.dtype || !common::is_float(node.dtype)) return false;
    if (common::dtype_size(node.dtype) < 4) return false;
    std::vector<int64_t> sizes = common::representative_sizes(to_.graph.symbols);
    return problem.m_size.evaluate(sizes) > kFewRows;
  }

  // The axis of a product that vectors of its sum run along: the last of those that stay.
  int lane_axis(const Node& product, const Node& sum) const {
    const auto& summed = attr<ReduceAttr>(sum).axes;
    for (int k = static_cast<int>(product.shape.size()); k-- > 0;) {
      if (!contains(summed, k) && !product.shape[static_cast<size_t>(k)].is_constant(1)) return k;
    }
    return -1;
  }

  // The axes that the view of a weight walks, the lanes last, where it is better copied in that
  // order; else none.
  std::vector<int> row_order(const Node& view, int lane) const {
    const View& v = attr<ViewAttr>(view).view;
    const Shape& input = from_.graph.node(view.operands[0]).shape;
    auto strided = common::view_strides(v, input, to_.graph.symbols);
    if (!strided || !v.valid.empty() || lane < 0) return {};
    auto stride = [&](int k) { return strided->strides[static_cast<size_t>(k)]; };
    if (stride(lane).is_constant(0) || stride(lane).is_constant(1)) return {};
    std::vector<int> order;
    for (int k = 0; k < static_cast<int>(v.shape.size()); ++k) {
      const Expr& size = v.shape[static_cast<size_t>(k)];
      if (!size.is_constant()) return {};
      if (k != lane && !stride(k).is_constant(0) && !size.is_constant(1)) order.push_back(k);
    }
    order.push_back(lane);
    double elements = 1;
    for (int k : order) {
      elements *= static_cast<double>(v.shape[static_cast<size_t>(k)].constant());
    }
    return elements <= common::count_elements(input, {}) ? order : std::vector<int>{};
  }

  // `product` is node `i` with its operands moved; its weights' lanes lie side by side afterwards.
  void read_rows(size_t i, Node& product) {
    const Node& sum = from_.graph.node(summed_by_[i]);
    for (size_t w : {0, 1}) {
      common::NodeId operand = from_.graph.nodes[i].operands[w];
      std::optional<Node> widened;
      if (from_.graph.node(operand).op == Op::kCast) {
        widened = from_.graph.node(operand);
        operand = widened->operands[0];
      }
      const Node& view = from_.graph.node(operand);
      if (!at_load_[at(operand)] || view.op != Op::kView) continue;
      if (from_.lowering[at(operand)] == Lowering::kCopy) continue;
      std::vector<int> order = row_order(view, lane_axis(product, sum));
      if (order.empty()) continue;
      Shape shape;
      View back;
      back.shape = view.shape;
      std::vector<Expr> places(view.shape.size(), Expr(0));
      for (size_t k = 0; k < order.size(); ++k) {
        places[static_cast<size_t>(order[k])] = Expr::index(static_cast<int>(k));
        shape.push_back(view.shape[static_cast<size_t>(order[k])]);
        back.index.push_back(Expr::index(order[k]));
      }
      View rows = renamed(attr<ViewAttr>(view).view, std::move(shape),
                          [&](int axis) { return places[static_cast<size_t>(axis)]; });
      Node copy{Op::kView, view.dtype, rows.shape, {moved_[at(view.operands[0])]}, ViewAttr{rows}};
      product.operands[w] = add_copy(i, w, std::move(copy), back);
      if (!widened) continue;
      widened->operands = {product.operands[w]};
      product.operands[w] =
          to_.add(*std::move(widened), Lowering::kInPlace, added(from_.gene[i], w, 2),
                  from_.choice[at(from_.graph.nodes[i].operands[w])]);
    }
  }

  // Names for what is added to node `of`, for its operand `k`.
  static uint32_t added(uint32_t of, size_t k, size_t part) {
    return kAdded | of << 3 | static_cast<uint32_t>(4 * k + part);
  }

  // A copy and the view of it that node `i` reads as its operand `k`.
  common::NodeId add_copy(size_t i, size_t k, Node copy, const View& back) {
    common::DType dtype = copy.dtype;
    common::NodeId stored = to_.add(std::move(copy), Lowering::kCopy, added(from_.gene[i], k, 0),
                                    added(from_.choice[i], k, 0));
    Node view{Op::kView, dtype, back.shape, {stored}, ViewAttr{back}};
    return to_.add(std::move(view), Lowering::kInPlace, added(from_.gene[i], k, 1),
                   added(from_.choice[i], k, 1));
  }

  // `contract` is node `i` with its operands moved; its matrix is read from panels afterwards.
  void read_panels(size_t i, Node& contract) {
    const auto& c = attr<ContractAttr>(contract);
    std::optional<size_t> columns = common::column_operand(c);
    if (!columns || common::fallback_form(from_.graph, static_cast<common::NodeId>(i))) return;
    TileProblem problem = common::tile_problem(from_.graph, from_.graph.nodes[i]);
    common::NodeId matrix = from_.graph.nodes[i].operands[*columns];
    if (!is_matrix_worth_it(contract, matrix, problem)) return;
    int64_t group = has_pairs_ && read_short(i, contract) ? 2 : 1;
    int64_t width = kPanelBytes / common::dtype_size(contract.dtype);
    const std::vector<int>& own = *columns == 1 ? c.b : c.a;
    // What a tile makes wider as it reads takes half of the memory.
    const auto narrow = group == 1 ? short_of(matrix) : std::nullopt;
    matrix = narrow.value_or(contract.operands[*columns]);
    Panels views = Layout(to_.graph.node(matrix).shape, own, problem, width, group).views();
    // A copy is not copied again.
    while (to_.lowering[at(matrix)] == Lowering::kCopy) {
      const Node& copy = to_.graph.node(matrix);
      auto composed =
          common::view_compose(views.panels, attr<ViewAttr>(copy).view, to_.graph.symbols);
      if (!composed) break;
      views.panels = *std::move(composed);
      matrix = copy.operands[0];
    }
    common::DType dtype = to_.graph.node(matrix).dtype;
    Node panels{Op::kView, dtype, views.panels.shape, {matrix}, ViewAttr{views.panels}};
    contract.operands[*columns] = add_copy(i, *columns, std::move(panels), views.matrix);
    if (!narrow) return;
    common::NodeId cast = from_.graph.nodes[i].operands[*columns];
    while (from_.graph.node(cast).op == Op::kView) cast = from_.graph.node(cast).operands[0];
    Node wide{Op::kCast, contract.dtype, views.matrix.shape, {contract.operands[*columns]}, {}};
    contract.operands[*columns] =
        to_.add(std::move(wide), Lowering::kInPlace, added(from_.gene[i], *columns, 2),
                from_.choice[at(cast)]);
  }

  // Lets node `i` multiply what its operands were before they were made float32, if that was
  // bfloat16.
  bool read_short(size_t i, Node& contract) {
    std::vector<common::NodeId> operands;
    for (common::NodeId operand : from_.graph.nodes[i].operands) {
      auto narrow = short_of(operand);
      if (!narrow || to_.graph.node(*narrow).dtype != common::DType::kBfloat16) return false;
      operands.push_back(*narrow);
    }
    contract.operands = std::move(operands);
    return true;
  }

  // The same values in the half type that they were in, as a node of to_.
  std::optional<common::NodeId> short_of(common::NodeId id) {
    if (auto known = short_.find(id); known != short_.end()) return known->second;
    const Node& node = from_.graph.node(id);
    std::optional<common::NodeId> result;
    if (common::is_half(node.dtype)) {
      result = moved_[at(id)];
    } else if (node.dtype == common::DType::kFloat32 && node.op == Op::kCast) {
      const Node& source = from_.graph.node(node.operands[0]);
      if (common::is_half(source.dtype)) result = moved_[at(node.operands[0])];
    } else if (node.dtype == common::DType::kFloat32 && node.op == Op::kView &&
               attr<ViewAttr>(node).view.fill == 0) {  // other fills may round
      if (auto source = short_of(node.operands[0])) {
        const common::DType half = to_.graph.node(*source).dtype;
        Node view{Op::kView, half, node.shape, {*source}, node.attr};
        result = to_.add(std::move(view), from_.lowering[at(id)], kShort | from_.gene[at(id)],
                         kShort | from_.choice[at(id)]);
      }
    }
    short_[id] = result;
    return result;
  }

  Selected from_;
  bool has_pairs_;
  std::vector<char> at_load_;
  std::vector<common::NodeId> summed_by_;  // of a product: the node that sums it; else -1
  Selected to_;
  std::vector<common::NodeId> moved_;                              // node of from_ -> node of to_
  std::map<common::NodeId, std::optional<common::NodeId>> short_;  // likewise, in half types
};

}  // namespace

Selected with_packed_panels(Selected selected, common::Machine machine) {
  return PanelPacker(std::move(selected), machine).run();
}

}  // namespace coordinator
