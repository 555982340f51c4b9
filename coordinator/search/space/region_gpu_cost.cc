// What extraction charges an operation on a GPU, in nanoseconds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/cost/kernels/cost_model.h"
#include "common/cost/kernels/gpu_cost.h"
#include "common/cost/kernels/kernel_work.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/sizes.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {
namespace {

using common::DType;
using common::Node;
using common::Op;

// Every choice counts for something.
constexpr double kLeast = 0.01;
// Views and casts between a contraction and what it reads in memory.
constexpr int kReadThrough = 6;

// Of a launch, what an operation pays that other operations' kernels can rarely hold as it is.
constexpr double kOwnLaunch = 0.5;
// Elements that a thread computes at most, of few.
constexpr double kThreadSteps = 8;

bool begins_kernel(Op op) {
  return op == Op::kContract || op == Op::kReduce || op == Op::kSoftmax || op == Op::kNorm ||
         op == Op::kScan || op == Op::kScatter || op == Op::kSort || op == Op::kFourier;
}

// The machine whose prices choose operations, whatever GPU runs them.
const common::GpuMachine& priced_gpu() { return *common::device_terms({"cuda-sm_90a"}).gpu; }

double hard_operations(const Node& node) {
  switch (node.op) {
    case Op::kUnary:
      return common::attr<common::UnaryAttr>(node).op > common::UnaryOp::kNot ? 1 : 0;
    case Op::kBinary:
      return common::attr<common::BinaryAttr>(node).op == common::BinaryOp::kDiv ? 0.3 : 0;
    case Op::kSoftmax:
      return 1;
    case Op::kPhilox:
      return 2;
    default:
      return 0;
  }
}

}  // namespace

int64_t RegionSpace::stored_size(ClassId cls, int depth) const {
  const EGraph& graph = *saturated_.graph;
  int64_t size = INT64_MAX;
  graph.for_each_node(graph.find(cls), [&](NodeId n) {
    const Node& node = saturated_.heads->node(graph.head(n));
    int64_t own = common::dtype_size(node.dtype);
    bool is_seen_through = node.op == Op::kView || node.op == Op::kCast;
    if (is_seen_through && depth > 0) {
      own = std::min(own, stored_size(graph.children(n)[0], depth - 1));
    }
    size = std::min(size, own);
  });
  return size;
}

double RegionSpace::read_bytes(ClassId cls, const std::vector<int64_t>& sizes, double elements,
                               int depth) const {
  const EGraph& graph = *saturated_.graph;
  double bytes = std::numeric_limits<double>::infinity();
  graph.for_each_node(graph.find(cls), [&](NodeId n) {
    const Node& node = saturated_.heads->node(graph.head(n));
    double own = std::min(elements, common::count_elements(node.shape, sizes));
    bool is_seen_through = node.op == Op::kView || node.op == Op::kCast;
    bool is_product = node.op == Op::kBinary &&
                      common::attr<common::BinaryAttr>(node).op == common::BinaryOp::kMul;
    double read = own * static_cast<double>(common::dtype_size(node.dtype));
    if (depth > 0 && (is_seen_through || is_product)) {
      double below = 0;
      for (ClassId child : graph.children(n)) below += read_bytes(child, sizes, own, depth - 1);
      read = std::min(read, below);
    }
    bytes = std::min(bytes, read);
  });
  return bytes;
}

std::optional<bool> RegionSpace::rounds_probabilities(ClassId cls, int depth) const {
  const EGraph& graph = *saturated_.graph;
  std::optional<bool> found;
  graph.for_each_node(graph.find(cls), [&](NodeId n) {
    const Node& node = saturated_.heads->node(graph.head(n));
    if (node.op == Op::kSoftmax) found = false;
    bool leads = node.op == Op::kView || node.op == Op::kCast || node.op == Op::kSelect;
    if (found || !leads || depth == 0) return;
    for (ClassId child : graph.children(n)) {
      auto below = rounds_probabilities(child, depth - 1);
      if (below) found = *below || common::is_half(node.dtype);
    }
  });
  return found;
}

