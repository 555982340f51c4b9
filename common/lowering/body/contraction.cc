#include "common/lowering/body/contraction.h"

#include <algorithm>

#include "common/ir/expr/index.h"
#include "common/ir/llir/view_inverse.h"

namespace common {

NodeId only_contraction(const Graph& body) {
  NodeId found = -1;
  for (size_t k = 0; k < body.nodes.size(); ++k) {
    if (body.nodes[k].op != Op::kContract) continue;
    if (found >= 0) return -1;
    found = static_cast<NodeId>(k);
  }
  return found;
}

Contraction::Contraction(const Graph& body, NodeId node)
    : body_(body), id_(node), problem_(tile_problem(body, body.node(node))) {}

Contraction::Contraction(const GroupProduct& group) : Contraction(group.body, group.product) {
  // One operand alone has the groups' label, which is not summed.
  problem_.k.erase(std::find(problem_.k.begin(), problem_.k.end(), group.group));
  problem_.k_size = element_count(sizes_of(problem_.k));
  problem_.batch = {group.group};
  group_ = &group;
}

NodeId Contraction::operand(Side side) const {
  return node().operands[(side == Side::kLeft) == problem_.swapped ? 1 : 0];
}

const std::vector<int>& Contraction::operand_labels(Side side) const {
  const auto& c = attr<ContractAttr>(node());
  return (side == Side::kLeft) == problem_.swapped ? c.b : c.a;
}

std::vector<Expr> Contraction::sizes_of(const std::vector<int>& labels) const {
  std::vector<Expr> sizes;
  for (int label : labels) sizes.push_back(problem_.label_size[at(label)]);
  return sizes;
}

Expr Contraction::batch_size() const {
  return group_ != nullptr ? Expr(1) : element_count(sizes_of(problem_.batch));
}

Indices Contraction::operand_at(Side side, const std::vector<Expr>& batch, const Expr& own,
                                const Expr& k) const {
  return operand_at(side, batch, unfold(sizes_of(own_labels(side)), own),
                    unfold(sizes_of(problem_.k), k));
}

Indices Contraction::operand_at(Side side, const std::vector<Expr>& batch,
                                const std::vector<Expr>& own, const std::vector<Expr>& k) const {
  LabelIndices indices(problem_.label_size.size());
  indices.give(problem_.batch, batch);
  indices.give(own_labels(side), own);
  indices.give(problem_.k, k);
  return indices.of(operand_labels(side));
}

Indices Contraction::product_at(const std::vector<Expr>& batch, const Expr& m,
                                const Expr& n) const {
  LabelIndices indices(problem_.label_size.size());
  indices.give(problem_.batch, batch);
  indices.give(problem_.m, unfold(sizes_of(problem_.m), m));
  indices.give(problem_.n, unfold(sizes_of(problem_.n), n));
  return indices.of(attr<ContractAttr>(node()).out);
}

int Contraction::bind_labels(const std::vector<int>& labels, CodeWriter& trial,
                             LabelIndices& indices) const {
  int last = -1;
  for (int label : labels) {
    last = trial.bind_index("i", problem_.label_size[at(label)], 0);
    indices.give({label}, {Expr::index(last)});
  }
  return last;
}

bool Contraction::runs_along_k(Side side) const {
  CodeWriter trial(body_.symbols);
  BodyEmitter emitter(body_, trial);
  // Strides are seen label by label, where no division hides them.
  LabelIndices indices(problem_.label_size.size());
  bind_labels(problem_.batch, trial, indices);
  int own = bind_labels(own_labels(side), trial, indices);
  int k = bind_labels(problem_.k, trial, indices);
  emitter.value(operand(side), indices.of(operand_labels(side)));
  int votes = 0;
  for (const Expr& offset : emitter.load_offsets()) {
    if (k >= 0 && stride_along(offset, k) == 1) ++votes;
    if (own >= 0 && stride_along(offset, own) == 1) --votes;
  }
  // Runs of k may lie apart, such as the heads of an attention's result.
  constexpr int64_t kRun = 8;
  return votes > 0 || (votes == 0 && reads_chunks(side, true, kRun));
}

bool Contraction::output_runs_along_rows() const {
  CodeWriter trial(body_.symbols);
  LabelIndices indices(problem_.label_size.size());
  bind_labels(problem_.batch, trial, indices);
  int m = bind_labels(problem_.m, trial, indices);
  int n = bind_labels(problem_.n, trial, indices);
  if (m < 0) return false;
  if (n < 0) return true;
  NodeId output = body_.outputs[0].node;
  auto target = flow_forward(body_, id_, output, indices.of(attr<ContractAttr>(node()).out), true);
  if (!target) return false;
  Expr offset = trial.simplify(linear_position(*target, body_.node(output).shape));
  return stride_along(offset, m) == 1 && stride_along(offset, n) != 1;
}

bool Contraction::reads_chunks(Side side, bool along_k, int64_t length) const {
  const std::vector<int>& run = along_k ? problem_.k : own_labels(side);
  if (run.empty()) return false;
  CodeWriter trial(body_.symbols);
  LabelIndices indices(problem_.label_size.size());
  for (const auto* labels : {&problem_.batch, &own_labels(side), &problem_.k}) {
    bind_labels(*labels, trial, indices);
  }
  auto at_position = [&](const Expr& position) {
    indices.give({run.back()}, {position});
    return indices.of(operand_labels(side));
  };
  return runs_are_chunks(body_, operand(side), at_position, problem_.label_size[at(run.back())],
                         length, trial);
}

}  // namespace common
