#include "worker/codegen/cuda/text/split.h"

#include "common/base/cat.h"

namespace worker {

using common::cat;

std::string cuda_split_range(int64_t splits, const std::string& lo, const std::string& hi,
                             int64_t step, const std::string& block) {
  return cat("const int64_t piece = lf_max_i64((", hi, " - ", lo, " + ", splits * step - 1, ") / ",
             splits * step, ", 1) * ", step, ";\nconst int64_t parts = lf_max_i64((", hi, " - ", lo,
             " + piece - 1) / piece, 1), split = ", block, " % ", splits,
             ";\nif (split >= parts) return;\nconst int64_t begin = ", lo,
             " + split * piece, end = lf_min_i64(", hi, ", begin + piece);");
}

std::string cuda_split_range(const std::string& splits, const std::string& length, int64_t step,
                             const std::string& block) {
  std::string whole = cat(splits, " * ", step);
  return cat(
      "const int64_t piece = lf_max_i64((", length, " + ", whole, " - 1) / (", whole, "), 1) * ",
      step, ";\nconst int64_t parts = lf_max_i64((", length,
      " + piece - 1) / piece, 1), split = ", block, " % ", splits,
      ";\nif (split >= parts) return;\nconst int64_t begin = split * piece, end = lf_min_i64(",
      length, ", begin + piece);");
}

std::string cuda_split_join(int64_t splits) {
  return cuda_split_join_at(cat("blockIdx.x / ", splits));
}

std::string cuda_split_join_at(const std::string& result) {
  return cat("if (!lf_is_last(areas, ", result, ", parts)) return;");
}

}  // namespace worker
