#include "common/ir/hlir/gemm_form.h"

#include <algorithm>

#include "common/ir/expr/index.h"

namespace common {
namespace {

// Element strides of one operand by label, seen through an optional view.
struct Labelled {
  int input = -1;
  Expr offset;
  std::vector<std::pair<int, Expr>> strides;  // label -> stride
  Expr stride(int label) const {
    for (const auto& [l, s] : strides) {
      if (l == label) return s;
    }
    return 0;
  }
  bool has(int label) const {
    return std::any_of(strides.begin(), strides.end(),
                       [&](const auto& entry) { return entry.first == label; });
  }
};

std::optional<Labelled> labelled_operand(const Graph& body, NodeId id,
                                         const std::vector<int>& labels) {
  const Node* node = &body.node(id);
  View view = view_identity(node->shape);
  if (node->op == Op::kView) {
    view = attr<ViewAttr>(*node).view;
    if (!view.valid.empty()) return std::nullopt;
    node = &body.node(node->operands[0]);
  }
  if (node->op != Op::kInput) return std::nullopt;
  auto strided = view_strides(view, node->shape, body.symbols);
  if (!strided) return std::nullopt;
  Labelled result;
  result.input = attr<InputAttr>(*node).position;
  result.offset = strided->offset;
  for (size_t k = 0; k < labels.size(); ++k) {
    result.strides.emplace_back(labels[k], strided->strides[k]);
  }
  return result;
}

// A run of labels that the operands step through as one axis: (size, innermost label).
struct Axis {
  Expr size = 1;
  int innermost = -1;
};

// Joins labels, outermost first, when every operand that has them steps evenly across them.
std::optional<Axis> fuse(const std::vector<int>& labels, const std::vector<Expr>& sizes,
                         const std::vector<const Labelled*>& operands) {
  Axis axis;
  if (labels.empty()) return axis;
  axis.innermost = labels.back();
  axis.size = sizes[at(axis.innermost)];
  for (size_t k = labels.size() - 1; k-- > 0;) {
    for (const Labelled* operand : operands) {
      if (operand->stride(labels[k]) != operand->stride(axis.innermost) * axis.size) {
        return std::nullopt;
      }
    }
    axis.size *= sizes[at(labels[k])];
  }
  return axis;
}

bool has_unit_stride(const GemmOperand& o) {
  return o.row_stride.is_constant(1) || o.column_stride.is_constant(1);
}

// Libraries step forwards only.
bool steps_forwards(const GemmOperand& o, const Bounds& bounds) {
  return bounds.provably_non_negative(o.batch_stride) &&
         bounds.provably_non_negative(o.row_stride) &&
         bounds.provably_non_negative(o.column_stride);
}

// The contraction's labels by role; empty when it is not a product of two operands.
struct Roles {
  std::vector<int> batch, m, n, k;
};

std::optional<Roles> roles_of(const ContractAttr& c, const Labelled& a, const Labelled& b,
                              const Labelled& out) {
  Roles roles;
  for (int label : c.out) {
    if (a.has(label) && b.has(label)) {
      roles.batch.push_back(label);
    } else {
      (a.has(label) ? roles.m : roles.n).push_back(label);
    }
  }
  for (int label : c.a) {
    if (out.has(label)) continue;
    if (!b.has(label)) return std::nullopt;  // a sum over one operand alone is no product
    roles.k.push_back(label);
  }
  for (int label : c.b) {
    if (!out.has(label) && !a.has(label)) return std::nullopt;
  }
  return roles;
}

// An axis of size 1 has no meaningful stride, so it never blocks the library call.
void settle_single_axes(GemmForm& form) {
  if (!has_unit_stride(form.a) && form.m.is_constant(1)) form.a.row_stride = 1;
  if (!has_unit_stride(form.a) && form.k.is_constant(1)) form.a.column_stride = 1;
  if (!has_unit_stride(form.b) && form.n.is_constant(1)) form.b.column_stride = 1;
  if (!has_unit_stride(form.b) && form.k.is_constant(1)) form.b.row_stride = 1;
}

// The size of each label.
std::vector<Expr> label_sizes(const Graph& body, const Node& root) {
  const auto& c = attr<ContractAttr>(root);
  int count = 0;
  for (const auto* labels : {&c.a, &c.b}) {
    for (int label : *labels) count = std::max(count, label + 1);
  }
  std::vector<Expr> sizes(at(count), Expr(1));
  for (size_t k = 0; k < c.a.size(); ++k) sizes[at(c.a[k])] = body.node(root.operands[0]).shape[k];
  for (size_t k = 0; k < c.b.size(); ++k) sizes[at(c.b[k])] = body.node(root.operands[1]).shape[k];
  return sizes;
}

}  // namespace

std::optional<GemmForm> gemm_form(const Graph& body) {
  if (body.outputs.size() != 1) return std::nullopt;
  const Node& root = body.node(body.outputs[0].node);
  if (root.op != Op::kContract) return std::nullopt;
  const auto& c = attr<ContractAttr>(root);
  for (NodeId operand : root.operands) {
    if (body.node(operand).dtype != root.dtype) return std::nullopt;
  }
  auto a = labelled_operand(body, root.operands[0], c.a);
  auto b = labelled_operand(body, root.operands[1], c.b);
  if (!a || !b) return std::nullopt;
  std::vector<Expr> sizes = label_sizes(body, root);

  Labelled out;
  out.offset = 0;
  Expr below = 1;
  for (size_t k = c.out.size(); k-- > 0;) {
    out.strides.emplace_back(c.out[k], below);
    below *= sizes[at(c.out[k])];
  }
  auto roles = roles_of(c, *a, *b, out);
  if (!roles) return std::nullopt;
  auto batch_axis = fuse(roles->batch, sizes, {&*a, &*b, &out});
  auto m_axis = fuse(roles->m, sizes, {&*a, &out});
  auto n_axis = fuse(roles->n, sizes, {&*b, &out});
  auto k_axis = fuse(roles->k, sizes, {&*a, &*b});
  if (!batch_axis || !m_axis || !n_axis || !k_axis) return std::nullopt;

  auto stride = [](const Labelled& operand, const Axis& axis, const Expr& when_absent) {
    return axis.innermost < 0 ? when_absent : operand.stride(axis.innermost);
  };
  GemmForm form;
  form.dtype = root.dtype;
  form.batch = batch_axis->size;
  form.m = m_axis->size;
  form.n = n_axis->size;
  form.k = k_axis->size;
  form.a_input = a->input;
  form.b_input = b->input;
  form.a = {a->offset, stride(*a, *batch_axis, 0), stride(*a, *m_axis, form.k),
            stride(*a, *k_axis, 1)};
  form.b = {b->offset, stride(*b, *batch_axis, 0), stride(*b, *k_axis, form.n),
            stride(*b, *n_axis, 1)};
  form.out = {out.offset, stride(out, *batch_axis, 0), stride(out, *m_axis, form.n),
              stride(out, *n_axis, 1)};
  settle_single_axes(form);
  if (!has_unit_stride(form.a) || !has_unit_stride(form.b) || !has_unit_stride(form.out)) {
    return std::nullopt;
  }
  Bounds bounds(body.symbols, {});
  if (!steps_forwards(form.a, bounds) || !steps_forwards(form.b, bounds)) return std::nullopt;
  return form;
}

}  // namespace common
