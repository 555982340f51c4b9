#include "common/ir/hlir/tile_form.h"

#include <algorithm>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"

namespace common {
namespace {

// Register tiles that keep about 24 accumulators (12 of 16 registers), the usual ones first. Sides
// of images and batches are often little more than multiples of 5.
constexpr RegisterTile kMany[] = {{3, 8}, {3, 9}, {3, 7}, {4, 6}, {2, 12}, {1, 12}};
constexpr RegisterTile kFew[] = {{2, 6}, {2, 5}, {3, 4}, {1, 8}};

// Work done per useful element when `size` is covered in steps of `step`.
double waste(int64_t size, int64_t step) {
  if (size < 1) return 1;
  int64_t covered = (size + step - 1) / step * step;
  return static_cast<double>(covered) / static_cast<double>(size);
}

}  // namespace

TileProblem tile_problem(const Graph& body, const Node& node) {
  const auto& c = attr<ContractAttr>(node);
  TileProblem p;
  p.dtype = node.dtype;
  auto note = [&](const std::vector<int>& labels, NodeId operand) {
    for (size_t k = 0; k < labels.size(); ++k) {
      if (at(labels[k]) >= p.label_size.size()) p.label_size.resize(at(labels[k]) + 1, Expr(1));
      p.label_size[at(labels[k])] = body.node(operand).shape[k];
    }
  };
  note(c.a, node.operands[0]);
  note(c.b, node.operands[1]);
  p.swapped = !c.out.empty() && !contains(c.b, c.out.back());
  const std::vector<int>& left = p.swapped ? c.b : c.a;
  const std::vector<int>& right = p.swapped ? c.a : c.b;
  for (int label : c.out) {
    bool in_left = contains(left, label);
    (in_left && contains(right, label) ? p.batch : in_left ? p.m : p.n).push_back(label);
  }
  for (const auto* labels : {&left, &right}) {
    for (int label : *labels) {
      if (!contains(c.out, label) && !contains(p.k, label)) p.k.push_back(label);
    }
  }
  auto product = [&](const std::vector<int>& labels) {
    Expr size = 1;
    for (int label : labels) size *= p.label_size[at(label)];
    return size;
  };
  p.m_size = product(p.m);
  p.n_size = product(p.n);
  p.k_size = product(p.k);
  return p;
}

std::optional<size_t> column_operand(const ContractAttr& contraction) {
  if (contraction.out.empty()) return std::nullopt;
  bool in_a = contains(contraction.a, contraction.out.back());
  bool in_b = contains(contraction.b, contraction.out.back());
  if (in_a == in_b) return std::nullopt;
  return in_b ? 1 : 0;
}

bool has_few_rows(const TileProblem& problem) {
  constexpr int64_t kFewRows = 4;
  return problem.m_size.is_constant() && problem.m_size.constant() <= kFewRows;
}

RegisterTile choose_register_tile(int64_t rows, int64_t columns, int64_t lanes, bool has_many) {
  RegisterTile best;
  double least = 0;
  auto consider = [&](RegisterTile tile) {
    if (rows > 0) tile.rows = std::min(tile.rows, rows);
    // Loads per multiply-add: each step loads `vectors` vectors and broadcasts `rows` elements.
    double loads = 1.0 / static_cast<double>(tile.rows) + 1.0 / static_cast<double>(tile.vectors);
    // Two loads go with two multiply-adds; beyond that, loads are what takes time.
    double cost =
        waste(rows, tile.rows) * waste(columns, tile.vectors * lanes) * std::max(1.0, loads);
    if (best.rows != 0 && cost >= least * 0.999) return;
    best = tile;
    least = cost;
  };
  if (has_many) {
    for (RegisterTile tile : kMany) consider(tile);
  } else {
    for (RegisterTile tile : kFew) consider(tile);
  }
  return best;
}

}  // namespace common
