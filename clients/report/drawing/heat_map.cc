#include "clients/report/drawing/heat_map.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clients/report/drawing/figures.h"
#include "clients/report/drawing/svg.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

constexpr int kPaleToDark = 9, kBothSides = 7;  // colours of each kind
constexpr size_t kTitledCellsMax = 400;         // of a map whose cells show their values

std::string name_of(const std::vector<std::string>& names, size_t k) {
  return k < names.size() ? names[k] : cat(k);
}

// The mean of what is finite in a block.
double mean_of(const HeatMap& map, size_t row, size_t row_end, size_t column, size_t column_end) {
  double sum = 0, count = 0;
  for (size_t r = row; r < row_end; ++r) {
    for (size_t c = column; c < column_end; ++c) {
      if (!std::isfinite(map.values[r][c])) continue;
      sum += map.values[r][c];
      ++count;
    }
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

std::vector<std::string> every(const std::vector<std::string>& names, size_t count, size_t block) {
  std::vector<std::string> kept;
  for (size_t k = 0; k < count; k += block) kept.push_back(name_of(names, k));
  return kept;
}

// Rectangles of a row, one for neighbours of one colour unless each shows its value.
void write_row(HtmlWriter* html, const HeatMap& map, const HeatScale& scale, size_t row, double y,
               double height) {
  const std::vector<double>& cells = map.values[row];
  bool has_titles = map.values.size() * cells.size() <= kTitledCellsMax;
  auto count = static_cast<double>(cells.size());
  for (size_t begin = 0; begin < cells.size();) {
    std::string look = scale.look(cells[begin]);
    size_t end = begin + 1;
    while (!has_titles && end < cells.size() && scale.look(cells[end]) == look) ++end;
    double left = static_cast<double>(begin) / count, right = static_cast<double>(end) / count;
    double width = (right - left) * (1 - kFigureGutter - kFigureEdge);
    html->open("rect", {{"class", look},
                        {"x", percent(left, kFigureGutter)},
                        {"y", pixels(y)},
                        {"width", formatted("%.2f%%", 100 * width)},
                        {"height", pixels(height)}});
    if (has_titles) {
      html->element("title", cat(name_of(map.row_names, row), ", ",
                                 name_of(map.column_names, begin), ": ", value_text(cells[begin])));
    }
    html->close("rect");
    begin = end;
  }
}

// Names of rows or columns, of which some are left out where they would touch.
void write_column_names(HtmlWriter* html, const HeatMap& map, double y) {
  size_t count = map.values.front().size(), last = 0;
  for (size_t k = 0; k < count; ++k) {
    double place = (static_cast<double>(k) + 0.5) / static_cast<double>(count);
    bool is_apart = k == 0 || static_cast<double>(k - last) >= 0.14 * static_cast<double>(count);
    if (!is_apart) continue;
    last = k;
    write_text(html, percent(place, kFigureGutter), y, "middle", name_of(map.column_names, k));
  }
}

}  // namespace

HeatMap shrunk(const HeatMap& map, size_t* row_block, size_t* column_block) {
  size_t rows = map.values.size(), columns = map.values.front().size();
  *row_block = (rows + kHeatRowsMax - 1) / kHeatRowsMax;
  *column_block = (columns + kHeatColumnsMax - 1) / kHeatColumnsMax;
  if (*row_block == 1 && *column_block == 1) return map;
  HeatMap out = map;
  out.values.clear();
  for (size_t r = 0; r < rows; r += *row_block) {
    std::vector<double>& cells = out.values.emplace_back();
    for (size_t c = 0; c < columns; c += *column_block) {
      cells.push_back(
          mean_of(map, r, std::min(rows, r + *row_block), c, std::min(columns, c + *column_block)));
    }
  }
  out.row_names = every(map.row_names, rows, *row_block);
  out.column_names = every(map.column_names, columns, *column_block);
  out.marked_row = out.marked_column = -1;
  return out;
}

void HeatScale::show(const HeatMap& map) {
  for (const std::vector<double>& row : map.values) {
    for (double value : row) {
      if (!std::isfinite(value)) continue;
      low_ = is_empty_ ? value : std::min(low_, value);
      high_ = is_empty_ ? value : std::max(high_, value);
      is_empty_ = false;
      if (value > 0 && (least_above_0_ == 0 || value < least_above_0_)) least_above_0_ = value;
    }
  }
}

bool HeatScale::is_logarithmic() const {
  return !is_empty_ && low_ >= 0 && least_above_0_ > 0 && high_ > 50 * least_above_0_ && low_ > 0;
}

bool HeatScale::is_diverging() const {
  double less = std::min(-low_, high_), more = std::max(-low_, high_);
  return low_ < 0 && less > 0.02 * more;
}

// From 0 to 1.
double HeatScale::place(double value) const {
  if (is_diverging()) {
    double most = std::max(-low_, high_);
    return 0.5 + 0.5 * value / most;
  }
  if (is_logarithmic()) return std::log(value / low_) / std::log(high_ / low_);
  // One value alone is neither little nor much.
  return high_ > low_ ? (value - low_) / (high_ - low_) : 0.5;
}

std::string HeatScale::look(double value) const {
  if (!std::isfinite(value)) return "qx";
  int colours = is_diverging() ? kBothSides : kPaleToDark;
  int step = std::clamp(static_cast<int>(std::floor(place(value) * colours)), 0, colours - 1);
  return cat(is_diverging() ? "d" : "q", step);
}

void HeatScale::write_key(HtmlWriter* html) const {
  if (is_empty_) return;
  int colours = is_diverging() ? kBothSides : kPaleToDark;
  double most = std::max(-low_, high_);
  html->open("div", {{"class", "key"}});
  html->element("span", value_text(is_diverging() ? -most : low_));
  if (high_ > low_) {
    html->open("svg", {{"width", cat(colours * 12)}, {"height", "12"}, {"aria-hidden", "true"}});
    for (int k = 0; k < colours; ++k) {
      html->open("rect", {{"class", cat(is_diverging() ? "d" : "q", k)},
                          {"x", cat(k * 12)},
                          {"width", "12"},
                          {"height", "12"}});
      html->close("rect");
    }
    html->close("svg");
    html->element("span", cat(value_text(is_diverging() ? most : high_),
                              is_logarithmic() ? ", logarithmic" : ""));
  } else {
    html->element("span", "everywhere");
  }
  html->close("div");
}

void write_heat_map(HtmlWriter* html, const HeatMap& map, const HeatScale& scale,
                    const std::string& what) {
  auto rows = static_cast<double>(map.values.size());
  const double cell = std::clamp(220 / rows, 5.0, 26.0), top = map.rows.empty() ? 4 : 22;
  const double bottom = top + rows * cell, height = bottom + (map.columns.empty() ? 20 : 36);
  html->open("svg", {{"class", "plot heatmap"},
                     {"height", pixels(height)},
                     {"role", "img"},
                     {"aria-label", what}});
  if (!map.rows.empty()) write_text(html, "0", 12, "start", map.rows);
  double last = -100;
  for (size_t r = 0; r < map.values.size(); ++r) {
    double y = top + static_cast<double>(r) * cell;
    write_row(html, map, scale, r, y, cell);
    if (y - last < 16) continue;
    last = y;
    write_text(html, percent(-0.01, kFigureGutter), y + cell / 2 + 4, "end",
               name_of(map.row_names, r));
  }
  write_column_names(html, map, bottom + 14);
  if (!map.columns.empty()) write_text(html, "100%", bottom + 31, "end", map.columns);
  if (map.marked_row >= 0 && map.marked_column >= 0) {
    double x = (map.marked_column + 0.5) / static_cast<double>(map.values.front().size());
    html->open("g", {{"class", "here"}});
    write_mark(html, 0, percent(x, kFigureGutter), top + (map.marked_row + 0.5) * cell, "");
    html->close("g");
  }
  html->close("svg");
}

}  // namespace clients
