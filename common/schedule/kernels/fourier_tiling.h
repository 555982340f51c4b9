// How a processor computes a Fourier transform: rows at a time, and the passes over them.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/llir/tiling.h"
#include "common/schedule/kernels/vector_unit.h"

namespace common {

// The transform of a row.
struct FourierRow {
  int64_t points = 1;
  int64_t count = 1;  // of its frequencies
  bool is_complex = false;
  // A real signal, seen as a complex one of half the length.
  bool is_halved() const { return !is_complex && points % 2 == 0 && count <= points / 2 + 1; }
  // Complex points that passes transform.
  int64_t complex_points() const { return is_halved() ? points / 2 : points; }
};
FourierRow fourier_row(const Graph& body, const FourierForm& form);

// Passes by radix, in the order of the fields: their radices' product are the points.
struct FourierTiling {
  static constexpr std::string_view kForm = "fourier";
  int64_t rows = 1;  // at once: elements of a vector
  int64_t eights = 0, fours = 0, twos = 0, sevens = 0, fives = 0, threes = 0;

  std::vector<int64_t> radices() const;

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("eights", t.eights);
    visit("fours", t.fours);
    visit("twos", t.twos);
    visit("sevens", t.sevens);
    visit("fives", t.fives);
    visit("threes", t.threes);
  }
};

// `points` have factors of 2, 3, 5 and 7 alone.
FourierTiling choose_fourier_tiling(const FourierRow& row, DType dtype, const VectorUnit& unit);

// kInvalidInput for passes of another number of points, and for rows that are no vector.
Status verify(const FourierTiling& tiling, const FourierRow& row, DType dtype);

}  // namespace common
