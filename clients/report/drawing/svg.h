// What figures are put together from: places as shares of a figure's width, marks, lines, texts.
#pragma once

#include <string>

#include "clients/report/drawing/html.h"

namespace clients {

inline constexpr double kFigureEdge = 0.02;    // of the width, on each side
inline constexpr double kFigureGutter = 0.11;  // on the left where ticks are written

inline constexpr size_t kSeriesMax = 8;  // with looks of their own; more take turns

// By a printf format for one double.
std::string formatted(const char* format, double value);
// Where a share of the width between the left edge and the right one lies, as "12.34%".
std::string percent(double share, double left = kFigureEdge);
std::string pixels(double y);
// The class that gives a series its colour.
std::string series_class(size_t series);

// The shape of a series in its colour; `title`, unless empty, is what a pointer over it shows.
void write_mark(HtmlWriter* html, size_t series, const std::string& x, double y,
                const std::string& title);
// A ring around a mark that something is wrong with, which `title` says.
void write_ring(HtmlWriter* html, const std::string& x, double y, const std::string& title);
void write_line(HtmlWriter* html, const std::string& look, const std::string& x1, double y1,
                const std::string& x2, double y2);
void write_text(HtmlWriter* html, const std::string& x, double y, const char* anchor,
                const std::string& text);
// Ticks near an end are written towards the middle. `place`: from 0 to 1.
const char* anchor_at(double place);

}  // namespace clients
