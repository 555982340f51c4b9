#include "common/ir/hlir/sizes.h"

#include <algorithm>
#include <cstdio>

#include "common/base/cat.h"

namespace common {
namespace {

constexpr int64_t kTypicalSize = 32;
// What times at representative and least sizes count, and at large ones together. They must not
// decide everything that grows with a size, nor nothing: an attention whose blocks share keys takes
// 1 us more at 32 keys and 14 us less at 2,048.
constexpr double kTypicalWeight = 0.4, kLeastWeight = 0.4, kLargeWeight = 0.2;

// A range that lies above typical sizes is what somebody asked for, such as prompts of 1,025 to
// 2,048 tokens: its least size is no more usual than its others.
bool is_asked_for(const SymbolRange& range) { return range.min > kTypicalSize; }

int64_t middle(const SymbolRange& range) {
  return range.min + (std::min(range.max, 2 * range.min) - range.min) / 2;
}

}  // namespace

int64_t size_within(const SymbolRange& range, int64_t size) {
  return std::clamp(size, std::max<int64_t>(range.min, 1), std::max<int64_t>(range.max, 1));
}

std::vector<int64_t> representative_sizes(const std::vector<SymbolRange>& symbols) {
  std::vector<int64_t> sizes;
  for (const SymbolRange& s : symbols) {
    sizes.push_back(is_asked_for(s) ? middle(s) : size_within(s, kTypicalSize));
  }
  return sizes;
}

std::vector<WeightedSizes> priced_sizes(const std::vector<SymbolRange>& symbols, int64_t large) {
  const std::vector<int64_t> typical = representative_sizes(symbols);
  std::vector<WeightedSizes> all;
  auto add = [&](std::vector<int64_t> sizes, double weight) {
    for (WeightedSizes& known : all) {
      if (known.sizes != sizes) continue;
      known.weight += weight;
      return;
    }
    all.push_back({std::move(sizes), weight});
  };
  std::vector<int64_t> least;
  for (const SymbolRange& s : symbols) least.push_back(size_within(s, 1));
  const bool all_asked_for = !symbols.empty() && std::ranges::all_of(symbols, is_asked_for);
  const double large_weight = all_asked_for ? kLeastWeight : kLargeWeight;
  add(typical, kTypicalWeight);
  add(std::move(least), all_asked_for ? kLargeWeight : kLeastWeight);
  const size_t varying = std::min(symbols.size(), kVaryingMax);
  if (varying == 0) add(typical, large_weight);
  for (size_t k = 0; k < varying; ++k) {
    std::vector<int64_t> sizes = typical;
    sizes[k] = std::max(sizes[k], size_within(symbols[k], large));
    add(std::move(sizes), large_weight / static_cast<double>(varying));
  }
  return all;
}

std::string text_of(const std::vector<WeightedSizes>& all) {
  std::string text;
  for (const WeightedSizes& each : all) {
    if (each.sizes.empty()) continue;
    if (!text.empty()) text += ", ";
    for (size_t k = 0; k < each.sizes.size(); ++k) {
      text += cat(k == 0 ? "" : " ", "s", k, "=", each.sizes[k]);
    }
    char weight[16];
    std::snprintf(weight, sizeof weight, " (%.2f)", each.weight);
    text += weight;
  }
  return text;
}

double count_elements(const Shape& shape, const std::vector<int64_t>& sizes) {
  double product = 1;
  for (const Expr& size : shape) product *= static_cast<double>(size.evaluate(sizes));
  return product;
}

double count_bytes(DType dtype, const Shape& shape, const std::vector<int64_t>& sizes) {
  return count_elements(shape, sizes) * static_cast<double>(dtype_size(dtype));
}

}  // namespace common
