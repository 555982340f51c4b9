// The bars and curves of a report as pictures for slides and pages that take no HTML.
#pragma once

#include <string>
#include <vector>

#include "clients/report/drawing/bars.h"
#include "clients/report/llm/llm_curves.h"
#include "common/base/result.h"

namespace clients {

// An SVG file that needs nothing else; a bar's series is its colour.
std::string bars_svg(const std::string& title, const std::vector<BarGroup>& groups);
// The same of curves, one plot below the other. `x`: what runs from left to right.
std::string curves_svg(const std::string& title, const std::string& x, Axis::Kind x_kind,
                       const std::vector<LlmPlot>& plots);

// Draws an SVG file's text as PNG by rsvg-convert. kUnavailable where it is not installed or fails.
common::Status write_png(const std::string& svg, const std::string& path);

}  // namespace clients
