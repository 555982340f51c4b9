#include "worker/codegen/cuda/text/split.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/hlir/sizes.h"

namespace worker {

using common::cat;
using common::Expr;

namespace {

// More parts take longer to put together than they save.
constexpr int64_t kSplitsMax = 64;

}  // namespace

int64_t cuda_splits(const Expr& units, const Expr& length, int64_t step, int64_t wanted,
                    const std::vector<common::SymbolRange>& symbols) {
  int64_t most = kSplitsMax;
  if (length.is_constant()) {
    most = std::clamp<int64_t>((length.constant() + step - 1) / step, 1, most);
  }
  if (wanted == 0) {
    auto results = std::max<int64_t>(units.evaluate(common::representative_sizes(symbols)), 1);
    wanted = kCudaProcessors / results;
  }
  return std::clamp<int64_t>(wanted, 1, most);
}

std::string cuda_split_range(int64_t splits, const std::string& lo, const std::string& hi,
                             int64_t step, const std::string& block) {
  return cat("const int64_t piece = lf_max_i64((", hi, " - ", lo, " + ", splits * step - 1, ") / ",
             splits * step, ", 1) * ", step, ";\nconst int64_t parts = lf_max_i64((", hi, " - ", lo,
             " + piece - 1) / piece, 1), split = ", block, " % ", splits,
             ";\nif (split >= parts) return;\nconst int64_t begin = ", lo,
             " + split * piece, end = lf_min_i64(", hi, ", begin + piece);");
}

std::string cuda_split_join(int64_t splits) {
  return cat("if (!lf_is_last(areas, blockIdx.x / ", splits, ", parts)) return;");
}

}  // namespace worker
