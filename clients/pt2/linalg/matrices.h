// Stacks of matrices and loops over their rows: what factorisations are written with.
//
// A stack has three axes, (batch, rows, columns); the leading axes of PyTorch's tensors are folded
// into the first. Sizes of rows and columns are constants, as the number of steps follows from
// them.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "clients/pt2/aten/translate_math.h"

namespace clients {

// Steps that a factorisation may take, one after the other.
inline constexpr int64_t kMaxFactorSteps = 4096;

using Values = std::vector<NodeId>;
// One step: the next carried values from the number of the step (an int64 scalar), the carried and
// the invariant values. All belong to the context that it is given.
using Step =
    std::function<Values(Context& c, NodeId k, const Values& carried, const Values& fixed)>;
// What `trips` steps leave of the carried values. One step is written out, more are a loop.
Values repeat(Context& c, int64_t trips, Values carried, const Values& fixed, const Step& step);

// ---- Stacks ----------------------------------------------------------------------------------

// Float matrices on the last two axes of a tensor, as a stack; refuses other dtypes.
NodeId stack_of(Context& c, NodeId x);
NodeId stack(Context& c, std::string_view name);
// Two operands with their leading axes broadcast to one shape, each as a stack.
struct StackPair {
  NodeId a = 0;
  NodeId b = 0;
};
StackPair stacks_of(Context& c, NodeId a, NodeId b);
int64_t rows_of(Context& c, NodeId stack);
int64_t columns_of(Context& c, NodeId stack);
// The size of square matrices; refuses others.
int64_t order_of(Context& c, NodeId stack);
NodeId transposed(Context& c, NodeId stack);
// (1, n, n)
NodeId identity(Context& c, DType d, int64_t n);
// The diagonal, (batch, min(rows, columns)).
NodeId diagonal_of(Context& c, NodeId stack);
// What lies on and below the diagonal, or on and above it, moved by `offset`; zero elsewhere.
NodeId lower_part(Context& c, NodeId stack, int64_t offset = 0);
NodeId upper_part(Context& c, NodeId stack, int64_t offset = 0);

// Row numbers (1, n, 1) and column numbers (1, 1, n), int64.
NodeId row_numbers(Context& c, int64_t n);
NodeId column_numbers(Context& c, int64_t n);
NodeId whole_number(Context& c, int64_t value);

// Row or column k, (batch, columns) or (batch, rows); k is an int64 scalar.
NodeId row_at(Context& c, NodeId stack, NodeId k);
NodeId column_at(Context& c, NodeId stack, NodeId k);
// Element (k, k), (batch).
NodeId corner_at(Context& c, NodeId stack, NodeId k);
// Rows, or columns, in the order that `order` (batch, n) gives.
NodeId rows_in_order(Context& c, NodeId stack, NodeId order);
NodeId columns_in_order(Context& c, NodeId stack, NodeId order);
// A vector (batch, n) in that order.
NodeId in_order(Context& c, NodeId vector, NodeId order);
// Columns times rows, (batch, m) and (batch, n) to (batch, m, n).
NodeId outer(Context& c, NodeId column, NodeId row);

// ---- Results ---------------------------------------------------------------------------------

// Result k is the value in the shape that the archive says. Nothing where nobody reads it.
void give(Context& c, NodeId value, size_t k = 0);
// Where an argument has no elements, every result is filled with its number (the last one serves
// all further results), and true is returned.
bool gives_empty(Context& c, std::string_view name, const std::vector<double>& numbers = {0});

}  // namespace clients
