#include "tests/fuzz/graphs/random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "tests/fuzz/graphs/graph_grower.h"

namespace fuzz {

using common::DType;
using common::Expr;
using common::HostTensor;
using common::InputKind;
using common::NodeId;
using common::Random;
using common::Shape;
using common::SymbolRange;

namespace {

constexpr DType kDTypes[] = {DType::kBool,    DType::kUint8,   DType::kInt8,    DType::kInt16,
                             DType::kInt32,   DType::kInt64,   DType::kFloat16, DType::kBfloat16,
                             DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kFloat64};
constexpr int64_t kSizeMax = 7;
// Beyond a vector register of any dtype, with and without a remainder.
constexpr int64_t kWideSizes[] = {16, 17, 33, 64, 70};
// Beyond the blocks in which reductions work.
constexpr int64_t kLongSizes[] = {257, 600, 2100, 4500};
constexpr SymbolRange kRanges[] = {{0, 7}, {1, 7}, {0, 64}, {2, 9}, {1, 4096}, {4, 4}};

struct Scale {
  bool large = false;
  int64_t elements_max = 1500;
};

template <class T, size_t N>
const T& any_of(Random& random, const T (&values)[N]) {
  return values[random.below(N)];
}

std::vector<SymbolRange> some_symbols(Random& random) {
  std::vector<SymbolRange> symbols;
  if (random.chance(0.4)) return symbols;
  symbols.push_back(any_of(random, kRanges));
  if (random.chance(0.5)) symbols.push_back(any_of(random, kRanges));
  return symbols;
}

// The least sizes, ones where they are allowed, and two random choices.
std::vector<std::vector<int64_t>> some_bindings(Random& random,
                                                const std::vector<SymbolRange>& symbols) {
  std::vector<std::vector<int64_t>> bindings(4);
  for (const SymbolRange& s : symbols) {
    int64_t most = std::min(s.max, kSizeMax);
    auto span = static_cast<uint64_t>(most - s.min + 1);
    bindings[0].push_back(s.min + static_cast<int64_t>(random.below(span)));
    bindings[1].push_back(s.min + static_cast<int64_t>(random.below(span)));
    bindings[2].push_back(std::clamp<int64_t>(1, s.min, most));
    bindings[3].push_back(s.min);
  }
  if (symbols.size() == 1 && random.chance(0.3)) {
    bindings[0] = {std::clamp(any_of(random, kWideSizes), symbols[0].min, symbols[0].max)};
  }
  std::sort(bindings.begin(), bindings.end());
  bindings.erase(std::unique(bindings.begin(), bindings.end()), bindings.end());
  return bindings;
}

Shape input_shape(Random& random, const TameBuilder& tame, const std::vector<SymbolRange>& symbols,
                  const Scale& scale, bool shows_all) {
  Shape shape;
  if (shows_all) {
    for (size_t s = 0; s < symbols.size(); ++s) shape.push_back(Expr::symbol(static_cast<int>(s)));
  }
  size_t rank = random.chance(0.1) ? 0 : 1 + random.below(random.chance(0.2) ? 5 : 3);
  while (shape.size() < rank) {
    if (!symbols.empty() && random.chance(0.35)) {
      shape.push_back(Expr::symbol(static_cast<int>(random.below(symbols.size()))));
    } else if (random.chance(0.02)) {
      shape.push_back(0);
    } else {
      shape.push_back(random.chance(0.1) ? any_of(random, kWideSizes)
                                         : static_cast<int64_t>(1 + random.below(kSizeMax)));
    }
    if (scale.large && !shape.empty() && random.chance(0.3))
      shape.back() = any_of(random, kLongSizes);
    if (!shape.empty() && tame.most_elements(shape) > scale.elements_max) shape.back() = 1;
  }
  for (size_t k = shape.size(); k-- > 1;) std::swap(shape[k], shape[random.below(k + 1)]);
  return shape;
}

Numbers numbers_of(DType dtype, Fill fill) {
  if (dtype == DType::kBool) return {1, 0, 0, false};
  if (common::is_float(dtype)) {
    return {4, 0, fill == Fill::kSmall ? 3 : kNoGrain, fill == Fill::kSpecial};
  }
  return {fill == Fill::kSmall ? 7 : integer_limit(dtype), 0, 0, false};
}

double some_float(Random& random, Fill fill) {
  if (fill == Fill::kSmall) return (static_cast<double>(random.below(65)) - 32) / 8;
  if (fill == Fill::kSpecial && random.chance(0.2)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kSpecials[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                                    -0.0};
    return any_of(random, kSpecials);
  }
  return 8 * random.unit() - 4;
}

int64_t some_integer(Random& random, DType dtype, Fill fill) {
  if (dtype == DType::kBool) return static_cast<int64_t>(random.below(2));
  auto small = static_cast<int64_t>(random.below(15)) - 7;
  if (fill == Fill::kSmall || random.chance(0.3)) return dtype == DType::kUint8 ? small & 7 : small;
  if (random.chance(0.2)) {  // the ends of the range
    int64_t least = -(int64_t{1} << (8 * common::dtype_size(dtype) - 2)) * 2;
    return random.chance(0.5) ? least : least ^ -1;
  }
  return static_cast<int64_t>(random.next());
}

// Gives every state, and now and then a user's input, new content.
void mutate_inputs(Random& random, TameBuilder& tame, GraphGrower& grower,
                   const std::vector<NodeId>& inputs, const std::vector<InputKind>& kinds,
                   std::vector<double>& errors) {
  common::GraphBuilder& b = tame.graph();
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool wanted =
        kinds[i] == InputKind::kState || (kinds[i] == InputKind::kUser && random.chance(0.1));
    if (!wanted) continue;
    for (int attempt = 0; attempt < 30; ++attempt) {
      NodeId from = grower.pool()[random.below(grower.pool().size())];
      // Rather what was made of the state than anything broadcast to its shape.
      bool alike = b.dtype(from) == b.dtype(inputs[i]) && b.shape(from) == b.shape(inputs[i]);
      if (from == inputs[i] || (!alike && attempt < 15)) continue;
      auto fitting = grower.shaped(from, b.dtype(inputs[i]), b.shape(inputs[i]));
      if (!fitting) continue;
      b.mutate(static_cast<int>(i), *fitting);
      errors.push_back(tame.numbers(*fitting).error);
      break;
    }
  }
}

}  // namespace

