#include "clients/report/llm/llm_image.h"

#include <algorithm>
#include <cmath>

#include "clients/report/drawing/html.h"
#include "clients/report/drawing/svg.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"

namespace clients {

using common::cat;

namespace {

constexpr double kWidth = 960, kEdge = 24, kLabels = 240, kValues = 110;
constexpr double kTitle = 48, kGroup = 30, kRow = 24, kThickness = 14;
constexpr double kPlotLeft = kEdge + 72, kPlotRight = kWidth - kEdge, kPlotHeight = 170;
constexpr double kPlotBelow = 34, kMark = 4, kRing = 9;
constexpr int kRenderMs = 60'000;
constexpr const char* kText = "#1b1f23";
constexpr const char* kMuted = "#57606a";
constexpr const char* kBad = "#b3261e";
constexpr const char* kColours[kSeriesMax] = {"#0a58a6", "#b4540a", "#0f766e", "#8b3d88",
                                              "#7a6200", "#6b7480", "#b0254f", "#4b6a1f"};

void write_words(HtmlWriter* html, double x, double y, const char* size, const char* weight,
                 const std::string& text, const char* colour = kText) {
  html->element("text", text,
                {{"x", pixels(x)},
                 {"y", pixels(y)},
                 {"font-size", size},
                 {"font-weight", weight},
                 {"fill", colour}});
}

void write_row(HtmlWriter* html, const GroupedBar& bar, double y, double end) {
  constexpr double kLeft = kEdge + kLabels, kLong = kWidth - kEdge - kValues - kLeft;
  const double text_y = y + kRow / 2 + 4;
  write_words(html, kEdge, text_y, "13", "400", bar.label);
  if (bar.is_missing) {
    write_words(html, kLeft, text_y, "13", "400", bar.text, kBad);
    return;
  }
  html->element("rect", "",
                {{"x", pixels(kLeft)},
                 {"y", pixels(y + (kRow - kThickness) / 2)},
                 {"width", pixels(std::max(1.0, bar.value / end * kLong))},
                 {"height", pixels(kThickness)},
                 {"fill", kColours[bar.series % kSeriesMax]}});
  write_words(html, kLeft + bar.value / end * kLong + 8, text_y, "13", "400", bar.text);
}

// A white picture with its title; open().
HtmlWriter begin_picture(const std::string& title, double height) {
  HtmlWriter html;
  html.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                    {"width", pixels(kWidth)},
                    {"height", pixels(height)},
                    {"font-family", "DejaVu Sans, Arial, sans-serif"}});
  html.element("rect", "", {{"width", "100%"}, {"height", "100%"}, {"fill", "#ffffff"}});
  write_words(&html, kEdge, 32, "18", "600", title);
  return html;
}

// Where a plot's values lie in the picture.
struct PlotPlace {
  Axis x, y;
  double top;

  double left_of(double value) const {
    return kPlotLeft + x.place(value) * (kPlotRight - kPlotLeft);
  }
  double top_of(double value) const { return top + (1 - y.place(value)) * kPlotHeight; }
};

void write_axes(HtmlWriter* html, const PlotPlace& place, const std::string& x) {
  for (double tick : place.y.ticks()) {
    const double at = place.top_of(tick);
    html->element("path", "",
                  {{"d", cat("M", pixels(kPlotLeft), " ", pixels(at), "H", pixels(kPlotRight))},
                   {"stroke", "#d8dee4"}});
    write_words(html, kEdge, at + 4, "12", "400", axis_text(tick), kMuted);
  }
  const double below = place.top + kPlotHeight + 20;
  for (double tick : place.x.ticks()) {
    if (tick != std::floor(tick)) continue;  // runs and candidates are counted
    write_words(html, place.left_of(tick) - 4, below, "12", "400", axis_text(tick), kMuted);
  }
  write_words(html, kEdge, below, "12", "400", x, kMuted);
}

