#include "coordinator/search/region_space.h"

#include <algorithm>
#include <limits>
#include <map>

#include "coordinator/search/cost_model.h"

namespace coordinator {
namespace {

using common::Node;
using common::Op;

constexpr uint64_t kMaxNodes = 200'000;
constexpr double kMaxSeconds = 20;

double weight_of(const Node& node, Lowering lowering) {
  switch (node.op) {
    case Op::kContract:
      return lowering == Lowering::kGemm ? 0.025 : 0.035;
    case Op::kSoftmax:
      return 1.6;
    case Op::kNorm:
      return 0.3;
    case Op::kUnary:
      return common::attr<common::UnaryAttr>(node).op > common::UnaryOp::kNot ? 0.7 : 0.1;
    case Op::kBinary:
      return common::attr<common::BinaryAttr>(node).op == common::BinaryOp::kDiv ? 0.3 : 0.1;
    default:
      return 0.1;
  }
}

}  // namespace

RegionSpace::RegionSpace(const common::Graph& region, const common::Clock& clock)
    : region_(region), sizes_(representative_sizes(region.symbols)) {
  RunLimits limits;
  limits.nodes = kMaxNodes;
  limits.seconds = kMaxSeconds;
  saturated_ = saturate(region_, limits, clock);
  best_ = best_nodes(*saturated_.graph, [this](NodeId node) { return node_cost(node); });
  decoder_ = std::make_unique<Decoder>(*saturated_.graph, best_);
  Selected all = select_all(region_);
  plain_ = build_program(all, plain_stores(all),
                         [](ClassId, common::Template, const common::ScheduleChoice& c) {
                           return c.values[0];
                         })
               .program;
}

double RegionSpace::node_cost(NodeId id) const {
  const EGraph& graph = *saturated_.graph;
  const HeadTable& heads = *saturated_.heads;
  Head head = graph.head(id);
  Lowering lowering = heads.lowering(head);
  if (lowering == Lowering::kAbstract) return std::numeric_limits<double>::infinity();
  const Node& node = heads.node(head);
  if (!is_computed(node)) return 0.001;
  auto elements = [&](const common::Shape& shape) {
    double product = 1;
    for (const common::Expr& size : shape) product *= static_cast<double>(size.evaluate(sizes_));
    return product;
  };
  double work = elements(node.shape);
  auto child_shape = [&](size_t k) -> const common::Shape& {
    const common::Shape* shape = nullptr;
    graph.for_each_node(graph.find(graph.children(id)[k]), [&](NodeId n) {
      if (!shape) shape = &heads.node(graph.head(n)).shape;
    });
    return *shape;
  };
  if (node.op == Op::kReduce) work = elements(child_shape(0));
  if (node.op == Op::kContract) {
    const auto& c = common::attr<common::ContractAttr>(node);
    for (size_t k = 0; k < c.a.size(); ++k) {
      if (std::find(c.out.begin(), c.out.end(), c.a[k]) == c.out.end()) {
        work *= static_cast<double>(child_shape(0)[k].evaluate(sizes_));
      }
    }
  }
  return 1 + work * weight_of(node, lowering);
}

Selected RegionSpace::select(const Genome& genome, std::vector<Site>& sites) {
  const EGraph& graph = *saturated_.graph;
  const HeadTable& heads = *saturated_.heads;
  auto preference = [&](ClassId cls) -> NodeId {
    auto gene = genome.get({GeneKind::kChoice, cls, 0});
    if (!gene) return kNone;
    auto node = static_cast<NodeId>(*gene);
    bool fits = node < graph.node_ids() && graph.is_live(node) && graph.class_of(node) == cls &&
                heads.lowering(graph.head(node)) != Lowering::kAbstract;
    return fits ? node : kNone;
  };
  Selection selection;
  bool found = decoder_->decode(saturated_.outputs, preference, selection);
  LFARM_CHECK(found, "a region has no program");

  Selected selected;
  selected.graph.symbols = region_.symbols;
  selected.graph.inputs = region_.inputs;
  std::map<ClassId, common::NodeId> position;
  for (size_t k = 0; k < selection.classes.size(); ++k) {
    ClassId cls = selection.classes[k];
    Head head = graph.head(selection.nodes[k]);
    Node node = heads.node(head);
    for (ClassId child : graph.children(selection.nodes[k])) {
      node.operands.push_back(position.at(graph.find(child)));
    }
    position[cls] = static_cast<common::NodeId>(selected.graph.nodes.size());
    selected.graph.nodes.push_back(std::move(node));
    selected.lowering.push_back(heads.lowering(head));
    selected.gene.push_back(cls);

    Site site{{GeneKind::kChoice, cls, 0}, static_cast<int64_t>(selection.nodes[k]), {}};
    graph.for_each_node(cls, [&](NodeId n) {
      if (heads.lowering(graph.head(n)) == Lowering::kAbstract) return;
      for (ClassId child : graph.children(n)) {
        if (best_.node[graph.find(child)] == kNone) return;
      }
      site.values.push_back(static_cast<int64_t>(n));
    });
    if (site.values.size() > 1) sites.push_back(std::move(site));
  }
  for (size_t k = 0; k < region_.outputs.size(); ++k) {
    common::GraphOutput output = region_.outputs[k];
    output.node = position.at(graph.find(saturated_.outputs[k]));
    selected.graph.outputs.push_back(output);
  }
  return selected;
}

Decoded RegionSpace::decode(const Genome& genome) {
  Decoded result;
  Selected selected = select(genome, result.sites);
  Stores stores = default_stores(selected);
  for (size_t i = 0; i < stores.size(); ++i) {
    if (!is_computed(selected.graph.nodes[i])) continue;
    GeneName name{GeneKind::kStore, selected.gene[i], 0};
    if (auto gene = genome.get(name)) stores[i] = *gene != 0;
    result.sites.push_back({name, stores[i] != 0, {0, 1}});
  }
  repair_stores(selected, stores);
  auto parameter_index = [](common::Template form, std::string_view name) {
    const auto& choices = common::schedule_parameters(form);
    auto it = std::find_if(choices.begin(), choices.end(),
                           [&](const common::ScheduleChoice& c) { return c.name == name; });
    return static_cast<uint32_t>(it - choices.begin()) + 16 * static_cast<uint32_t>(form);
  };
  auto schedule = [&](ClassId root, common::Template form, const common::ScheduleChoice& choice) {
    auto gene = genome.get({GeneKind::kParameter, root, parameter_index(form, choice.name)});
    bool fits =
        gene && std::find(choice.values.begin(), choice.values.end(), *gene) != choice.values.end();
    return fits ? *gene : choice.values[0];
  };
  result.fused = build_program(selected, stores, schedule);
  common::Status status = common::verify(result.fused.program);
  LFARM_CHECK(status.ok(), "a genome decoded to an invalid program: " +
                               (status.ok() ? "" : status.error().message));
  for (const KernelRoot& root : result.fused.roots) {
    for (const common::ScheduleChoice& choice : common::schedule_parameters(root.form)) {
      result.sites.push_back(
          {{GeneKind::kParameter, root.gene, parameter_index(root.form, choice.name)},
           schedule(root.gene, root.form, choice),
           choice.values});
    }
  }
  return result;
}

}  // namespace coordinator
