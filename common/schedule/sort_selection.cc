#include "common/schedule/sort_selection.h"

namespace common {

int sort_key_bytes(DType dtype) { return is_float(dtype) && dtype != DType::kFloat64 ? 4 : 8; }

SortSelection sort_selection(const Expr& length, int64_t count) {
  // An insertion moves half of the elements that are kept; a sort of as many pays for its digits.
  constexpr int64_t kInserted = 32;
  // Room for more than are kept, so that sorts are few.
  constexpr int64_t kTimes = 4, kMore = 64;
  if (count == 0) return {};
  if (count <= kInserted) return {SelectionMethod::kFew, count + 1};
  const int64_t room = kTimes * count + kMore;
  if (length.is_constant() && length.constant() <= room) return {};
  return {SelectionMethod::kMany, room};
}

}  // namespace common
