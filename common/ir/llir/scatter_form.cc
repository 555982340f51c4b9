#include "common/ir/llir/scatter_form.h"

namespace common {
namespace {

const Shape& update_shape(const Graph& body, const Node& scatter) {
  return body.node(scatter.operands[1]).shape;
}

bool is_aligned(const Graph& body, const Node& scatter, size_t base, size_t update) {
  const auto& coordinates = attr<ScatterAttr>(scatter).coordinates;
  Var var{Var::Kind::kIndex, static_cast<int32_t>(update)};
  const Coordinate& c = coordinates[base];
  if (c.slot >= 0 || c.expr != Expr::var(var)) return false;
  if (update_shape(body, scatter)[update] != scatter.shape[base]) return false;
  for (size_t k = 0; k < coordinates.size(); ++k) {
    if (k != base && coordinates[k].expr.uses(var)) return false;
  }
  return true;
}

}  // namespace

std::optional<size_t> aligned_update_axis(const Graph& body, const Node& scatter, size_t base) {
  for (size_t j = 0; j < update_shape(body, scatter).size(); ++j) {
    if (is_aligned(body, scatter, base, j)) return j;
  }
  return std::nullopt;
}

bool has_distinct_places(const Graph& body, const Node& scatter) {
  const Shape& updates = update_shape(body, scatter);
  std::vector<char> is_told(updates.size(), 0);
  for (size_t k = 0; k < scatter.shape.size(); ++k) {
    if (auto axis = aligned_update_axis(body, scatter, k)) is_told[*axis] = 1;
  }
  for (size_t j = 0; j < updates.size(); ++j) {
    if (is_told[j] == 0 && !updates[j].is_constant(1)) return false;
  }
  return true;
}

}  // namespace common
