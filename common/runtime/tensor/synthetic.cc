#include "common/runtime/tensor/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/base/random.h"
#include "common/ir/hlir/half.h"

namespace common {
namespace {

// Elements that are drawn of a tensor: drawing takes far longer than copying. A prime number.
constexpr size_t kPeriod = 65'521;

// Four 16-bit uniforms added: deviation 1, bounded by 3.47, the same bits everywhere.
double bounded_normal(Random& random) {
  uint64_t bits = random.next();
  int64_t sum = 0;
  for (int k = 0; k < 4; ++k) sum += static_cast<int64_t>((bits >> (16 * k)) & 0xffff);
  return (static_cast<double>(sum) - 131070.0) * (1.7320508075688772 / 65536);
}

double draw(Random& random, InputPattern pattern) {
  double x = bounded_normal(random);
  switch (pattern) {
    case InputPattern::kZeros:
      return 0;
    case InputPattern::kSigns:
      return x < 0 ? -1 : 1;
    case InputPattern::kLarge:
      return 64 * x;
    case InputPattern::kNegative:
      return -std::fabs(x) - 0x1p-10;
    case InputPattern::kPositive:
      return std::fabs(x) + 0x1p-10;
    case InputPattern::kMixed: {
      constexpr double kScales[8] = {0, 1e-6, 1e-4, 1e-2, 1, 1, 10, 10};
      return x * kScales[random.below(8)];
    }
    default:
      return x;
  }
}

// f() for every element, stored as T.
template <class T, class F>
void fill_as(HostTensor& tensor, F&& convert) {
  auto* to = reinterpret_cast<T*>(tensor.mutable_bytes().data());
  auto count = static_cast<size_t>(tensor.elements());
  const size_t drawn = std::min(count, kPeriod);
  for (size_t i = 0; i < drawn; ++i) to[i] = convert();
  for (size_t i = drawn; i < count; i += drawn) {
    std::memcpy(to + i, to, std::min(drawn, count - i) * sizeof(T));
  }
}

// f() for the elements, stored as the tensor's float dtype. Those of large tensors come again after
// a prime number of elements, which is no stride of any index map.
template <class F>
void fill_floats(HostTensor& tensor, F&& f) {
  switch (tensor.dtype()) {
    case DType::kFloat64:
      return fill_as<double>(tensor, f);
    case DType::kFloat32:
      return fill_as<float>(tensor, [&] { return static_cast<float>(f()); });
    case DType::kComplex64:
      return fill_as<std::array<float, 2>>(tensor, [&] {
        float real = static_cast<float>(f());
        return std::array<float, 2>{real, static_cast<float>(f())};
      });
    case DType::kBfloat16:
      return fill_as<uint16_t>(tensor,
                               [&] { return bfloat16_from_float(static_cast<float>(f())); });
    default:
      return fill_as<uint16_t>(tensor, [&] { return half_from_float(static_cast<float>(f())); });
  }
}

void fill_integers(HostTensor& tensor, const IntegerUse& use, Random& random,
                   InputPattern pattern) {
  bool mask = use.flag && !use.constrained;
  auto span = static_cast<uint64_t>(use.greatest - use.least) + 1;
  int64_t row = tensor.sizes().empty() ? 1 : tensor.sizes().back();
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    int64_t value = use.least + static_cast<int64_t>(random.below(span));
    bool extreme = random.below(4) == 0;
    if (mask) value = i % row == 0 || !extreme;  // no row is masked out entirely
    if (!mask && pattern == InputPattern::kZeros) value = use.least;
    if (!mask && pattern == InputPattern::kLarge && extreme) value = use.greatest;
    tensor.set_int(i, value);
  }
}

// Whether the input says in which order a contraction's rows are visited.
bool is_order(const Graph& graph, size_t input) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    if (node.op != Op::kContract || node.operands.size() != 3) return false;
    const Node& order = graph.node(node.operands[2]);
    return order.op == Op::kInput && static_cast<size_t>(attr<InputAttr>(order).position) == input;
  });
}

// Each position once.
void fill_order(HostTensor& tensor, Random& random) {
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    auto other = static_cast<int64_t>(random.below(static_cast<uint64_t>(i) + 1));
    if (other != i) tensor.set_int(i, tensor.get_int(other));
    tensor.set_int(other, i);
  }
}

double weight_scale(const std::vector<int64_t>& sizes) {
  int64_t fan_in = 1;
  int64_t widest = 1;
  for (size_t k = 1; k < sizes.size(); ++k) {
    fan_in *= sizes[k];
    widest = std::max(widest, sizes[k]);
  }
  // A stack of matrices has more inputs by this count than any of them reads.
  fan_in = std::min(fan_in, 9 * widest);
  return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(fan_in, 1)));
}

