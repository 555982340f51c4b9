#include "clients/report/drawing/svg.h"

#include <cstdio>

#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

// Around (0, 0): a disc, a square, a diamond, a triangle, a plus, a bar, a triangle on its tip, a
// cross.
constexpr const char* kCross =
    "M0-2.4l2.6-2.6l2.4 2.4l-2.6 2.6l2.6 2.6l-2.4 2.4l-2.6-2.6l-2.6 "
    "2.6l-2.4-2.4l2.6-2.6l-2.6-2.6l2.4-2.4z";
constexpr const char* kShapes[kSeriesMax] = {
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M-4.3-4.3h8.6v8.6h-8.6z",
    "M0-6l6 6l-6 6l-6-6z",
    "M0-5.6l5.6 9.8h-11.2z",
    "M-1.8-5.5h3.6v3.7h3.7v3.6h-3.7v3.7h-3.6v-3.7h-3.7v-3.6h3.7z",
    "M-5.5-2h11v4h-11z",
    "M0 5.6l5.6-9.8h-11.2z",
    kCross};

}  // namespace

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string percent(double share, double left) {
  return formatted("%.2f%%", 100 * (left + share * (1 - left - kFigureEdge)));
}
std::string pixels(double y) { return formatted("%.1f", y); }

std::string series_class(size_t series) { return cat("s", series % kSeriesMax); }

void write_mark(HtmlWriter* html, size_t series, const std::string& x, double y,
                const std::string& title) {
  html->open("svg", {{"x", x}, {"y", pixels(y)}, {"class", "at"}});
  html->open("path", {{"class", series_class(series)}, {"d", kShapes[series % kSeriesMax]}});
  if (!title.empty()) html->element("title", title);
  html->close("path");
  html->close("svg");
}

void write_ring(HtmlWriter* html, const std::string& x, double y, const std::string& title) {
  html->open("svg", {{"x", x}, {"y", pixels(y)}, {"class", "at"}});
  html->open("circle", {{"class", "ring"}, {"r", "9"}});
  html->element("title", title);
  html->close("circle");
  html->close("svg");
}

void write_line(HtmlWriter* html, const std::string& look, const std::string& x1, double y1,
                const std::string& x2, double y2) {
  html->open("line",
             {{"class", look}, {"x1", x1}, {"y1", pixels(y1)}, {"x2", x2}, {"y2", pixels(y2)}});
  html->close("line");
}

const char* anchor_at(double place) {
  return place < 0.06 ? "start" : place > 0.94 ? "end" : "middle";
}

void write_text(HtmlWriter* html, const std::string& x, double y, const char* anchor,
                const std::string& text) {
  html->element("text", text, {{"x", x}, {"y", pixels(y)}, {"text-anchor", anchor}});
}

}  // namespace clients
