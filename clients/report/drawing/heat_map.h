// Matrices as coloured cells, as inline SVG.
#pragma once

#include <string>
#include <vector>

#include "clients/report/drawing/html.h"

namespace clients {

struct HeatMap {
  std::vector<std::vector<double>> values;  // rows of equal length; a NaN has no colour
  // Of each row and column; empty: they are counted from 0.
  std::vector<std::string> row_names, column_names;
  std::string rows, columns;  // what they are; may be empty
  // Of the row and column of a cell that has a mark; -1: none.
  int marked_row = -1, marked_column = -1;
};

inline constexpr size_t kHeatRowsMax = 48, kHeatColumnsMax = 128;

// The map with at most kHeatRowsMax rows and kHeatColumnsMax columns: each cell is the mean of a
// block, named after its first row and column. `row_block`, `column_block`: of how many each cell
// is.
HeatMap shrunk(const HeatMap& map, size_t* row_block, size_t* column_block);

// What colours mean. Values on both sides of 0 go from orange below to blue above it, the others,
// and those of which one side reaches no 50th of the other, from pale to dark.
class HeatScale {
 public:
  // Of all values that it was shown; logarithmic where none is below 0 and the largest is more than
  // fifty times the least above it.
  void show(const HeatMap& map);
  // The class of a value's cell.
  std::string look(double value) const;
  bool is_logarithmic() const;
  // The colours in a row between the least and the largest value.
  void write_key(HtmlWriter* html) const;

 private:
  double place(double value) const;
  bool is_diverging() const;
  double low_ = 0, high_ = 0;
  double least_above_0_ = 0;  // 0: there is none
  bool is_empty_ = true;
};

// `what`: for those who cannot see it.
void write_heat_map(HtmlWriter* html, const HeatMap& map, const HeatScale& scale,
                    const std::string& what);

}  // namespace clients
