#include "clients/report/drawing/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "clients/report/drawing/figures.h"
#include "clients/report/drawing/svg.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

constexpr double kUnits = 1000;  // of a path's own coordinates, on each side

bool is_gap(const std::pair<double, double>& point) { return !std::isfinite(point.second); }

// The steps between ticks: 1, 2 or 5 of a power of ten, about four of them in the range.
double tick_step(double range) {
  double power = std::pow(10, std::floor(std::log10(range / 4)));
  for (double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= range / 5) return digit * power;
  }
  return 10 * power;
}

std::vector<double> linear_ticks(double low, double high) {
  double step = tick_step(high - low);
  std::vector<double> found;
  for (double k = std::ceil(low / step - 1e-6); k * step <= high + step * 1e-6; ++k) {
    found.push_back(k * step);
  }
  return found;
}

// Those that leave room for each other's text.
std::vector<double> apart(const Axis& axis, double least) {
  std::vector<double> kept;
  for (double tick : axis.ticks()) {
    if (kept.empty() || std::abs(axis.place(tick) - axis.place(kept.back())) >= least) {
      kept.push_back(tick);
    }
  }
  return kept;
}

// One path, which begins anew behind each gap.
std::string path_of(const CurveLine& line, const Axis& x, const Axis& y) {
  std::string path;
  bool is_new = true;
  for (const auto& point : line.points) {
    if (is_gap(point)) {
      is_new = true;
      continue;
    }
    path += cat(is_new ? "M" : "L", formatted("%.1f", kUnits * x.place(point.first)), " ",
                formatted("%.1f", kUnits * (1 - y.place(point.second))));
    is_new = false;
  }
  return path;
}

}  // namespace

void Axis::show(double value) {
  if (!std::isfinite(value) || (kind_ == Kind::kLogarithmic && value <= 0)) return;
  low_ = is_empty_ ? value : std::min(low_, value);
  high_ = is_empty_ ? value : std::max(high_, value);
  is_empty_ = false;
}

double Axis::place(double value) const {
  bool is_log = kind_ == Kind::kLogarithmic;
  if (is_log && value <= 0) return 0;
  double range = is_log ? std::log(high_ / low_) : high_ - low_;
  if (is_empty_ || !(range > 1e-12 * (is_log ? 1 : std::abs(high_)))) return 0.5;
  double from_low = is_log ? std::log(value / low_) : value - low_;
  return std::clamp(from_low / range, 0.0, 1.0);
}

std::vector<double> Axis::ticks() const {
  if (is_empty_) return {};
  if (kind_ == Kind::kLogarithmic) {
    LogScale scale;
    scale.show(low_);
    scale.show(high_);
    return scale.ticks();
  }
  if (!(high_ - low_ > 1e-12 * std::abs(high_))) return {low_};
  return linear_ticks(low_, high_);
}

std::string axis_text(double value) {
  if (value == 0) return "0";
  return value < 0 ? cat("-", tick_text(-value)) : tick_text(value);
}

Axis::Kind kind_for(const std::vector<CurveLine>& lines) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const CurveLine& line : lines) {
    for (const auto& point : line.points) {
      if (is_gap(point)) continue;
      if (point.second < 0) return Axis::Kind::kLinear;
      if (point.second > 0) least = std::min(least, point.second);
      most = std::max(most, point.second);
    }
  }
  return most > 20 * least ? Axis::Kind::kLogarithmic : Axis::Kind::kLinear;
}

void write_curves(HtmlWriter* html, const std::vector<CurveLine>& lines, const CurveText& text) {
  constexpr double kHeight = 200, kTop = 24, kBottom = kHeight - 26;
  constexpr size_t kMarksMax = 12;
  Axis x(text.x_kind), y(kind_for(lines));
  bool counts = true;  // runs or steps, of which there are no halves
  for (const CurveLine& line : lines) {
    for (const auto& point : line.points) {
      counts = counts && point.first == std::floor(point.first);
      x.show(point.first);
      y.show(point.second);
    }
  }
  auto height_of = [&](double value) { return kBottom - y.place(value) * (kBottom - kTop); };
  html->open(
      "svg",
      {{"class", "plot"}, {"height", pixels(kHeight)}, {"role", "img"}, {"aria-label", text.what}});
  for (double tick : apart(y, 0.12)) {
    write_line(html, "grid", "0", height_of(tick), "100%", height_of(tick));
    write_text(html, "0", height_of(tick) - 4, "start", axis_text(tick));
  }
  for (double tick : apart(x, 0.16)) {
    if (counts && tick != std::floor(tick)) continue;
    double place = x.place(tick);
    write_text(html, percent(place, kFigureGutter), kHeight - 8, anchor_at(place), axis_text(tick));
  }
  write_text(html, "100%", 10, "end", text.x);
  html->open("svg", {{"x", percent(0, kFigureGutter)},
                     {"y", pixels(kTop)},
                     {"width", formatted("%.2f%%", 100 * (1 - kFigureGutter - kFigureEdge))},
                     {"height", pixels(kBottom - kTop)},
                     {"viewBox", "0 0 1000 1000"},
                     {"preserveAspectRatio", "none"}});
  for (const CurveLine& line : lines) {
    html->open("path",
               {{"class", cat("curve ", series_class(line.series))}, {"d", path_of(line, x, y)}});
    html->close("path");
  }
  html->close("svg");
  for (const CurveLine& line : lines) {
    size_t step = line.points.size() / kMarksMax + 1;
    for (size_t k = line.points.size(); k > 0; k -= std::min(k, step)) {
      const auto& point = line.points[k - 1];
      if (is_gap(point)) continue;
      write_mark(html, line.series, percent(x.place(point.first), kFigureGutter),
                 height_of(point.second),
                 cat(axis_text(point.first), ": ", axis_text(point.second)));
    }
    for (size_t k : line.ringed) {
      const auto& point = line.points[k];
      write_ring(html, percent(x.place(point.first), kFigureGutter), height_of(point.second),
                 "worse than before");
    }
  }
  html->close("svg");
}

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t count_max) {
  if (points.size() <= count_max) return points;
  size_t each = (points.size() + count_max - 1) / count_max;
  std::vector<std::pair<double, double>> kept;
  for (size_t begin = 0; begin < points.size(); begin += each) {
    size_t end = std::min(points.size(), begin + each);
    double x = 0, sum = 0, finite = 0;
    for (size_t k = begin; k < end; ++k) {
      x += points[k].first;
      if (is_gap(points[k])) continue;
      sum += points[k].second;
      ++finite;
    }
    double mean = finite > 0 ? sum / finite : std::numeric_limits<double>::quiet_NaN();
    kept.emplace_back(x / static_cast<double>(end - begin), mean);
  }
  return kept;
}

}  // namespace clients
