#include "common/schedule/gpu_splits.h"

#include <algorithm>

#include "common/ir/hlir/sizes.h"

namespace common {
namespace {

// More parts take longer to put together than they save.
constexpr int64_t kSplitsMax = 64;

}  // namespace

int64_t gpu_splits_max(const Expr& length, int64_t step) {
  if (!length.is_constant()) return kSplitsMax;
  return std::clamp<int64_t>((length.constant() + step - 1) / step, 1, kSplitsMax);
}

int64_t gpu_splits(int64_t units, const Expr& length, int64_t step, int64_t wanted,
                   int64_t processors) {
  if (wanted == 0) wanted = processors / std::max<int64_t>(units, 1);
  return std::clamp<int64_t>(wanted, 1, gpu_splits_max(length, step));
}

int64_t gpu_splits(const Expr& units, const Expr& length, int64_t step, int64_t wanted,
                   const std::vector<SymbolRange>& symbols, int64_t processors) {
  return gpu_splits(units.evaluate(representative_sizes(symbols)), length, step, wanted,
                    processors);
}

}  // namespace common
