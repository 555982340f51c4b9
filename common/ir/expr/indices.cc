#include "common/ir/expr/indices.h"

namespace common {

void LabelIndices::give(const std::vector<int>& labels, const Indices& values) {
  for (size_t k = 0; k < labels.size(); ++k) values_[static_cast<size_t>(labels[k])] = values[k];
}

Indices LabelIndices::of(const std::vector<int>& labels) const {
  Indices indices;
  for (int label : labels) indices.push_back(values_[static_cast<size_t>(label)]);
  return indices;
}

Expr linear_position(const Indices& indices, const Shape& shape) {
  Expr position = 0;
  for (size_t k = 0; k < shape.size(); ++k) position = position * shape[k] + indices[k];
  return position;
}

Indices unfold(const Shape& shape, const Expr& flat) {
  Indices values(shape.size());
  Expr below = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    values[k] = floor_div(flat, below);
    if (k != 0) values[k] = mod(values[k], shape[k]);
    below *= shape[k];
  }
  return values;
}

}  // namespace common
