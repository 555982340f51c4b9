#include "common/schedule/kernels/fourier_tiling.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/llir/wrong_tiling.h"

namespace common {

FourierRow fourier_row(const Graph& body, const FourierForm& form) {
  const Node& node = body.node(form.any());
  return {body.node(node.operands[0]).shape.back().constant(), node.shape.back().constant(),
          node.operands.size() > 1};
}

std::vector<int64_t> FourierTiling::radices() const {
  std::vector<int64_t> all;
  auto add = [&](int64_t count, int64_t radix) {
    all.insert(all.end(), static_cast<size_t>(count), radix);
  };
  add(eights, 8);
  add(fours, 4);
  add(twos, 2);
  add(sevens, 7);
  add(fives, 5);
  add(threes, 3);
  return all;
}

FourierTiling choose_fourier_tiling(const FourierRow& row, DType dtype, const VectorUnit& unit) {
  FourierTiling t;
  const int64_t element = dtype_size(dtype);
  t.rows = std::clamp<int64_t>(unit.bytes / element, 2, 64 / element);
  int64_t points = row.complex_points();
  auto divide = [&](int64_t factor) {
    int64_t count = 0;
    for (; points % factor == 0; points /= factor) ++count;
    return count;
  };
  const int64_t twos = divide(2);
  // Fours rather than an eight and a two.
  t.fours = twos % 3 == 2 ? 1 : twos % 3 == 1 && twos > 1 ? 2 : 0;
  t.eights = (twos - 2 * t.fours) / 3;
  t.twos = twos == 1 ? 1 : 0;
  t.sevens = divide(7);
  t.fives = divide(5);
  t.threes = divide(3);
  return t;
}

Status verify(const FourierTiling& t, const FourierRow& row, DType dtype) {
  auto wrong = [&](std::string_view what) { return wrong_tiling(t, what); };
  const int64_t bytes = t.rows * dtype_size(dtype);
  if (t.rows < 2 || (bytes & (bytes - 1)) != 0 || bytes > 64) return wrong("rows are no vector");
  constexpr int64_t kPassesMax = 16;
  if (t.eights + t.fours + t.twos + t.sevens + t.fives + t.threes > kPassesMax) {
    return wrong("there are too many passes");
  }
  int64_t points = 1;
  for (int64_t radix : t.radices()) points *= radix;
  if (points != row.complex_points()) {
    return wrong(cat("its passes transform ", points, " points of ", row.complex_points()));
  }
  return {};
}

}  // namespace common