RandomGraph random_graph(uint64_t seed) {
  Random random(seed);
  RandomGraph result;
  Scale scale;
  if (random.chance(0.05)) scale = {true, 30'000};
  std::vector<SymbolRange> symbols = some_symbols(random);
  result.bindings = some_bindings(random, symbols);
  TameBuilder tame(symbols, result.bindings);
  common::GraphBuilder& b = tame.graph();

  std::vector<NodeId> inputs;
  std::vector<InputKind> kinds;
  size_t count = 1 + random.below(4);
  for (size_t i = 0; i < count; ++i) {
    constexpr InputKind kKinds[] = {InputKind::kUser, InputKind::kUser, InputKind::kWeight,
                                    InputKind::kState};
    constexpr Fill kFills[] = {Fill::kSmall, Fill::kSmall, Fill::kFull, Fill::kFull,
                               Fill::kSpecial};
    DType dtype = any_of(random, kDTypes);
    result.fills.push_back(any_of(random, kFills));
    kinds.push_back(any_of(random, kKinds));
    NodeId input = b.input(kinds[i], dtype, input_shape(random, tame, symbols, scale, i == 0),
                           common::cat("x", i));
    inputs.push_back(tame.declare(input, numbers_of(dtype, result.fills[i])));
  }
  GraphGrower grower(tame, random, inputs, scale.elements_max);
  size_t steps = 3 + random.below(14);
  for (size_t k = 0; k < steps; ++k) grower.grow();

  auto give = [&](NodeId node) {
    b.output(node);
    result.errors.push_back(tame.numbers(node).error);
  };
  // The last results, so that little is dead, and a few of any.
  size_t last = std::min<size_t>(1 + random.below(4), grower.pool().size());
  for (size_t k = 0; k < last; ++k) give(grower.pool()[grower.pool().size() - 1 - k]);
  for (size_t k = random.below(3); k > 0; --k) {
    give(grower.pool()[random.below(grower.pool().size())]);
  }
  mutate_inputs(random, tame, grower, inputs, kinds, result.errors);
  result.graph = b.finish();
  return result;
}

std::vector<HostTensor> random_inputs(const RandomGraph& random_graph, size_t binding,
                                      uint64_t seed) {
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < random_graph.graph.inputs.size(); ++i) {
    const common::GraphInput& input = random_graph.graph.inputs[i];
    Random random(common::combine64(common::combine64(seed, binding), i));
    HostTensor tensor =
        HostTensor::zeros(input.dtype,
                          common::evaluate_shape(input.shape, random_graph.bindings[binding]))
            .value();
    for (int64_t k = 0; k < tensor.elements(); ++k) {
      if (common::is_float(input.dtype)) {
        tensor.set(k, some_float(random, random_graph.fills[i]));
      } else {
        tensor.set_int(k, some_integer(random, input.dtype, random_graph.fills[i]));
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace fuzz
