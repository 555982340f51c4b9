#include "clients/report/llm/llm_image.h"

#include <algorithm>

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
constexpr int kRenderMs = 60'000;
constexpr const char* kColours[kSeriesMax] = {"#0a58a6", "#b4540a", "#0f766e", "#8b3d88",
                                              "#7a6200", "#6b7480", "#b0254f", "#4b6a1f"};

void write_words(HtmlWriter* html, double x, double y, const char* size, const char* weight,
                 const std::string& text, const char* colour = "#1b1f23") {
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
    write_words(html, kLeft, text_y, "13", "400", bar.text, "#b3261e");
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

}  // namespace

std::string bars_svg(const std::string& title, const std::vector<BarGroup>& groups) {
  double height = kTitle + kEdge;
  for (const BarGroup& group : groups) {
    height += kGroup + kRow * static_cast<double>(group.bars.size());
  }
  const double end = bars_end(groups);
  HtmlWriter html;
  html.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                    {"width", pixels(kWidth)},
                    {"height", pixels(height)},
                    {"font-family", "DejaVu Sans, Arial, sans-serif"}});
  html.element("rect", "", {{"width", "100%"}, {"height", "100%"}, {"fill", "#ffffff"}});
  write_words(&html, kEdge, 32, "18", "600", title);
  double y = kTitle;
  for (const BarGroup& group : groups) {
    write_words(&html, kEdge, y + kGroup - 10, "13", "600",
                group.note.empty() ? group.name : cat(group.name, " ", group.note), "#57606a");
    y += kGroup;
    for (const GroupedBar& bar : group.bars) {
      write_row(&html, bar, y, end);
      y += kRow;
    }
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
