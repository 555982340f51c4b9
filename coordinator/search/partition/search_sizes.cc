#include "coordinator/search/partition/search_sizes.h"

#include <algorithm>
#include <optional>
#include <span>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"

namespace coordinator {
namespace {

using common::at;
using common::Graph;
using common::Node;
using common::Op;

// Multiply-adds of products that take the interpreter as long as an element of another operation.
constexpr double kElementWork = 32;
// Of a run that is measured dozens of times: some 0.2 s of a processor's core, 30 ms of a large
// GPU.
constexpr double kCpuWorkMax = 4e9, kGpuWorkMax = 2e13;
// And what its inputs and outputs take.
constexpr double kCpuBytesMax = 256e6, kGpuBytesMax = 1e9;
// Of a reference: a second or two of an interpreter's core.
constexpr double kReferenceWorkMax = 8e9;
// Primes, so that a loop that is cut has a ragged end, whatever the step.
constexpr int64_t kLargePrimes[] = {2039, 1021, 509};
constexpr int64_t kSmallPrimes[] = {197, 131, 67};

// The product that the node sums up, through views, where nothing else reads it: it is not stored.
std::optional<common::NodeId> summed_product(const Graph& graph, const Node& node,
                                             const std::vector<int>& uses) {
  if (node.op != Op::kReduce) return std::nullopt;
  if (common::attr<common::ReduceAttr>(node).op != common::ReduceOp::kSum) return std::nullopt;
  for (common::NodeId id = node.operands[0]; uses[at(id)] == 1; id = graph.node(id).operands[0]) {
    const Node& inner = graph.node(id);
    if (inner.op == Op::kBinary) {
      bool is_product = common::attr<common::BinaryAttr>(inner).op == common::BinaryOp::kMul;
      return is_product ? std::optional(id) : std::nullopt;
    }
    if (inner.op != Op::kView) return std::nullopt;
  }
  return std::nullopt;
}

double summed_steps(const Graph& graph, const Node& node, const std::vector<int64_t>& sizes) {
  const auto& c = common::attr<common::ContractAttr>(node);
  double steps = 1;
  for (size_t k = 0; k < c.a.size(); ++k) {
    if (common::contains(c.out, c.a[k])) continue;
    steps *= static_cast<double>(graph.node(node.operands[0]).shape[k].evaluate(sizes));
  }
  return steps;
}

double io_bytes(const Graph& graph, const std::vector<int64_t>& sizes) {
  double bytes = 0;
  for (const auto& input : graph.inputs) {
    if (input.kind == common::InputKind::kWeight) continue;
    bytes += common::count_bytes(input.dtype, input.shape, sizes);
  }
  for (const auto& output : graph.outputs) {
    const Node& node = graph.node(output.node);
    bytes += common::count_bytes(node.dtype, node.shape, sizes);
  }
  return bytes;
}

// The first of the primes, within the symbol's range, at which a reference is cheap enough.
std::optional<std::vector<int64_t>> with_prime(const Graph& graph, size_t symbol,
                                               std::span<const int64_t> primes) {
  for (int64_t prime : primes) {
    std::vector<int64_t> sizes = common::representative_sizes(graph.symbols);
    sizes[symbol] = common::size_within(graph.symbols[symbol], prime);
    if (graph_work(graph, sizes) <= kReferenceWorkMax) return sizes;
  }
  return std::nullopt;
}

}  // namespace

double graph_work(const Graph& graph, const std::vector<int64_t>& sizes) {
  const std::vector<int> uses = common::use_counts(graph);
  std::vector<char> is_summed(graph.nodes.size(), 0);
  for (const Node& node : graph.nodes) {
    if (auto product = summed_product(graph, node, uses)) is_summed[at(*product)] = 1;
  }
  double work = 0;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    bool is_free = node.op == Op::kInput || node.op == Op::kConstant || node.op == Op::kView ||
                   node.op == Op::kLoopResult || is_summed[id] != 0;
    if (is_free) continue;
    if (node.op == Op::kLoop) {
      const auto& loop = common::attr<common::LoopAttr>(node);
      work += static_cast<double>(loop.trip_count) * graph_work(*loop.body, sizes);
      continue;
    }
    double results = common::count_elements(node.shape, sizes);
    if (node.op == Op::kContract) {
      work += results * (kElementWork + summed_steps(graph, node, sizes));
      continue;
    }
    if (node.op == Op::kReduce) {
      double steps = common::count_elements(graph.node(node.operands[0]).shape, sizes);
      bool is_product = summed_product(graph, node, uses).has_value();
      work += is_product ? steps : steps * kElementWork;
    }
    work += results * kElementWork;
  }
  return work;
}

std::vector<common::WeightedSizes> search_sizes(const Graph& graph, const common::Target& target) {
  bool is_gpu = common::is_gpu(common::machine_of(target));
  const double work_max = is_gpu ? kGpuWorkMax : kCpuWorkMax;
  const double bytes_max = is_gpu ? kGpuBytesMax : kCpuBytesMax;
  for (int64_t large = common::kLargeSize;; large /= 2) {
    std::vector<common::WeightedSizes> all = common::priced_sizes(graph.symbols, large);
    bool fits = std::all_of(all.begin() + 1, all.end(), [&](const common::WeightedSizes& each) {
      return graph_work(graph, each.sizes) <= work_max && io_bytes(graph, each.sizes) <= bytes_max;
    });
    if (fits || large <= 1) return all;
  }
}

common::VerifyOptions verified_sizes(const Graph& graph) {
  const auto& symbols = graph.symbols;
  std::vector<int64_t> typical = common::representative_sizes(symbols);
  common::VerifyOptions options;
  options.sizes = {typical};
  auto add = [&](std::vector<int64_t> more) {
    if (!common::contains(options.sizes, more)) options.sizes.push_back(std::move(more));
  };
  for (size_t s = 0; s < std::min(symbols.size(), common::kVaryingMax); ++s) {
    auto large = with_prime(graph, s, kLargePrimes);
    if (!large) large = with_prime(graph, s, kSmallPrimes);
    if (large) add(std::move(*large));
  }
  options.always = static_cast<uint32_t>(options.sizes.size());
  std::vector<int64_t> smallest, odd;
  for (size_t s = 0; s < symbols.size(); ++s) {
    smallest.push_back(common::size_within(symbols[s], 1));
    odd.push_back(common::size_within(symbols[s], typical[s] / 2 + 3));
    if (s >= common::kVaryingMax) continue;
    // One symbol at a time: all of them would be too much to compute a reference of.
    std::vector<int64_t> several = typical;
    several[s] = common::size_within(symbols[s], kSmallPrimes[0]);
    add(std::move(several));
  }
  add(std::move(smallest));
  add(std::move(odd));
  return options;
}

}  // namespace coordinator
