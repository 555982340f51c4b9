#include "common/lowering/loops/pair_squares.h"

#include <initializer_list>

#include "common/base/cat.h"
#include "common/ir/expr/with_indices.h"
#include "common/lowering/body/plain_read.h"
#include "common/lowering/text/transposed_loads.h"

namespace common {
namespace {

bool is_whole_squares(const Expr& extent) {
  return extent.is_constant() && extent.constant() > 0 && extent.constant() % kTurnSide == 0;
}

// Whether all words lie at even places: the constant part is even, and so are all strides but the
// pair's own.
bool is_in_words(const Expr& offset, const std::vector<Expr>& loops) {
  for (size_t k = 0; k + 1 < loops.size(); ++k) {
    int64_t stride = stride_along(offset, loops[k].as_var()->id);
    if (stride == INT32_MAX || stride % 2 != 0) return false;
  }
  Expr first =
      offset.substitute([](Var v) { return v.kind == Var::Kind::kIndex ? Expr(0) : Expr::var(v); });
  return first.is_constant() && first.constant() % 2 == 0;
}

}  // namespace

std::optional<PairSquares> pair_squares(const Graph& body, const LoopNest& nest) {
  const std::vector<Expr>& extents = nest.shared.extents;
  if (!nest.transposed || nest.groups.size() != 1 || body.outputs.size() != 1) return std::nullopt;
  if (extents.size() < 3 || nest.grid > extents.size() - 3) return std::nullopt;
  const Node& output = body.node(body.outputs[0].node);
  const size_t w = extents.size() - 3, v = w + 1, pair = w + 2;
  if (dtype_size(output.dtype) != 2 || !extents[pair].is_constant(2)) return std::nullopt;
  if (!is_whole_squares(extents[w]) || !is_whole_squares(extents[v])) return std::nullopt;

  CodeWriter trial(body.symbols);
  BodyEmitter emitter(body, trial);
  std::vector<Expr> loops;
  for (size_t k = 0; k < extents.size(); ++k) {
    loops.push_back(Expr::index(trial.open_loop(cat("i", k), extents[k])));
  }
  Indices position;
  for (const Expr& e : nest.shared.position) position.push_back(with_indices(e, loops));
  auto read = plain_read(body.outputs[0].node, position, emitter);
  if (!read) return std::nullopt;
  Expr from = trial.simplify(read->offset);
  Expr to = trial.simplify(linear_position(position, output.shape));
  auto stride = [&](const Expr& offset, size_t loop) {
    return stride_along(offset, loops[loop].as_var()->id);
  };
  bool are_pairs = stride(from, pair) == 1 && stride(to, pair) == 1;
  bool are_turned = stride(from, w) == 2 && stride(to, v) == 2;
  if (!are_pairs || !are_turned) return std::nullopt;
  if (!is_in_words(from, loops) || !is_in_words(to, loops)) return std::nullopt;
  return PairSquares{read->input, stride(from, v), stride(to, w)};
}

}  // namespace common
