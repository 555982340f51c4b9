#include "common/ir/hlir/sizes.h"

#include <algorithm>

namespace common {
namespace {

constexpr int64_t kTypicalSize = 32;

}  // namespace

std::vector<int64_t> representative_sizes(const std::vector<SymbolRange>& symbols) {
  std::vector<int64_t> sizes;
  for (const SymbolRange& s : symbols) {
    sizes.push_back(std::clamp(kTypicalSize, std::max<int64_t>(s.min, 1), s.max));
  }
  return sizes;
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