void write_curve(HtmlWriter* html, const PlotPlace& place, const CurveLine& line) {
  const char* colour = kColours[line.series % kSeriesMax];
  std::string path;
  for (const auto& [x, y] : line.points) {
    path += cat(path.empty() ? "M" : "L", pixels(place.left_of(x)), " ", pixels(place.top_of(y)));
  }
  html->element("path", "",
                {{"d", path}, {"fill", "none"}, {"stroke", colour}, {"stroke-width", "2"}});
  auto circle = [&](size_t k, double radius, const char* fill, const char* stroke) {
    const auto& [x, y] = line.points[k];
    html->element("circle", "",
                  {{"cx", pixels(place.left_of(x))},
                   {"cy", pixels(place.top_of(y))},
                   {"r", pixels(radius)},
                   {"fill", fill},
                   {"stroke", stroke},
                   {"stroke-width", "2"}});
  };
  for (size_t k = 0; k < line.points.size(); ++k) circle(k, kMark, colour, colour);
  for (size_t k : line.ringed) circle(k, kRing, "none", kBad);
}

// The names of ways that have a line, in their colours.
void write_way_names(HtmlWriter* html, const LlmPlot& plot, double y) {
  double x = kPlotRight;
  for (size_t way = std::size(kWayNames); way > 0; --way) {
    const std::string name = kWayNames[way - 1];
    const bool is_there = std::any_of(plot.series.begin(), plot.series.end(),
                                      [&](const LlmSeries* one) { return one->way == name; });
    if (!is_there) continue;
    x -= 9.0 * static_cast<double>(name.size()) + 16;
    write_words(html, x, y, "13", "600", name, kColours[(way - 1) % kSeriesMax]);
  }
}

void write_plot(HtmlWriter* html, const LlmPlot& plot, const std::string& x, Axis::Kind x_kind,
                double top) {
  PlotPlace place{Axis(x_kind), Axis(kind_for(plot.lines)), top + kGroup};
  for (const CurveLine& line : plot.lines) {
    for (const auto& point : line.points) {
      place.x.show(point.first);
      place.y.show(point.second);
    }
  }
  write_words(html, kEdge, top + kGroup - 14, "13", "600", plot.name, kMuted);
  write_way_names(html, plot, top + kGroup - 14);
  write_axes(html, place, x);
  for (const CurveLine& line : plot.lines) write_curve(html, place, line);
}

}  // namespace

std::string bars_svg(const std::string& title, const std::vector<BarGroup>& groups) {
  double height = kTitle + kEdge;
  for (const BarGroup& group : groups) {
    height += kGroup + kRow * static_cast<double>(group.bars.size());
  }
  const double end = bars_end(groups);
  HtmlWriter html = begin_picture(title, height);
  double y = kTitle;
  for (const BarGroup& group : groups) {
    write_words(&html, kEdge, y + kGroup - 10, "13", "600",
                group.note.empty() ? group.name : cat(group.name, " ", group.note), kMuted);
    y += kGroup;
    for (const GroupedBar& bar : group.bars) {
      write_row(&html, bar, y, end);
      y += kRow;
    }
  }
  return html.take();
}

std::string curves_svg(const std::string& title, const std::string& x, Axis::Kind x_kind,
                       const std::vector<LlmPlot>& plots) {
  constexpr double kPlot = kGroup + kPlotHeight + kPlotBelow;
  HtmlWriter html =
      begin_picture(title, kTitle + kEdge + kPlot * static_cast<double>(plots.size()));
  for (size_t k = 0; k < plots.size(); ++k) {
    write_plot(&html, plots[k], x, x_kind, kTitle + kPlot * static_cast<double>(k));
  }
  return html.take();
}

common::Status write_png(const std::string& svg, const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(auto scratch, common::ScratchDirectory::create("lfarm-report"));
  const std::string drawn = cat(scratch.path(), "/figure.svg");
  LFARM_RETURN_IF_ERROR(common::write_file_atomic(drawn, common::as_bytes(svg)));
  auto made = common::run_command({"rsvg-convert", "-o", path, drawn}, kRenderMs);
  if (made.ok() && made->status.code == 0) return {};
  if (made.ok() && made->status.code != 127) {
    return common::unavailable(cat("rsvg-convert cannot write ", path, ": ", made->output));
  }
  return common::unavailable(
      "pictures need rsvg-convert: install librsvg2-bin, or leave out --png");
}

}  // namespace clients
