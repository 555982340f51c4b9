// Grouped products: rows that multiply one of several matrices each, as data say; the experts of a
// model, for example.
//
//   y[r, n] = sum over k of x[r, k] * W[g[r], n, k]
//
// is a contraction whose one operand is a gather of whole matrices. Its third operand is an order
// of the rows in which equal groups are neighbours, so that a block of rows multiplies few
// matrices. The result does not depend on the order.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

struct GroupedForm {
  NodeId product = 0;
  NodeId order = -1;  // -1: none is given
  int row = 0;        // the label that both operands and the output have
  int matrices = 1;   // the operand of the product that is gathered
  Expr groups;        // how many matrices there are
  // The row's group is read here, at positions over i0, the row.
  NodeId index = 0;
  std::vector<Expr> index_at;
  // The matrix's element is read here, at positions over i0, the group, and i1 and so on, the
  // operand's axes other than the row's.
  NodeId data = 0;
  std::vector<Expr> data_at;
};

// Through views and casts that round nothing. Empty where the contraction is not of this form.
std::optional<GroupedForm> grouped_form(const Graph& body, NodeId product);

// Whether the contraction has an order of rows, and whether the body holds such a one.
bool has_row_order(const Node& contraction);
bool has_row_order(const Graph& body);

// The body whose product has the label `group` in place of the row's in the operand of matrices:
// once the label is a given number, the product of all rows with that group's matrix.
struct GroupProduct {
  Graph body;
  NodeId product = 0;
  int group = 0;
  Expr groups, rows;
  NodeId group_of = 0;  // by row, an integer that is to be clamped as gathers do
  NodeId order = 0;
};
// `form` has an order.
GroupProduct group_product(const Graph& body, const GroupedForm& form);

}  // namespace common