common::Template RegionSpace::note_order(NodeId id, const std::vector<int64_t>& sizes,
                                         common::KernelProfile& profile) const {
  const Node& node = saturated_.heads->node(saturated_.graph->head(id));
  auto child = [&](size_t k) { return saturated_.graph->children(id)[k]; };
  if (node.op == Op::kSort) {
    const auto axis = static_cast<size_t>(common::attr<common::SortAttr>(node).axis);
    DType key = DType::kInt64;
    saturated_.graph->for_each_node(saturated_.graph->find(child(0)), [&](NodeId n) {
      key = saturated_.heads->node(saturated_.graph->head(n)).dtype;
    });
    const common::Shape& keys = shape_of(child(0));
    profile.sort.length = static_cast<double>(keys[axis].evaluate(sizes));
    profile.sort.lines = common::count_elements(keys, sizes) / profile.sort.length;
    profile.sort.blocks =
        common::sort_blocks(key, common::Bounds(region_.symbols, {}).upper(keys[axis]));
    return common::Template::kSort;
  }
  if (node.op == Op::kScatter) {
    // Where updates may meet, each element looks at those along an axis.
    const auto& coordinates = common::attr<common::ScatterAttr>(node).coordinates;
    const common::Shape& updates = shape_of(child(1));
    for (size_t k = 0; k < std::min(coordinates.size(), updates.size()); ++k) {
      if (coordinates[k].slot < 0) continue;
      profile.longest_sum =
          std::max(profile.longest_sum, static_cast<double>(updates[k].evaluate(sizes)));
    }
    return common::Template::kScatter;
  }
  return common::Template::kLoops;
}

double RegionSpace::gathered_matrices(ClassId cls, const std::vector<int64_t>& sizes,
                                      int depth) const {
  const EGraph& graph = *saturated_.graph;
  double count = 0;
  auto note = [&](double found) {
    if (found > 0) count = count > 0 ? std::min(count, found) : found;
  };
  graph.for_each_node(graph.find(cls), [&](NodeId n) {
    const Node& node = saturated_.heads->node(graph.head(n));
    if ((node.op == Op::kView || node.op == Op::kCast) && depth > 0) {
      note(gathered_matrices(graph.children(n)[0], sizes, depth - 1));
    }
    if (node.op != Op::kGather) return;
    const auto& coordinates = common::attr<common::GatherAttr>(node).coordinates;
    for (size_t k = 0; k < coordinates.size(); ++k) {
      const common::Expr& size = shape_of(graph.children(n)[0])[k];
      if (coordinates[k].slot >= 0) note(static_cast<double>(size.evaluate(sizes)));
    }
  });
  return count;
}

double RegionSpace::gpu_node_cost(NodeId id, const std::vector<int64_t>& sizes) const {
  const Node& node = saturated_.heads->node(saturated_.graph->head(id));
  if (node.op == Op::kContract) return gpu_contraction_cost(id, sizes);
  common::KernelProfile profile;
  double work = common::count_elements(node.shape, sizes);
  if (node.op == Op::kReduce) {
    ClassId summed = saturated_.graph->children(id)[0];
    work = common::count_elements(shape_of(summed), sizes);
    // Sums of products are chosen beside contractions, which pay for their operands too.
    profile.moved_bytes = read_bytes(summed, sizes, work, kReadThrough);
  }
  profile.simple_ops = work;
  profile.hard_ops = work * hard_operations(node);
  if (saturated_.heads->lowering(saturated_.graph->head(id)) == Lowering::kCopy) {
    profile.moved_bytes = 2 * work * static_cast<double>(common::dtype_size(node.dtype));
  }
  common::Template form = note_order(id, sizes, profile);
  common::GpuKernelFacts facts = gpu_facts(form, profile);
  facts.blocks = std::max(facts.blocks, std::ceil(work / (facts.block_threads * kThreadSteps)));
  common::GpuKernelTime time = common::gpu_kernel_time(facts, priced_gpu());
  double ns = std::max(time.issue_ns, time.dram_ns);
  if (!begins_kernel(node.op)) return kLeast + ns;
  return kOwnLaunch * common::kGpuLaunchNs + std::max(ns, time.latency_ns);
}

