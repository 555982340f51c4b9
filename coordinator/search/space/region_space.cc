#include "coordinator/search/space/region_space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/hlir/tile_form.h"
#include "common/plan/plan.h"
#include "common/plan/policy.h"
#include "coordinator/rules/matching/bordered_windows.h"
#include "coordinator/rules/matching/winograd_form.h"
#include "coordinator/search/fusion/multi_output.h"
#include "coordinator/search/partition/convolution_operands.h"
#include "coordinator/search/partition/packed_panels.h"
#include "coordinator/search/partition/winograd_convolutions.h"

namespace coordinator {
namespace {

using common::Node;
using common::Op;

constexpr uint64_t kMaxNodes = 200'000;
constexpr double kAtLoad = 0.002;     // no work in a run, but not better than no work at all
constexpr size_t kRecentMax = 1'024;  // structures of a few kilobytes
constexpr size_t kKernelsMax = 8'192;
constexpr size_t kChosenNodesMax = 16'384;  // of about a kilobyte each
constexpr double kReadWeight = 0.001;       // of an element, where sharing it is the question

constexpr double kLibraryWeight = 0.025;
constexpr double kTileWeight = 0.035;
constexpr double kPanelsWeight =
    0.02;                        // with columns of weights, see packed_panels.h, and rows in place
constexpr int64_t kRowMin = 16;  // summed elements side by side
constexpr double kAcross = 5;
constexpr double kTransformedWeight = 0.6;  // of an element of tiles or of their products
constexpr double kTransformWeight = 0.06;   // of a point and a bit of the length, for one part
constexpr double kUnsplitWeight = 1;        // of a product with a wave
constexpr double kBorderWeight = 0.1;  // of a read that asks where it lies, see bordered_windows.h

double weight_of(const Node& node, Lowering lowering) {
  switch (node.op) {
    case Op::kContract:
      if (lowering == Lowering::kAttention) return 0.02;
      return lowering == Lowering::kGemm ? kLibraryWeight : kTileWeight;
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

Numerics numerics_of(std::string_view policy) {
  return common::numerics_part(policy) == common::kRelaxedPolicy ? Numerics::kRelaxed
                                                                 : Numerics::kStrict;
}

common::Program plain_program_of(const common::Graph& region) {
  Selected all = select_all(region);
  KernelMemo memo;
  return whole_program(fuse(all, plain_materialisation(all), memo));
}

RegionSpace::RegionSpace(const common::Graph& region, const common::Clock& clock, Numerics numerics,
                         common::Machine machine)
    : region_(region), sizes_(common::priced_sizes(region.symbols)), machine_(machine) {
  RunLimits limits;
  limits.nodes = kMaxNodes;
  // A slow machine must not see another e-graph than a fast one: nodes and memory are the bounds.
  limits.seconds = std::numeric_limits<double>::infinity();
  saturated_ = saturate(region_, limits, clock, numerics);
  best_ = best_nodes(*saturated_.graph, [this](NodeId node) { return node_cost(node); });
  decoder_ = std::make_unique<Decoder>(*saturated_.graph, best_);
  plain_ = plain_program_of(region_);
}

const common::Shape& RegionSpace::shape_of(ClassId cls) const {
  const EGraph& graph = *saturated_.graph;
  const common::Shape* shape = nullptr;
  graph.for_each_node(graph.find(cls), [&](NodeId n) {
    if (!shape) shape = &saturated_.heads->node(graph.head(n)).shape;
  });
  return *shape;
}

bool RegionSpace::is_offered(Lowering lowering) const {
  if (lowering == Lowering::kGrouped) return common::is_gpu(machine_);
  if (lowering == Lowering::kWinograd) return !common::is_gpu(machine_);
  return lowering != Lowering::kAbstract;
}

bool RegionSpace::reads_panels(NodeId contraction) const {
  const EGraph& graph = *saturated_.graph;
  if (common::is_gpu(machine_)) return false;
  const auto& c =
      common::attr<common::ContractAttr>(saturated_.heads->node(graph.head(contraction)));
  std::optional<size_t> columns = common::column_operand(c);
  return columns && (*saturated_.load_time)[graph.find(graph.children(contraction)[*columns])] != 0;
}

bool RegionSpace::reads_rows(NodeId contraction) const {
  const EGraph& graph = *saturated_.graph;
  const auto& c =
      common::attr<common::ContractAttr>(saturated_.heads->node(graph.head(contraction)));
  std::optional<size_t> columns = common::column_operand(c);
  if (!columns) return false;
  const std::vector<int>& labels = *columns == 0 ? c.b : c.a;
  bool found = false;
  graph.for_each_node(graph.find(graph.children(contraction)[1 - *columns]), [&](NodeId n) {
    Head head = graph.head(n);
    const Node& node = saturated_.heads->node(head);
    common::View view = common::view_identity(node.shape);
    common::Shape input = node.shape;
    // A copy that only this contraction needs is no operand in place.
    if (saturated_.heads->lowering(head) == Lowering::kCopy) return;
    if (node.op == Op::kView) {
      view = common::attr<common::ViewAttr>(node).view;
      input = shape_of(graph.children(n)[0]);
    }
    auto strided = common::view_strides(view, input, region_.symbols);
    if (!view.valid.empty() || !strided) return;
    int64_t run = 1, all = 1;
    bool is_broken = false;
    for (size_t k = labels.size(); k-- > 0;) {
      if (common::contains(c.out, labels[k])) continue;
      int64_t size = node.shape[k].evaluate(sizes_.front().sizes);
      is_broken = is_broken || !strided->strides[k].is_constant(run);
      if (!is_broken) run *= size;
      all *= size;
    }
    found = found || run >= std::min(all, kRowMin);
  });
  return found;
}

bool RegionSpace::needs_copy(ClassId operand) const {
  const EGraph& graph = *saturated_.graph;
  bool needs = true;
  graph.for_each_node(graph.find(operand), [&](NodeId n) {
    Head head = graph.head(n);
    const Node& node = saturated_.heads->node(head);
    if (saturated_.heads->lowering(head) == Lowering::kCopy) return;
    if (node.op == Op::kView) {
      const common::View& view = common::attr<common::ViewAttr>(node).view;
      const common::Shape& input = shape_of(graph.children(n)[0]);
      if (!view.valid.empty() || !common::view_strides(view, input, region_.symbols)) return;
    }
    needs = false;
  });
  return needs;
}

bool RegionSpace::lies_across(ClassId operand) const {
  const EGraph& graph = *saturated_.graph;
  bool found = false;
  graph.for_each_node(graph.find(operand), [&](NodeId n) {
    const Node& node = saturated_.heads->node(graph.head(n));
    if (node.op != Op::kView) return;
    auto strides = common::view_strides(common::attr<common::ViewAttr>(node).view,
                                        shape_of(graph.children(n)[0]), region_.symbols);
    bool is_affine = strides.has_value() && !strides->strides.empty();
    found = found || (is_affine && !strides->strides.back().is_constant(1) &&
                      !node.shape.back().is_constant(1));
  });
  return found;
}

bool RegionSpace::reads_border(NodeId id) const {
  const EGraph& graph = *saturated_.graph;
  const Node& node = saturated_.heads->node(graph.head(id));
  if (node.op != Op::kView || common::is_gpu(machine_)) return false;
  const common::View& view = common::attr<common::ViewAttr>(node).view;
  if (!has_windows(view)) return false;
  const ClassId image = graph.children(id)[0];
  bool found = bordered_windows(view, shape_of(image), region_.symbols).has_value() ||
               zero_bordered_windows(view, shape_of(image)).has_value();
  graph.for_each_node(graph.find(image), [&](NodeId n) {
    const Head head = graph.head(n);
    const Node& inner = saturated_.heads->node(head);
    if (found || inner.op != Op::kView || saturated_.heads->lowering(head) == Lowering::kCopy)
      return;
    auto both =
        common::view_compose(view, common::attr<common::ViewAttr>(inner).view, region_.symbols);
    found = both && bordered_windows(*both, shape_of(graph.children(n)[0]), region_.symbols);
  });
  return found;
}

double RegionSpace::transform_cost(const Node& node, const common::Shape& operand,
                                   double frequencies) const {
  int64_t points = operand.back().constant();
  auto n = static_cast<double>(points);
  if (common::is_gpu(machine_) || !common::is_kernel_length(points)) {
    return frequencies * n * kUnsplitWeight;
  }
  double rows = frequencies / static_cast<double>(node.shape.back().constant());
  return rows * n * (1 + std::log2(n)) * kTransformWeight;
}

double RegionSpace::winograd_cost(NodeId id, double products,
                                  const std::vector<int64_t>& sizes) const {
  const EGraph& graph = *saturated_.graph;
  const Node& node = saturated_.heads->node(graph.head(id));
  const auto& c = common::attr<common::ContractAttr>(node);
  double least = std::numeric_limits<double>::infinity();
  // Pairs of bfloat16 are multiplied twice as fast, and tiles are none.
  constexpr int kDepth = 3;
  const bool has_pairs = machine_ == common::Machine::kCpuPairs &&
                         stored_size(graph.children(id)[0], kDepth) == 2 &&
                         stored_size(graph.children(id)[1], kDepth) == 2;
  if (has_pairs) return least;
  for (size_t image : {size_t{0}, size_t{1}}) {
    const common::Shape& filter = shape_of(graph.children(id)[1 - image]);
    graph.for_each_node(graph.find(graph.children(id)[image]), [&](NodeId n) {
      const Node& windows = saturated_.heads->node(graph.head(n));
      if (windows.op != Op::kView) return;
      const common::View& view = common::attr<common::ViewAttr>(windows).view;
      auto form = winograd_form(c, image, view, filter);
      if (!form) return;
      const double share = form->share(view);
      const double results = common::count_elements(node.shape, sizes);
      const double pixels = common::count_elements(shape_of(graph.children(n)[0]), sizes);
      const auto taps = static_cast<double>(form->filter.taps);
      // Tiles of the image and the sums of products, each written and read once.
      const double moved = share * taps * (pixels + results);
      least = std::min(least, products * share * kPanelsWeight + moved * kTransformedWeight);
    });
  }
  return least;
}

double RegionSpace::node_cost(NodeId id) const {
  double sum = 0;
  for (const common::WeightedSizes& each : sizes_)
    sum += each.weight * node_cost_at(id, each.sizes);
  return sum;
}

double RegionSpace::node_cost_at(NodeId id, const std::vector<int64_t>& sizes) const {
  const EGraph& graph = *saturated_.graph;
  const HeadTable& heads = *saturated_.heads;
  Head head = graph.head(id);
  Lowering lowering = heads.lowering(head);
  if (!is_offered(lowering)) return std::numeric_limits<double>::infinity();
  const Node& node = heads.node(head);
  // A guard is a branch, behind which a GPU's threads begin to load.
  bool is_guarded = common::is_gpu(machine_) && node.op == Op::kView &&
                    !common::attr<common::ViewAttr>(node).view.valid.empty();
  auto elements = [&](const common::Shape& shape) { return common::count_elements(shape, sizes); };
  if (!is_computed(node) && lowering != Lowering::kCopy && !is_guarded) {
    return 0.001 + (reads_border(id) ? elements(node.shape) * kBorderWeight : 0);
  }
  double work = elements(node.shape);
  if (saturated_.load_time->make(graph, id)) {
    return kAtLoad +
           work * static_cast<double>(common::dtype_size(node.dtype)) * common::kHeldByteNs;
  }
  if (common::is_gpu(machine_)) return gpu_node_cost(id, sizes);
  auto child_shape = [&](size_t k) -> const common::Shape& {
    return shape_of(graph.children(id)[k]);
  };
  if (node.op == Op::kReduce) work = elements(child_shape(0));
  if (node.op == Op::kContract) {
    const auto& c = common::attr<common::ContractAttr>(node);
    for (size_t k = 0; k < c.a.size(); ++k) {
      if (!common::contains(c.out, c.a[k])) {
        work *= static_cast<double>(child_shape(0)[k].evaluate(sizes));
      }
    }
  }
  if (node.op == Op::kFourier) return 1 + transform_cost(node, child_shape(0), work);
  if (lowering == Lowering::kWinograd) return 1 + winograd_cost(id, work, sizes);
  double weight = weight_of(node, lowering);
  if (lowering == Lowering::kTile && reads_panels(id) && reads_rows(id)) weight = kPanelsWeight;
  // Where the library cannot read an operand as it lies, another template takes its place.
  if (lowering == Lowering::kGemm &&
      (needs_copy(graph.children(id)[0]) || needs_copy(graph.children(id)[1]))) {
    weight = 1.01 * kTileWeight;
  }
  // Rows that lie across memory: sums side by side took half as long (64 rows of 1000, normalised
  // over the rows).
  if (node.op == Op::kNorm && lies_across(graph.children(id)[0])) weight *= kAcross;
  double cost = 1 + work * weight;
  // Heads that share keys and values read them once where they are one group.
  if (lowering == Lowering::kAttention) {
    cost += kReadWeight * (elements(child_shape(0)) + elements(child_shape(1)));
  }
  return cost;
}

const std::vector<int64_t>& RegionSpace::choices_of(ClassId cls) {
  auto known = choices_.find(cls);
  if (known != choices_.end()) return known->second;
  std::vector<int64_t>& choices = choices_[cls];
  const EGraph& graph = *saturated_.graph;
  graph.for_each_node(cls, [&](NodeId n) {
    if (!is_offered(saturated_.heads->lowering(graph.head(n)))) return;
    for (ClassId child : graph.children(n)) {
      if (best_.node[graph.find(child)] == kNone) return;
    }
    choices.push_back(static_cast<int64_t>(n));
  });
  return choices;
}

Selected RegionSpace::select(const Genome& genome, std::vector<Site>& sites) {
  const EGraph& graph = *saturated_.graph;
  const HeadTable& heads = *saturated_.heads;
  auto preference = [&](ClassId cls) -> NodeId {
    auto gene = genome.get({GeneKind::kChoice, cls, 0});
    if (!gene) return kNone;
    auto node = static_cast<NodeId>(*gene);
    bool fits = node < graph.node_ids() && graph.is_live(node) && graph.class_of(node) == cls &&
                is_offered(heads.lowering(graph.head(node)));
    return fits ? node : kNone;
  };
  Selection selection;
  bool found = decoder_->decode(saturated_.outputs, preference, selection);
  LFARM_CHECK(found, "a region has no program");

  Selected selected;
  selected.graph.symbols = region_.symbols;
  selected.graph.inputs = region_.inputs;
  std::unordered_map<ClassId, common::NodeId> position;
  position.reserve(selection.classes.size());
  selected.graph.nodes.reserve(selection.classes.size());
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
    selected.choice.push_back(selection.nodes[k]);

    const std::vector<int64_t>& choices = choices_of(cls);
    if (choices.size() > 1) {
      auto chosen = static_cast<int64_t>(selection.nodes[k]);
      sites.push_back({{GeneKind::kChoice, cls, 0}, chosen, choices, head});
    }
  }
  for (size_t k = 0; k < region_.outputs.size(); ++k) {
    common::GraphOutput output = region_.outputs[k];
    output.node = position.at(graph.find(saturated_.outputs[k]));
    selected.graph.outputs.push_back(output);
  }
  return selected;
}

GeneName parameter_gene(ClassId root, common::Template form, size_t index) {
  return {GeneKind::kParameter, root,
          static_cast<uint32_t>(index) + 16 * static_cast<uint32_t>(form)};
}

namespace {

// Bodies and how calls connect them; all else follows from these.
common::Digest structure_digest(const FusedProgram& fused) {
  common::Hasher hasher;
  for (const auto& built : fused.kernels) {
    hasher.u64(static_cast<uint64_t>(built->kernel.form)).digest(built->body);
  }
  for (const common::Call& call : fused.shell.calls) {
    hasher.i64(call.kernel).u64(call.inputs.size()).u64(call.outputs.size());
    for (int buffer : call.inputs) hasher.i64(buffer);
    for (int buffer : call.outputs) hasher.i64(buffer);
  }
  return hasher.finish();
}

}  // namespace

std::shared_ptr<const RegionSpace::ChosenGraph> RegionSpace::chosen_graph(const Genome& genome) {
  auto known = chosen_.find(genome.choice_hash());
  if (known != chosen_.end()) return known->second;
  auto made = std::make_shared<ChosenGraph>();
  Selected selected = select(genome, made->sites);
  made->selected =
      common::is_gpu(machine_)
          ? with_convolution_operands(std::move(selected))
          : with_packed_panels(with_winograd_convolutions(std::move(selected)), machine_);
  made->selected.may_pair = machine_ == common::Machine::kGpuWarpgroups;
  made->selected.may_place_rows = !common::is_gpu(machine_);
  made->stored = default_materialisation(made->selected, attentions_);
  if (common::is_gpu(machine_)) {
    made->wishes.assign(made->stored.begin(), made->stored.end());
  } else {
    made->wishes = default_wishes(made->selected, made->stored);
  }
  made->values = store_values(made->selected);
  if (chosen_nodes_ >= kChosenNodesMax) {
    chosen_.clear();
    chosen_nodes_ = 0;
  }
  chosen_nodes_ += made->selected.graph.nodes.size();
  chosen_[genome.choice_hash()] = made;
  return made;
}

std::shared_ptr<const Structure> RegionSpace::structure(const Genome& genome) {
  auto it = recent_.find(genome.structure_hash());
  if (it != recent_.end()) return it->second;
  auto result = std::make_shared<Structure>();
  std::shared_ptr<const ChosenGraph> chosen = chosen_graph(genome);
  const Selected& selected = chosen->selected;
  Materialised materialised = chosen->stored;
  result->sites = chosen->sites;
  std::vector<int64_t> wishes = chosen->wishes;
  for (size_t i = 0; i < materialised.size(); ++i) {
    if (chosen->values[i].empty()) continue;
    GeneName name{GeneKind::kStore, selected.gene[i], 0};
    if (auto gene = genome.get(name)) wishes[i] = *gene;
    materialised[i] = wishes[i] != kStoreInPlace;
    Head head = saturated_.graph->head(choice_behind(selected.choice[i]));
    result->sites.push_back({name, wishes[i], chosen->values[i], head});
  }
  repair_materialisation(selected, materialised, attentions_);
  if (kernels_.size() >= kKernelsMax) kernels_.clear();
  result->fused =
      fuse(selected, materialised, kernels_, wishes,
           common::is_gpu(machine_) ? LaunchSharing::kOnGpu : LaunchSharing::kOnProcessor);
  result->fingerprint = structure_digest(result->fused);
  if (recent_.size() >= kRecentMax) recent_.clear();
  recent_[genome.structure_hash()] = result;
  return result;
}

common::Result<common::Program> RegionSpace::program(const Structure& structure,
                                                     const std::vector<ScheduleCode>& codes) {
  common::Program program = whole_program(structure.fused);
  for (size_t k = 0; k < codes.size(); ++k) {
    program.kernels[k].schedule = schedule_of(program.kernels[k].form, codes[k]);
  }
  common::Status status = common::verify(program);
  if (status.ok()) return program;
  return common::internal_error(
      common::cat("a genome decoded to an invalid program: ", status.error().message));
}

std::vector<ScheduleCode> RegionSpace::schedules(const Structure& structure, const Genome& genome,
                                                 std::vector<Site>* sites) const {
  std::vector<ScheduleCode> codes;
  for (size_t k = 0; k < structure.fused.kernels.size(); ++k) {
    common::Template form = structure.fused.kernels[k]->kernel.form;
    const auto& choices = common::schedule_parameters(form);
    ScheduleCode code = 0;
    for (size_t p : schedule_parameters_on(form, machine_)) {
      const auto& values = choices[p].values;
      Site site{parameter_gene(structure.fused.genes[k], form, p), values[0], values, 0};
      auto gene = genome.get(site.name);
      auto value = gene ? std::find(values.begin(), values.end(), *gene) : values.end();
      if (value != values.end()) {
        site.current = *value;
        code = with_digit(form, code, p, static_cast<size_t>(value - values.begin()));
      }
      if (sites != nullptr) sites->push_back(std::move(site));
    }
    codes.push_back(code);
  }
  return codes;
}

Decoded RegionSpace::decode(const Genome& genome) {
  std::shared_ptr<const Structure> structure = this->structure(genome);
  std::vector<Site> sites = structure->sites;
  std::vector<ScheduleCode> codes = schedules(*structure, genome, &sites);
  auto made = program(*structure, codes);
  LFARM_CHECK(made.ok(), made.ok() ? "" : made.error().message);
  return {*std::move(made), std::move(sites)};
}

}  // namespace coordinator
