#include "common/schedule/template_fit.h"

#include <algorithm>
#include <vector>

#include "common/ir/hlir/attention_form.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/grouped_form.h"
#include "common/ir/llir/view_inverse.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/body/exchanged_sums.h"
#include "common/lowering/body/half_operands.h"
#include "common/lowering/body/window_operand.h"
#include "common/lowering/text/affine.h"
#include "common/lowering/text/c_text.h"
#include "common/lowering/text/code_writer.h"

namespace common {
namespace {

// Whether every output is a function of single elements of the sources (-1: not there), which are
// of one shape: as templates compute outputs from an element that they just made. `into_border`:
// see flow_forward().
bool flows(const Graph& body, const std::vector<NodeId>& sources, bool into_border = false) {
  CodeWriter trial(body.symbols);
  BodyEmitter emitter(body, trial);
  Indices at;
  for (NodeId source : sources) {
    if (source < 0) continue;
    const Node& node = body.node(source);
    if (at.empty()) {
      for (const Expr& size : node.shape) {
        at.push_back(trial.simplify(Expr::index(trial.bind_index(trial.fresh("i"), size, 0))));
      }
    }
    trial.remember({source, kElementTag, at},
                   trial.declare(trial.depth(), c_value_type(node.dtype), "x", "0"));
  }
  for (const GraphOutput& output : body.outputs) {
    std::optional<Indices> to;
    for (NodeId source : sources) {
      if (source >= 0 && !to) to = flow_forward(body, source, output.node, at, into_border);
    }
    if (!to) return false;
    emitter.value(output.node, *to);
  }
  return emitter.status().ok();
}

constexpr int64_t kStep = 64;    // of k
constexpr int64_t kChunk = 8;    // elements of 16 bytes
constexpr int64_t kFewest = 16;  // rows or columns: fewer are multiplied otherwise

// The two contractions of a body; empty where there are more or fewer.
std::vector<NodeId> two_contractions(const Graph& body) {
  std::vector<NodeId> found;
  for (size_t k = 0; k < body.nodes.size(); ++k) {
    if (body.nodes[k].op == Op::kContract) found.push_back(static_cast<NodeId>(k));
  }
  return found.size() == 2 ? found : std::vector<NodeId>();
}

// Whether the side is a matrix in memory: rows of chunks of 16 bytes, by one stride for each axis.
bool is_matrix(const Contraction& c, Side side) {
  if (!c.reads_chunks(side, c.runs_along_k(side), kChunk)) return false;
  CodeWriter trial(c.body().symbols);
  BodyEmitter emitter(c.body(), trial);
  const Expr own = Expr::index(trial.bind_index("i", c.own_size(side), 0));
  const Expr k = Expr::index(trial.bind_index("k", c.problem().k_size, 0));
  auto read = c.read_at(side, c.operand_at(side, {}, own, k), emitter);
  if (!read) return false;
  auto by_index = affine_offset(read->offset, {own, k});
  return by_index && by_index->strides[c.runs_along_k(side) ? 1 : 0].is_constant(1);
}

// Whether the left side is windows of a single tap, as those are that lie two pixels apart.
bool is_of_pixels(const Contraction& c) {
  auto windows = window_operand(c);
  if (!windows || windows->channels % kStep != 0) return false;
  for (const WindowOperand::Axis& axis : windows->axes) {
    if (axis.taps != 1) return false;
  }
  return true;
}

bool suits_blocks(const Contraction& c) {
  const TileProblem& p = c.problem();
  const DType half = c.operand_dtype(Side::kLeft);
  const bool is_many = !p.m_size.is_constant() || p.m_size.constant() > kFewest;
  return is_half(half) && c.operand_dtype(Side::kRight) == half && p.batch.empty() &&
         !has_row_order(c.node()) && is_many && p.n_size.is_constant() &&
         p.n_size.constant() > kFewest && p.k_size.is_constant() &&
         p.k_size.constant() % kStep == 0 && is_matrix(c, Side::kRight) &&
         (is_matrix(c, Side::kLeft) || is_of_pixels(c));
}

bool are_alike(const Contraction& a, const Contraction& b) {
  const TileProblem &p = a.problem(), &q = b.problem();
  if (a.node().shape != b.node().shape || a.sizes_of(p.m) != b.sizes_of(q.m) ||
      a.sizes_of(p.n) != b.sizes_of(q.n) ||
      a.operand_dtype(Side::kLeft) != b.operand_dtype(Side::kLeft)) {
    return false;
  }
  for (Side side : {Side::kLeft, Side::kRight}) {
    if (a.runs_along_k(side) != b.runs_along_k(side)) return false;
  }
  auto rounded = exchanged_sums(a);
  return rounded && rounded == exchanged_sums(b);
}

}  // namespace

bool template_holds(const Kernel& kernel) {
  switch (kernel.form) {
    case Template::kTile: {
      Graph body = lower_structure(kernel.body, Kept::kContractions);
      NodeId product = only_contraction(body);
      if (product >= 0 && has_row_order(body.node(product)) && !grouped_form(body, product)) {
        return false;
      }
      return product >= 0 && flows(body, {product}, true);
    }
    case Template::kAttention: {
      auto form = attention_form(kernel.body);
      return form && flows(kernel.body, {form->product});
    }
    case Template::kFourier: {
      Graph body = lower_structure(kernel.body, Kept::kTransforms);
      auto form = fourier_form(body);
      return form && flows(body, {form->real, form->imaginary});
    }
    default:
      return true;
  }
}

std::optional<PairedProducts> paired_products(const Graph& body) {
  if (two_contractions(body).empty()) return std::nullopt;
  PairedProducts pair;
  pair.body = body;
  for (size_t k : {size_t{0}, size_t{1}}) {
    std::vector<NodeId> found = two_contractions(pair.body);
    if (found.empty()) return std::nullopt;
    pair.body = with_half_operands(pair.body, found[k]);
  }
  const std::vector<NodeId> found = two_contractions(pair.body);
  if (found.empty()) return std::nullopt;
  pair.first = found[0];
  pair.second = found[1];
  const Contraction first(pair.body, pair.first), second(pair.body, pair.second);
  if (!suits_blocks(first) || !suits_blocks(second) || !are_alike(first, second)) {
    return std::nullopt;
  }
  return pair;
}

bool warpgroups_hold(const Kernel& kernel) {
  if (kernel.form != Template::kTile) return false;
  auto pair = paired_products(lower_structure(kernel.body, Kept::kContractions));
  return pair && flows(pair->body, {pair->first, pair->second});
}

bool is_skinny_product(const Graph& body, int* inner_axis) {
  NodeId product = only_contraction(body);
  if (product < 0 || has_row_order(body.node(product))) return false;
  TileProblem p = tile_problem(body, body.node(product));
  if (!has_few_rows(p)) return false;
  // One row suits any order of the matrix; several are dot products with rows that run along k.
  if (!p.m_size.is_constant(1) && !Contraction(body, product).runs_along_k(Side::kRight)) {
    return false;
  }
  const std::vector<int>& out = attr<ContractAttr>(body.node(product)).out;
  auto rows = p.m.empty() ? out.end() : std::find(out.begin(), out.end(), p.m.back());
  *inner_axis = rows == out.end() ? -1 : static_cast<int>(rows - out.begin());
  return true;
}

}  // namespace common