double RegionSpace::gpu_contraction_cost(NodeId id, const std::vector<int64_t>& sizes) const {
  const EGraph& graph = *saturated_.graph;
  const Node& node = saturated_.heads->node(graph.head(id));
  Lowering lowering = saturated_.heads->lowering(graph.head(id));
  auto elements = [&](const common::Shape& shape) { return common::count_elements(shape, sizes); };
  auto child = [&](size_t k) { return graph.children(id)[k]; };
  common::KernelProfile profile;
  bool is_library = lowering == Lowering::kGemm;
  common::GraphBuilder operands(region_.symbols);
  Node contraction = node;
  contraction.operands.clear();
  for (size_t k : {size_t{0}, size_t{1}}) {
    contraction.operands.push_back(
        operands.input(common::InputKind::kUser, node.dtype, shape_of(child(k)), ""));
  }
  operands.output(operands.raw(contraction));
  common::Graph body = operands.finish();
  profile.contraction = contraction_size(body, body.node(body.outputs[0].node), sizes);
  if (lowering == Lowering::kGrouped) {
    profile.contraction.rows = std::exchange(profile.contraction.batch, 1);
  }
  profile.contraction_ops = profile.contraction.batch * profile.contraction.rows *
                            profile.contraction.columns * profile.contraction.steps;
  profile.moved_bytes = elements(node.shape) * static_cast<double>(common::dtype_size(node.dtype));
  profile.contraction.is_half = true;
  for (size_t k : {size_t{0}, size_t{1}}) {
    if (lowering == Lowering::kAttention) {
      // Probabilities are computed where they are multiplied.
      if (auto rounds = rounds_probabilities(child(k), kReadThrough)) {
        profile.attention.normalises_first = *rounds;
        profile.attention.rounds = *rounds;
        continue;
      }
    }
    // A library reads what is stored for it, a kernel through views and casts.
    int64_t size = stored_size(child(k), is_library ? 0 : kReadThrough);
    double read = elements(shape_of(child(k)));
    // Matrices have columns beside the rows' labels. Each is read once, whatever rows ask for it.
    if (lowering == Lowering::kGrouped &&
        shape_of(child(k)).size() > shape_of(child(1 - k)).size()) {
      profile.contraction.groups = gathered_matrices(child(k), sizes, kReadThrough);
      read *= std::min(1.0, profile.contraction.groups / profile.contraction.rows);
    }
    profile.moved_bytes += read * static_cast<double>(size);
    profile.contraction.is_half = profile.contraction.is_half && size == 2;
  }
  // Rows that are computed are stored before they are multiplied.
  if (lowering == Lowering::kGrouped) {
    profile.contraction.is_copied = profile.contraction.is_half;
  }
  if (lowering == Lowering::kAttention) {
    profile.attention.rows = std::min(profile.contraction.rows, profile.contraction.columns);
    profile.attention.is_half = profile.contraction.is_half;
    common::GpuKernelFacts facts = gpu_facts(common::Template::kAttention, profile);
    common::GpuKernelTime time = common::gpu_kernel_time(facts, priced_gpu());
    // Scores and softmax, which an attention takes into its kernel, have paid for the launch, and
    // are as long under way.
    return kLeast + std::max({time.dram_ns, time.issue_ns, time.tensor_ns});
  }
  const common::WeightedProfile whole{profile, 1};
  double ns = gpu_predict_ns(is_library ? common::Template::kGemm : common::Template::kTile,
                             {&whole, 1}, priced_gpu());
  if (is_library) return ns;
  // Loops compute a product with one row as fast. They share a launch with others, and take a norm
  // of the row into their kernel; a tile does neither.
  bool is_row = std::min(profile.contraction.rows, profile.contraction.columns) <= 1;
  if (is_row) return kLeast + ns;
  return kLeast + ns - (1 - kOwnLaunch) * common::kGpuLaunchNs;
}

}  // namespace coordinator
