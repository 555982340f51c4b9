#include "clients/pt2/linalg/matrices.h"

#include <algorithm>

#include "common/base/cat.h"

namespace clients {

Values repeat(Context& c, int64_t trips, Values carried, const Values& fixed, const Step& step) {
  if (trips < 1) return carried;
  if (trips > kMaxFactorSteps) {
    c.refuse(common::cat("it takes ", trips, " steps, more than ", kMaxFactorSteps));
  }
  if (trips == 1) return step(c, whole_number(c, 0), carried, fixed);
  Builder builder;
  for (const common::SymbolRange& range : c.b.symbols()) builder.new_symbol(range);
  std::unordered_map<std::string, Expr> no_symbols;
  Context inner(&builder, &no_symbols);
  carried.push_back(whole_number(c, 0));
  auto declared = [&](const Values& values, const char* name) {
    Values out;
    for (NodeId value : values) {
      out.push_back(
          builder.input(common::InputKind::kUser, c.b.dtype(value), c.b.shape(value), name));
    }
    return out;
  };
  Values inside = declared(carried, "carried");
  Values invariant = declared(fixed, "invariant");
  NodeId k = inside.back();
  inside.pop_back();
  Values next = step(inner, k, inside, invariant);
  next.push_back(add(inner, k, whole_number(inner, 1)));
  for (size_t i = 0; i < next.size(); ++i) {
    // Steps broadcast as they like; what is carried keeps its shape.
    builder.output(builder.expand(next[i], c.b.shape(carried[i])));
  }
  Values results = c.b.loop(trips, builder.finish(), carried, fixed);
  results.pop_back();
  return results;
}

// ---- Stacks ----------------------------------------------------------------------------------

NodeId stack_of(Context& c, NodeId x) {
  DType d = c.b.dtype(x);
  if (d != DType::kFloat32 && d != DType::kFloat64) c.refuse("it takes float32 or float64");
  Sizes shape = c.b.shape(x);
  if (shape.size() < 2) c.refuse("it takes matrices");
  Expr batch = c.b.simplify(common::element_count(shape.without_last(2)));
  Sizes matrix = shape.last(2);
  return c.b.reshape(x, {batch, matrix[0], matrix[1]});
}

NodeId stack(Context& c, std::string_view name) { return stack_of(c, c.tensor(name)); }

StackPair stacks_of(Context& c, NodeId a, NodeId b) {
  Sizes of_a = c.b.shape(a), of_b = c.b.shape(b);
  if (of_a.size() < 2 || of_b.size() < 2) c.refuse("it takes matrices");
  auto leading = c.b.broadcast(of_a.without_last(2), of_b.without_last(2));
  if (!leading) c.refuse("the operands do not broadcast");
  auto widened = [&](NodeId x, const Sizes& own) {
    Shape shape = *leading;
    Sizes matrix = own.last(2);
    shape.insert(shape.end(), matrix.begin(), matrix.end());
    return stack_of(c, c.b.expand(x, shape));
  };
  return {widened(a, of_a), widened(b, of_b)};
}

namespace {

int64_t constant_size(Context& c, NodeId x, int axis) {
  Expr size = c.b.size(x, axis);
  if (!size.is_constant()) c.refuse("its matrices have a symbolic size; export it with a constant");
  return size.constant();
}

// A vector of (batch, n) along an axis of (batch, m, n) or so.
NodeId spread(Context& c, NodeId vector, int axis) { return c.b.unsqueeze(vector, axis); }

}  // namespace

int64_t rows_of(Context& c, NodeId stack) { return constant_size(c, stack, 1); }
int64_t columns_of(Context& c, NodeId stack) { return constant_size(c, stack, 2); }

int64_t order_of(Context& c, NodeId stack) {
  if (rows_of(c, stack) != columns_of(c, stack)) c.refuse("it takes square matrices");
  return rows_of(c, stack);
}

NodeId transposed(Context& c, NodeId stack) { return c.b.permute(stack, {0, 2, 1}); }

NodeId identity(Context& c, DType d, int64_t n) {
  return c.b.cast(c.b.binary(BinaryOp::kEqual, row_numbers(c, n), column_numbers(c, n)), d);
}

NodeId diagonal_of(Context& c, NodeId stack) {
  View view;
  view.shape = {c.b.size(stack, 0), std::min(rows_of(c, stack), columns_of(c, stack))};
  view.index = {Expr::index(0), Expr::index(1), Expr::index(1)};
  return c.b.view(stack, view);
}

NodeId lower_part(Context& c, NodeId stack, int64_t offset) {
  NodeId edge = add(c, row_numbers(c, rows_of(c, stack)), whole_number(c, offset));
  NodeId inside = c.b.binary(BinaryOp::kLessEqual, column_numbers(c, columns_of(c, stack)), edge);
  return c.b.select(inside, stack, number_like(c, stack, 0));
}

NodeId upper_part(Context& c, NodeId stack, int64_t offset) {
  NodeId edge = add(c, row_numbers(c, rows_of(c, stack)), whole_number(c, offset));
  NodeId inside = c.b.binary(BinaryOp::kLessEqual, edge, column_numbers(c, columns_of(c, stack)));
  return c.b.select(inside, stack, number_like(c, stack, 0));
}

NodeId row_numbers(Context& c, int64_t n) { return positions(c, n, 1, 3); }
NodeId column_numbers(Context& c, int64_t n) { return positions(c, n, 2, 3); }
NodeId whole_number(Context& c, int64_t value) { return c.b.scalar_int(DType::kInt64, value); }

NodeId row_at(Context& c, NodeId stack, NodeId k) {
  return c.b.gather(stack, {k}, {c.b.size(stack, 0), c.b.size(stack, 2)},
                    {{-1, Expr::index(0)}, {0, {}}, {-1, Expr::index(1)}});
}

NodeId column_at(Context& c, NodeId stack, NodeId k) {
  return c.b.gather(stack, {k}, {c.b.size(stack, 0), c.b.size(stack, 1)},
                    {{-1, Expr::index(0)}, {-1, Expr::index(1)}, {0, {}}});
}

NodeId corner_at(Context& c, NodeId stack, NodeId k) {
  return c.b.gather(stack, {k}, {c.b.size(stack, 0)}, {{-1, Expr::index(0)}, {0, {}}, {0, {}}});
}

NodeId rows_in_order(Context& c, NodeId stack, NodeId order) {
  Shape shape = {c.b.size(stack, 0), c.b.size(order, 1), c.b.size(stack, 2)};
  return c.b.gather(stack, {spread(c, order, 2)}, shape, along(3, 1));
}

NodeId columns_in_order(Context& c, NodeId stack, NodeId order) {
  Shape shape = {c.b.size(stack, 0), c.b.size(stack, 1), c.b.size(order, 1)};
  return c.b.gather(stack, {spread(c, order, 1)}, shape, along(3, 2));
}

NodeId in_order(Context& c, NodeId vector, NodeId order) {
  return c.b.gather(vector, {order}, {c.b.size(vector, 0), c.b.size(order, 1)}, along(2, 1));
}

NodeId outer(Context& c, NodeId column, NodeId row) {
  return mul(c, c.b.unsqueeze(column, 2), c.b.unsqueeze(row, 1));
}

// ---- Results ---------------------------------------------------------------------------------

void give(Context& c, NodeId value, size_t k) {
  if (c.wants_output(k)) c.result(c.b.reshape(value, c.out_shape(k)), k);
}

bool gives_empty(Context& c, std::string_view name, const std::vector<double>& numbers) {
  Expr elements = c.b.simplify(common::element_count(c.b.shape(c.tensor(name))));
  if (!elements.is_constant(0)) return false;
  for (size_t k = 0; k < c.output_count(); ++k) {
    if (!c.wants_output(k)) continue;
    double number = numbers[std::min(k, numbers.size() - 1)];
    c.set(c.b.full(c.out_dtype(k), c.out_shape(k), number), k);
  }
  return true;
}

}  // namespace clients
