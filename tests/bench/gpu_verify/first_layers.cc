#include "tests/bench/gpu_verify/first_layers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/ir/roll/roll.h"

namespace bench {
namespace {

using common::attr;
using common::BinaryOp;
using common::Graph;
using common::GraphOutput;
using common::LoopAttr;
using common::Node;
using common::NodeId;
using common::Op;
using common::Result;

constexpr NodeId kGone = -1;

size_t at(int64_t index) { return static_cast<size_t>(index); }

// Rewrites a rolled graph with shorter loops. Nodes keep their places; `renamed_` says which stand
// for others, and which are gone.
class Cutter {
 public:
  Cutter(Graph rolled, int64_t layers) : graph_(std::move(rolled)), layers_(layers) {}

  Result<Graph> run() {
    trips_.assign(graph_.nodes.size(), 0);
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      Node& node = graph_.nodes[k];
      if (node.op == Op::kLoopResult) {
        renamed_.push_back(cut_result(node, static_cast<NodeId>(k)));
        continue;
      }
      for (NodeId& operand : node.operands) operand = renamed_[at(operand)];
      if (node.op == Op::kLoop) cut_loop(node, k);
      renamed_.push_back(rename(node, static_cast<NodeId>(k)));
    }
    LFARM_RETURN_IF_ERROR(cut_outputs());
    graph_ = common::unroll(common::without_dead_nodes(graph_));
    cut_inputs();
    return std::move(graph_);
  }

 private:
  // What the node, whose operands are renamed, is from now on.
  static NodeId rename(const Node& node, NodeId id) {
    const auto gone = std::ranges::count(node.operands, kGone);
    if (gone == 0) return id;
    // Of the layers' checks the least counts.
    bool is_least = node.op == Op::kBinary && attr<common::BinaryAttr>(node).op == BinaryOp::kMin;
    return is_least && gone == 1 ? std::max(node.operands[0], node.operands[1]) : kGone;
  }

  // Keeps the iterations before the first that reads what is gone.
  void cut_loop(Node& node, size_t k) {
    auto& loop = std::get<LoopAttr>(node.attr);
    const int64_t trips = trips_[k] = loop.trip_count;
    const auto first = node.operands.begin() + loop.carried + loop.invariant;
    loop.trip_count = std::min(trips, layers_);
    for (int64_t p = 0; p < loop.per_iteration; ++p) {
      auto begin = first + p * trips, end = begin + loop.trip_count;
      loop.trip_count = std::find(begin, end, kGone) - begin;
    }
    std::vector<NodeId> operands(node.operands.begin(), first);
    for (int64_t p = 0; p < loop.per_iteration; ++p) {
      auto begin = first + p * trips;
      operands.insert(operands.end(), begin, begin + loop.trip_count);
    }
    node.operands = std::move(operands);
  }

  // Numbers the result by the loop's new length.
  NodeId cut_result(Node& node, NodeId id) const {
    const size_t from = at(node.operands[0]);
    if (renamed_[from] == kGone) return kGone;
    const Node& cut = graph_.nodes[from];
    const auto& loop = attr<LoopAttr>(cut);
    auto& result = std::get<common::LoopResultAttr>(node.attr).result;
    // Without iterations carried values are what they begin with.
    if (result < loop.carried) return loop.trip_count == 0 ? cut.operands[at(result)] : id;
    const int64_t output = (result - loop.carried) / trips_[from];
    const int64_t trip = (result - loop.carried) % trips_[from];
    result = static_cast<int>(loop.carried + output * loop.trip_count + trip);
    return trip < loop.trip_count ? id : kGone;
  }

  common::Status cut_outputs() {
    std::vector<GraphOutput> kept;
    for (GraphOutput& output : graph_.outputs) {
      output.node = renamed_[at(output.node)];
      if (output.node != kGone) {
        kept.push_back(output);
      } else if (output.kind == common::OutputKind::kUser) {
        return common::unsupported(
            common::cat("an output is a value behind the first ", layers_, " layers"));
      }
    }
    graph_.outputs = std::move(kept);
    return {};
  }

  // Drops the inputs that nothing reads any more.
  void cut_inputs() {
    std::vector<char> is_live = common::live_nodes(graph_);
    std::vector<char> is_read(graph_.inputs.size(), 0);
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      const Node& node = graph_.nodes[k];
      if (node.op == Op::kInput && is_live[k])
        is_read[at(attr<common::InputAttr>(node).position)] = 1;
    }
    for (const GraphOutput& output : graph_.outputs) {
      if (output.input >= 0) is_read[at(output.input)] = 1;
    }
    std::vector<int> place(graph_.inputs.size(), -1);
    std::vector<common::GraphInput> kept;
    for (size_t k = 0; k < graph_.inputs.size(); ++k) {
      if (is_read[k] == 0) continue;
      place[k] = static_cast<int>(kept.size());
      kept.push_back(graph_.inputs[k]);
    }
    graph_ = common::without_dead_nodes(graph_);
    graph_.inputs = std::move(kept);
    for (Node& node : graph_.nodes) {
      if (node.op != Op::kInput) continue;
      int& position = std::get<common::InputAttr>(node.attr).position;
      position = place[at(position)];
    }
    for (GraphOutput& output : graph_.outputs) {
      if (output.input >= 0) output.input = place[at(output.input)];
    }
  }

  Graph graph_;
  const int64_t layers_;
  std::vector<int64_t> trips_;  // by node: of a loop, before it was cut
  std::vector<NodeId> renamed_;
};

}  // namespace

Result<Graph> first_layers(const Graph& graph, int64_t layers) {
  return Cutter(common::roll(graph), layers).run();
}

}  // namespace bench