void fill_weight(HostTensor& tensor, Random& random) {
  if (tensor.sizes().size() <= 1) {
    fill_floats(tensor, [&] { return 1 + 0.2 * bounded_normal(random); });
    return;
  }
  double scale = weight_scale(tensor.sizes());
  fill_floats(tensor, [&] { return scale * bounded_normal(random); });
}

// The greatest magnitude that draw() gives.
double greatest(InputPattern pattern) {
  constexpr double kNormal = 3.4641016151377544;
  switch (pattern) {
    case InputPattern::kLarge:
      return 64 * kNormal;
    case InputPattern::kMixed:
      return 10 * kNormal;
    default:
      return kNormal;
  }
}

void fill_given(HostTensor& tensor, const FloatUse& use, Random& random, InputPattern pattern) {
  const bool is_matrix = tensor.sizes().size() >= 2;
  const double scale = use.trained && is_matrix ? weight_scale(tensor.sizes()) : 1;
  fill_floats(tensor, [&] {
    const double x = scale * draw(random, pattern);
    if (!use.not_negative || (x == 0 && !use.exceeds)) return x;
    if (use.counts) return 1 + std::floor(4 * std::fabs(x));
    return std::fabs(x) + (use.exceeds ? 1.25 * greatest(pattern) * greatest(pattern) : 0);
  });
}

}  // namespace

std::vector<int64_t> choose_sizes(const Graph& graph, uint64_t seed) {
  constexpr int64_t kMiddle = 24;
  constexpr int64_t kMost = 64;
  constexpr int64_t kElementsMax = int64_t{1} << 22;
  Random random(seed);
  std::vector<int64_t> sizes;
  for (size_t s = 0; s < graph.symbols.size(); ++s) {
    const SymbolRange& range = graph.symbols[s];
    int64_t least = std::max<int64_t>(range.min, std::min<int64_t>(1, range.max));
    int64_t most = std::min(range.max, std::max(least, kMost));
    int64_t drawn =
        least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least) + 1));
    // Symbols differ, so that a kernel that mixes two of them up is found out.
    int64_t middle = std::clamp(kMiddle + 3 * static_cast<int64_t>(s), least, most);
    sizes.push_back(seed == 0 ? middle : seed == 1 ? least : drawn);
  }
  auto too_large = [&] {
    for (const GraphInput& input : graph.inputs) {
      bool symbolic = std::any_of(input.shape.begin(), input.shape.end(),
                                  [](const Expr& size) { return !size.is_constant(); });
      double count = 1;
      for (int64_t size : evaluate_shape(input.shape, sizes)) count *= static_cast<double>(size);
      if (symbolic && count > static_cast<double>(kElementsMax)) return true;
    }
    return false;
  };
  while (too_large()) {
    bool shrunk = false;
    for (size_t s = 0; s < sizes.size(); ++s) {
      int64_t less = std::max(graph.symbols[s].min, sizes[s] / 2);
      shrunk = shrunk || less < sizes[s];
      sizes[s] = std::min(sizes[s], less);
    }
    if (!shrunk) break;
  }
  return sizes;
}

Result<std::vector<HostTensor>> synthetic_inputs(const Graph& graph,
                                                 std::span<const int64_t> symbols, uint64_t seed,
                                                 InputPattern pattern) {
  SharedWeights weights{seed};
  return synthetic_inputs(graph, symbols, seed, pattern, weights);
}

Result<std::vector<HostTensor>> synthetic_inputs(const Graph& graph,
                                                 std::span<const int64_t> symbols, uint64_t seed,
                                                 InputPattern pattern, SharedWeights& weights) {
  std::vector<IntegerUse> uses = integer_uses(graph, symbols);
  std::vector<FloatUse> floats = float_uses(graph);
  std::vector<HostTensor> tensors;
  weights.tensors.resize(graph.inputs.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const GraphInput& input = graph.inputs[i];
    std::vector<int64_t> sizes = evaluate_shape(input.shape, symbols);
    bool is_weight = input.kind == InputKind::kWeight;
    HostTensor& shared = weights.tensors[i];
    if (is_weight && shared.dtype() == input.dtype && shared.sizes() == sizes) {
      tensors.push_back(shared);
      continue;
    }
    Random random(combine64(is_weight ? weights.seed : seed, i));
    LFARM_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::banded(input.dtype, std::move(sizes),
                                                                 is_weight ? weights.band : 0));
    if (is_order(graph, i)) {
      fill_order(tensor, random);
    } else if (input.dtype == DType::kBool) {
      for (int64_t k = 0; k < tensor.elements(); ++k) tensor.set_int(k, random.below(4) != 0);
    } else if (is_integer(input.dtype)) {
      fill_integers(tensor, uses[i], random, is_weight ? InputPattern::kNormal : pattern);
    } else if (is_weight) {
      fill_weight(tensor, random);
    } else {
      bool user = input.kind == InputKind::kUser;
      fill_given(tensor, floats[i], random, user ? pattern : InputPattern::kNormal);
    }
    if (is_weight) shared = tensor;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace common
