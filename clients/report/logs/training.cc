#include "clients/report/logs/training.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "clients/report/logs/run_lines.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Result;
using common::Status;
using Json = nlohmann::json;

namespace {

// A training while its lines come.
class TrainingReader {
 public:
  explicit TrainingReader(Training* into) : into_(into) {}

  Status take(const Json& line) {
    Words words(line);
    if (words.has("map")) return take_map(words);
    if (words.has("landscape")) return take_landscape(words);
    if (words.has("part")) return take_part(words);
    return take_values(words);
  }
  void finish();

 private:
  Status take_values(Words& words);
  Status take_map(Words& words);
  Status take_part(Words& words);
  Status take_landscape(Words& words);

  Training* into_;
  std::map<std::string, size_t> curves_, maps_, parts_;  // places by name
  size_t steps_ = 0, snapshots_ = 0, cells_ = 0;
};

Status too_many(const char* what, size_t count_max) {
  return invalid_input(cat("there are more than ", count_max, " ", what));
}

Status TrainingReader::take_values(Words& words) {
  int64_t step = 0;
  NamedNumbers values;
  words.count("step", &step, Need::kNeeded);
  words.named_numbers("values", &values, kCurvesMax);
  LFARM_RETURN_IF_ERROR(words.finish());
  if (++steps_ > kStepsMax) return too_many("lines with values", kStepsMax);
  for (const auto& [name, value] : values) {
    auto [place, is_new] = curves_.try_emplace(name, into_->curves.size());
    if (is_new && into_->curves.size() == kCurvesMax) return too_many("curves", kCurvesMax);
    if (is_new) into_->curves.push_back({name, {}});
    into_->curves[place->second].points.emplace_back(step, value);
  }
  return {};
}

Status TrainingReader::take_map(Words& words) {
  TensorMap map;
  MapAtStep snapshot;
  words.text("map", &map.name, Need::kNeeded);
  words.count("step", &snapshot.step);
  words.text("rows", &map.rows);
  words.text("columns", &map.columns);
  words.rows("values", &snapshot.values, kMapCellsMax);
  LFARM_RETURN_IF_ERROR(words.finish());
  cells_ += snapshot.values.size() * snapshot.values.front().size();
  if (++snapshots_ > kMapsMax) return too_many("maps", kMapsMax);
  if (cells_ > kMapsCellsMax) return too_many("numbers in maps", kMapsCellsMax);
  auto [place, is_new] = maps_.try_emplace(map.name, into_->maps.size());
  if (is_new) into_->maps.push_back(std::move(map));
  TensorMap& kept = into_->maps[place->second];
  if (!kept.snapshots.empty()) {
    const NumberRows& other = kept.snapshots.front().values;
    bool fits = other.size() == snapshot.values.size() &&
                other.front().size() == snapshot.values.front().size();
    if (!fits) return invalid_input(cat("map \"", kept.name, "\" had other sizes before"));
  }
  kept.snapshots.push_back(std::move(snapshot));
  return {};
}

Status TrainingReader::take_part(Words& words) {
  ModelPart part;
  words.text("part", &part.name, Need::kNeeded);
  words.count("parameters", &part.parameters, Need::kNeeded);
  if (words.has("bytes")) words.named_numbers("bytes", &part.bytes, 16);
  LFARM_RETURN_IF_ERROR(words.finish());
  for (const auto& [name, bytes] : part.bytes) {
    if (!(bytes >= 0)) return invalid_input(cat("bytes of \"", name, "\" are not a number from 0"));
  }
  auto [place, is_new] = parts_.try_emplace(part.name, into_->parts.size());
  if (is_new && into_->parts.size() == kPartsMax) return too_many("parts", kPartsMax);
  if (is_new) into_->parts.emplace_back();
  into_->parts[place->second] = std::move(part);
  return {};
}

Status TrainingReader::take_landscape(Words& words) {
  Landscape landscape;
  words.text("landscape", &landscape.name, Need::kNeeded);
  words.text("x", &landscape.x, Need::kNeeded);
  words.text("y", &landscape.y, Need::kNeeded);
  words.numbers("at_x", &landscape.at_x, kLandscapeSideMax);
  words.numbers("at_y", &landscape.at_y, kLandscapeSideMax);
  words.rows("values", &landscape.values, kLandscapeSideMax * kLandscapeSideMax);
  LFARM_RETURN_IF_ERROR(words.finish());
  bool fits = landscape.values.size() == landscape.at_y.size() &&
              landscape.values.front().size() == landscape.at_x.size();
  if (!fits) return invalid_input("\"values\" has not a row for each of at_y, as long as at_x");
  if (into_->landscapes.size() == kLandscapesMax) return too_many("landscapes", kLandscapesMax);
  into_->landscapes.push_back(std::move(landscape));
  return {};
}

// In the order of steps, the last of each.
template <class Point, class StepOf>
void keep_last_of_steps(std::vector<Point>* points, const StepOf& step_of) {
  std::stable_sort(points->begin(), points->end(),
                   [&](const Point& a, const Point& b) { return step_of(a) < step_of(b); });
  size_t kept = 0;
  for (size_t k = 0; k < points->size(); ++k) {
    bool is_last = k + 1 == points->size() || step_of((*points)[k]) != step_of((*points)[k + 1]);
    if (!is_last) continue;
    if (kept != k) (*points)[kept] = std::move((*points)[k]);
    ++kept;
  }
  points->resize(kept);
}

void TrainingReader::finish() {
  for (Curve& curve : into_->curves) {
    keep_last_of_steps(&curve.points, [](const auto& point) { return point.first; });
  }
  for (TensorMap& map : into_->maps) {
    keep_last_of_steps(&map.snapshots, [](const MapAtStep& at) { return at.step; });
  }
}

}  // namespace

Result<Training> parse_training(const common::RunLog& log, int64_t first_line) {
  Training training;
  TrainingReader reader(&training);
  LFARM_RETURN_IF_ERROR(read_lines(
      log, first_line, &training.head, [](Words&) {},
      [&](const Json& line) { return reader.take(line); }));
  reader.finish();
  return training;
}

}  // namespace clients
