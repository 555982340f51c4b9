// A training as its log tells of it: what was measured at steps, parameters as maps, parts with
// what they take, and the loss around where the training ended.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "clients/report/logs/run_head.h"
#include "common/base/result.h"
#include "common/records/run_log.h"

namespace clients {

inline constexpr size_t kCurvesMax = 64;
inline constexpr size_t kStepsMax = 1'000'000;    // lines with values
inline constexpr size_t kMapsMax = 1'024;         // lines with maps
inline constexpr size_t kMapCellsMax = 65'536;    // of one map
inline constexpr size_t kMapsCellsMax = 4 << 20;  // of all
inline constexpr size_t kPartsMax = 4'096;
inline constexpr size_t kLandscapesMax = 8;
inline constexpr size_t kLandscapeSideMax = 101;

// One value over the steps, in their order; NaN where it was not finite. Of two values of a step
// the later line's.
struct Curve {
  std::string name;  // "loss/mel": curves with the same text before '/' belong together
  std::vector<std::pair<int64_t, double>> points;
};

// A tensor at a step, as rows. A vector is one row.
struct MapAtStep {
  int64_t step = 0;
  NumberRows values;
};
struct TensorMap {
  std::string name;
  std::string rows, columns;         // what they count; "" where the log does not say
  std::vector<MapAtStep> snapshots;  // by step
};

// A part of a model and what it keeps in memory.
struct ModelPart {
  std::string name;
  int64_t parameters = 0;
  NamedNumbers bytes;  // by what they are for: "parameters", "gradients", "optimiser"
};

// A value over two directions through where the training ended.
struct Landscape {
  std::string name;  // of the value: "loss"
  std::string x, y;  // of the directions
  std::vector<double> at_x, at_y;
  NumberRows values;  // a row for each of at_y
};

struct Training {
  RunHead head;
  std::vector<Curve> curves;  // in the order in which they first came
  std::vector<TensorMap> maps;
  std::vector<ModelPart> parts;
  std::vector<Landscape> landscapes;
};

// kInvalidInput naming the line; `first_line` is the number of the log's first.
common::Result<Training> parse_training(const common::RunLog& log, int64_t first_line = 1);

}  // namespace clients
