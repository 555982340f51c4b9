#include "common/schedule/template_fit.h"

#include <algorithm>

#include "common/ir/hlir/attention_form.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/grouped_form.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/text/c_text.h"
#include "common/lowering/text/code_writer.h"
#include "common/lowering/text/view_inverse.h"

namespace common {
namespace {

// Whether every output is a function of single elements of the sources (-1: not there), which are
// of one shape: as templates compute outputs from an element that they just made.
bool flows(const Graph& body, const std::vector<NodeId>& sources) {
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
      if (source >= 0 && !to) to = flow_forward(body, source, output.node, at);
    }
    if (!to) return false;
    emitter.value(output.node, *to);
  }
  return emitter.status().ok();
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
      return product >= 0 && flows(body, {product});
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
