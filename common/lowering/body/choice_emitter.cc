// Choices by position: only what is chosen is computed, as if the loop were cut where the choice
// changes.
#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/expr/with_indices.h"
#include "common/lowering/body/body_emitter.h"
#include "common/lowering/text/c_text.h"
#include "common/lowering/text/position_choice.h"

namespace common {

// Those in the expressions that belong to scope `level`.
std::set<int> BodyEmitter::indices_at(const Indices& indices, int level) const {
  std::set<int> found;
  for (const Expr& e : indices) {
    e.visit_vars([&](Var v) {
      if (v.kind == Var::Kind::kIndex && w_.level_of_index(v.id) == level) found.insert(v.id);
    });
  }
  return found;
}

std::optional<CodeValue> BodyEmitter::choice_by_position(const Node& node, const Indices& indices) {
  auto test = position_test(graph_, node.operands[0], indices);
  if (!test) return std::nullopt;
  const Expr index = Expr::index(test->index);
  const int64_t last = w_.bounds().upper(index);
  if (last < test->bound) return value(node.operands[1], indices);
  if (w_.bounds().lower(index) >= test->bound) return value(node.operands[2], indices);
  int innermost = 0;
  for (const Expr& e : indices) innermost = std::max(innermost, w_.level_of(e));
  const int level = std::max(innermost, safe_level(indices, node.shape));
  // Neighbours in the innermost loop take both sides, in vectors.
  const bool is_outside = w_.loop_index(level) != test->index;
  if (team_ || !is_outside || last == INT64_MAX ||
      !(asks_position(graph_, node.operands[1]) || asks_position(graph_, node.operands[2]))) {
    return std::nullopt;
  }
  CodeWriter::Outward outward(w_, level);
  const std::string name = w_.fresh("v"), place = w_.index_name(test->index);
  w_.line(cat(c_value_type(node.dtype), " ", name, ";"));
  // On either side the index has another range, which decides what views and choices ask. What
  // depends on an index of the side belongs to the side.
  auto side = [&](NodeId chosen, const std::string& spelled, int64_t first, int64_t end) {
    Indices inside = indices;
    for (int id : indices_at(indices, innermost)) {
      if (id == test->index) continue;
      int twin = w_.bind_index(w_.index_name(id), w_.extent(id), w_.depth());
      inside = with_index(inside, id, Expr::index(twin));
    }
    int narrow = w_.bind_index(spelled, end - first, w_.depth());
    inside = with_index(inside, test->index, Expr(first) + Expr::index(narrow));
    w_.line(cat(name, " = ", value(chosen, inside).text, ";"));
  };
  w_.open(true);
  side(node.operands[1], place, 0, test->bound);
  const double first = static_cast<double>(test->bound) / static_cast<double>(last + 1);
  w_.set_trips(first);
  w_.close(cat("if (", place, " < ", test->bound, ")"));
  w_.open(true);
  const std::string beyond = w_.fresh("past");
  w_.line(cat("const int64_t ", beyond, " = ", place, " - ", test->bound, ";"));
  side(node.operands[2], beyond, test->bound, last + 1);
  w_.set_trips(1 - first);
  w_.close("else");
  return CodeValue{name, level, -1};
}

}  // namespace common
