// A contraction as register tiles of a processor compute it, and the tile that suits its sizes.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// A contraction as a batch of matrix products: labels of each kind, outermost first. The operands
// change places when that lets the output's last axis be a column axis.
struct TileProblem {
  bool swapped = false;
  std::vector<int> batch, m, n, k;
  std::vector<Expr> label_size;             // by label
  Expr m_size = 1, n_size = 1, k_size = 1;  // products of the sizes
  DType dtype = DType::kFloat32;
};

// `node` is a kContract of `body`.
TileProblem tile_problem(const Graph& body, const Node& node);

// Which operand of a contraction its columns, the output's last axes, come from: 0 or 1; none
// where it is both or neither.
std::optional<size_t> column_operand(const ContractAttr& contraction);

// Whether a product has so few rows that it is a dot product for each column, where the columns'
// operand runs along the summed axes: what its rows' operand computes is computed again for each
// column.
bool has_few_rows(const TileProblem& problem);

// Sums that stay in registers while the summed axes are walked: rows by vectors of columns.
struct RegisterTile {
  int64_t vectors = 0, rows = 0;
};

// The one that wastes least for so many rows and columns (0: not known), of those that suit 32
// registers of `lanes` elements, or 16 where not `has_many`.
RegisterTile choose_register_tile(int64_t rows, int64_t columns, int64_t lanes, bool has_many);

}  // namespace common
