// Rows of `lfarm-bench models`: the report for people (a table, Markdown) and for programs (JSON
// lines).
#pragma once

#include <string>
#include <vector>

#include "clients/cli/compare/compared_row.h"

namespace bench {

using clients::ModelRow;

// Of all rows of one type of numbers.
struct Summary {
  std::string dtype;
  int rows = 0;        // that have a ratio
  double geomean = 0;  // of these
  int below = 0;       // ratios below 0.9
  int failed = 0;      // rows with a problem
};
inline constexpr double kBelow = 0.9;
std::vector<Summary> summaries_of(const std::vector<ModelRow>& rows);

// What all rows share, a line each for people: machine, roofline, peers and their set-up.
using SetupLines = std::vector<std::string>;

std::string json_of(const ModelRow& row);
std::string json_of(const Summary& summary);
std::string table_of(const std::vector<ModelRow>& rows);
std::string markdown_of(const std::vector<ModelRow>& rows, const SetupLines& setup);

}  // namespace bench
