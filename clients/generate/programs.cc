#include "clients/generate/programs.h"

#include "common/ir/hlir/view.h"

namespace clients {

std::shared_ptr<const Model> with_last_logits(std::shared_ptr<const Model> model,
                                              const Roles& roles) {
  const int place = model->user_outputs[static_cast<size_t>(roles.logits)].graph_output;
  const common::NodeId all = model->graph.outputs[static_cast<size_t>(place)].node;
  const common::Node& logits = model->graph.node(all);
  if (model->graph_hash || logits.shape.size() != 3 || logits.shape[1].is_constant(1)) return model;
  Model last = *model;
  common::View view = common::view_slice(logits.shape, 1, logits.shape[1] - 1, 1, 1);
  last.graph.outputs[static_cast<size_t>(place)].node =
      static_cast<common::NodeId>(last.graph.nodes.size());
  last.graph.nodes.push_back(
      {common::Op::kView, logits.dtype, view.shape, {all}, common::ViewAttr{view}});
  return std::make_shared<const Model>(std::move(last));
}

std::vector<SizeRanges> width_ranges(const Model& model, const Roles& roles) {
  int tokens = model.user_inputs[static_cast<size_t>(roles.tokens)];
  auto symbol = model.graph.inputs[static_cast<size_t>(tokens)].shape[1].as_var();
  bool splits = symbol && roles.has_cache && roles.width_least <= 1 && roles.width_most > 1;
  if (!splits) return {};
  return {{{symbol->id, {1, 1}}}, {{symbol->id, {2, roles.width_most}}}};
}

common::Result<std::vector<WidthPart>> parts_of(const std::shared_ptr<const Model>& model) {
  LFARM_ASSIGN_OR_RETURN(Roles roles, roles_of(*model));
  std::vector<WidthPart> parts;
  for (const SizeRanges& ranges : width_ranges(*model, roles)) {
    Model narrow = *model;
    LFARM_ASSIGN_OR_RETURN(narrow.graph, for_sizes(model->graph, ranges));
    WidthPart part{with_last_logits(std::make_shared<const Model>(std::move(narrow)), roles), {}};
    LFARM_ASSIGN_OR_RETURN(part.roles, roles_of(*part.model));
    parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    auto last = with_last_logits(model, roles);
    LFARM_ASSIGN_OR_RETURN(roles, roles_of(*last));
    parts.push_back({std::move(last), roles});
  }
  return parts;
}

}  // namespace clients
