#include "common/ir/llir/grouped_form.h"

#include <algorithm>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/view.h"

namespace common {
namespace {

struct Element {
  NodeId node = 0;
  std::vector<Expr> position;
};

std::vector<Expr> own_position(const Shape& shape) {
  std::vector<Expr> position;
  for (size_t k = 0; k < shape.size(); ++k) position.push_back(Expr::index(static_cast<int>(k)));
  return position;
}

// To a type that holds every value of the operand's.
bool is_widening(const Graph& body, const Node& node) {
  if (node.op != Op::kCast) return false;
  const DType from = body.node(node.operands[0]).dtype;
  return is_float(from) && is_float(node.dtype) && dtype_size(from) < dtype_size(node.dtype);
}

// What the element is read from, through views that are valid everywhere and, where `casts`, casts
// that round nothing.
Element source_of(const Graph& body, Element x, const Bounds& bounds, bool casts) {
  for (;;) {
    const Node& node = body.node(x.node);
    if (node.op == Op::kView && attr<ViewAttr>(node).view.valid.empty()) {
      x.position = with_indices(attr<ViewAttr>(node).view.index, x.position);
      for (Expr& e : x.position) e = bounds.simplify(e);
    } else if (!casts || !is_widening(body, node)) {
      return x;
    }
    x.node = node.operands[0];
  }
}

bool uses_only(const std::vector<Expr>& position, int axis) {
  bool only = true;
  for (const Expr& e : position) {
    e.visit_vars([&](Var v) { only = only && (v.kind != Var::Kind::kIndex || v.id == axis); });
  }
  return only;
}

std::vector<Expr> renamed(std::vector<Expr> position, const std::vector<Expr>& names) {
  for (Expr& e : position) e = with_indices(e, names);
  return position;
}

// The one axis that is read at an index; -1 where there is none or more.
int gathered_axis(const Node& gather) {
  int axis = -1;
  const auto& coordinates = attr<GatherAttr>(gather).coordinates;
  for (size_t k = 0; k < coordinates.size(); ++k) {
    if (coordinates[k].slot < 0) continue;
    if (axis >= 0) return -1;
    axis = static_cast<int>(k);
  }
  return axis;
}

// The label that both operands and the output have, if there is one.
std::optional<int> shared_label(const ContractAttr& c) {
  std::optional<int> shared;
  for (int label : c.out) {
    if (!contains(c.a, label) || !contains(c.b, label)) continue;
    if (shared) return std::nullopt;
    shared = label;
  }
  return shared;
}

int position_of(const std::vector<int>& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

// Fills in where the matrices and their numbers are read.
bool find_matrices(const Graph& body, const std::vector<int>& labels, GroupedForm& form) {
  NodeId operand = body.node(form.product).operands[at(form.matrices)];
  const Shape& shape = body.node(operand).shape;
  const int row = position_of(labels, form.row);
  Bounds bounds = loop_bounds(shape, body.symbols);
  Element gathered = source_of(body, {operand, own_position(shape)}, bounds, true);
  const Node& gather = body.node(gathered.node);
  if (gather.op != Op::kGather || gathered_axis(gather) < 0) return false;
  const int axis = gathered_axis(gather);
  const auto& coordinates = attr<GatherAttr>(gather).coordinates;
  Element index =
      source_of(body, {gather.operands[at(coordinates[at(axis)].slot) + 1], gathered.position},
                bounds, false);
  if (!uses_only(index.position, row)) return false;
  // The group takes the place of a further axis.
  const auto group = static_cast<int>(shape.size());
  Element data{gather.operands[0], {}};
  for (size_t k = 0; k < coordinates.size(); ++k) {
    data.position.push_back(static_cast<int>(k) == axis
                                ? Expr::index(group)
                                : with_indices(coordinates[k].expr, gathered.position));
  }
  form.groups = body.node(data.node).shape[at(axis)];
  Shape with_group = shape;
  with_group.push_back(form.groups);
  data = source_of(body, std::move(data), loop_bounds(with_group, body.symbols), true);
  std::vector<Expr> names(with_group.size(), Expr(0));
  names[at(group)] = Expr::index(0);
  int next = 1;
  for (int k = 0; k < group; ++k) {
    if (k != row) names[at(k)] = Expr::index(next++);
  }
  for (const Expr& e : data.position) {
    if (e.uses(Var{Var::Kind::kIndex, row})) return false;
  }
  form.index = index.node;
  std::vector<Expr> row_only(shape.size(), Expr(0));
  row_only[at(row)] = Expr::index(0);
  form.index_at = renamed(std::move(index.position), row_only);
  form.data = data.node;
  form.data_at = renamed(std::move(data.position), names);
  return true;
}

}  // namespace

std::optional<GroupedForm> grouped_form(const Graph& body, NodeId product) {
  const Node& node = body.node(product);
  if (node.op != Op::kContract) return std::nullopt;
  const auto& c = attr<ContractAttr>(node);
  auto row = shared_label(c);
  if (!row || c.out.back() == *row) return std::nullopt;
  for (int matrices : {1, 0}) {
    const std::vector<int>& labels = matrices == 1 ? c.b : c.a;
    const std::vector<int>& other = matrices == 1 ? c.a : c.b;
    bool has_columns = std::any_of(labels.begin(), labels.end(), [&](int label) {
      return contains(c.out, label) && !contains(other, label);
    });
    bool has_rows_alone = std::all_of(other.begin(), other.end(), [&](int label) {
      return label == *row || !contains(c.out, label);
    });
    bool sums_alike = std::all_of(labels.begin(), labels.end(), [&](int label) {
      return contains(c.out, label) || contains(other, label);
    });
    if (!has_columns || !has_rows_alone || !sums_alike) continue;
    GroupedForm form;
    form.product = product;
    form.order = node.operands.size() == 3 ? node.operands[2] : -1;
    form.row = *row;
    form.matrices = matrices;
    if (find_matrices(body, labels, form)) return form;
  }
  return std::nullopt;
}

bool has_row_order(const Node& node) {
  return node.op == Op::kContract && node.operands.size() == 3;
}

bool has_row_order(const Graph& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(),
                     [](const Node& node) { return has_row_order(node); });
}

GroupProduct group_product(const Graph& body, const GroupedForm& form) {
  GroupProduct result;
  result.body = body;
  std::vector<Node>& nodes = result.body.nodes;
  nodes.clear();
  std::vector<NodeId> renamed;
  auto add = [&](Node node) {
    nodes.push_back(std::move(node));
    return static_cast<NodeId>(nodes.size()) - 1;
  };
  auto view_of = [&](NodeId x, Shape shape, const std::vector<Expr>& index) {
    View view{shape, index, {}, 0};
    return add({Op::kView, nodes[at(x)].dtype, std::move(shape), {x}, ViewAttr{std::move(view)}});
  };
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    Node copy = body.nodes[id];
    for (NodeId& operand : copy.operands) operand = renamed[at(operand)];
    if (static_cast<NodeId>(id) != form.product) {
      renamed.push_back(add(std::move(copy)));
      continue;
    }
    auto& c = std::get<ContractAttr>(copy.attr);
    for (const auto* labels : {&c.a, &c.b}) {
      for (int label : *labels) result.group = std::max(result.group, label + 1);
    }
    std::vector<int>& labels = form.matrices == 1 ? c.b : c.a;
    const int row = position_of(labels, form.row);
    Shape shape = nodes[at(copy.operands[at(form.matrices)])].shape;
    result.groups = form.groups;
    result.rows = shape[at(row)];
    shape.erase(shape.begin() + row);
    shape.insert(shape.begin(), form.groups);
    labels.erase(labels.begin() + row);
    labels.insert(labels.begin(), result.group);
    const DType dtype = nodes[at(copy.operands[at(form.matrices)])].dtype;
    NodeId matrix = view_of(renamed[at(form.data)], shape, form.data_at);
    if (nodes[at(matrix)].dtype != dtype) matrix = add({Op::kCast, dtype, shape, {matrix}, {}});
    result.group_of = view_of(renamed[at(form.index)], {result.rows}, form.index_at);
    result.order = renamed[at(form.order)];
    copy.operands.resize(2);
    copy.operands[at(form.matrices)] = matrix;
    result.product = add(std::move(copy));
    renamed.push_back(result.product);
  }
  for (GraphOutput& output : result.body.outputs) output.node = renamed[at(output.node)];
  return result;
}

}  // namespace common
