#include "coordinator/rules/saturate.h"

#include "coordinator/egraph/rule.h"

namespace coordinator {

std::string Saturated::dump() const {
  return graph->dump([this](Head head) { return heads->name(head); });
}

Saturated saturate(const common::Graph& region, const RunLimits& limits, const common::Clock& clock,
                   Numerics numerics) {
  Saturated result;
  result.heads = std::make_unique<HeadTable>();
  HeadTable* heads = result.heads.get();
  EGraphOptions options;
  options.family_of = [heads](Head head) { return heads->family(head); };
  options.explanations = true;
  result.load_time = std::make_unique<LoadTimeAnalysis>(*heads, region.inputs);
  options.analysis = result.load_time.get();
  result.graph = std::make_unique<EGraph>(std::move(options));
  std::vector<ClassId> classes;
  for (const common::Node& node : region.nodes) {
    LFARM_CHECK(node.op != common::Op::kLoop, "a region holds no loops");
    std::vector<ClassId> children;
    for (common::NodeId operand : node.operands) {
      children.push_back(classes[static_cast<size_t>(operand)]);
    }
    classes.push_back(result.graph->add(heads->intern(node), children));
  }
  result.graph->rebuild();
  auto rules = compile_rules(all_rules(*heads, region.symbols, numerics, result.load_time.get()));
  LFARM_CHECK(rules.ok(), rules.ok() ? "" : rules.error().message);
  Runner runner(*result.graph, *rules, clock);
  result.report = runner.run(limits, Scheduling{});
  for (const common::GraphOutput& output : region.outputs) {
    result.outputs.push_back(result.graph->find(classes[static_cast<size_t>(output.node)]));
  }
  return result;
}

}  // namespace coordinator
