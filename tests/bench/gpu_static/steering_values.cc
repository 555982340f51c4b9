#include "tests/bench/gpu_static/steering_values.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/base/random.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/grouped_form.h"

namespace bench {
namespace {

using common::Graph;
using common::NodeId;

constexpr uint64_t kSeed = 1;

void put(const Graph& body, NodeId node, const std::vector<int64_t>& values,
         std::map<size_t, common::Bytes>& inputs) {
  const common::Node& input = body.node(node);
  if (input.op != common::Op::kInput || common::is_float(input.dtype)) return;
  const auto width = static_cast<size_t>(common::dtype_size(input.dtype));
  common::Bytes bytes(values.size() * width);
  // Of a little-endian machine.
  for (size_t k = 0; k < values.size(); ++k) {
    std::memcpy(bytes.data() + k * width, &values[k], width);
  }
  inputs[static_cast<size_t>(common::attr<common::InputAttr>(input).position)] = std::move(bytes);
}

}  // namespace

std::map<size_t, common::Bytes> steering_values(const Graph& body,
                                                const std::vector<int64_t>& symbols) {
  std::map<size_t, common::Bytes> inputs;
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    if (!common::has_row_order(body.nodes[id])) continue;
    const auto form = common::grouped_form(body, static_cast<NodeId>(id));
    if (!form) continue;
    auto count = [&](const common::Expr& e) {
      return static_cast<size_t>(common::count_elements({e}, symbols));
    };
    const size_t rows = count(common::element_count(body.node(form->index).shape));
    common::Random random(kSeed);
    std::vector<int64_t> groups(rows), order(rows);
    for (int64_t& group : groups) {
      group = static_cast<int64_t>(random.below(std::max<size_t>(1, count(form->groups))));
    }
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return groups[static_cast<size_t>(a)] < groups[static_cast<size_t>(b)];
    });
    put(body, form->index, groups, inputs);
    put(body, form->order, order, inputs);
  }
  return inputs;
}

}  // namespace bench
