#include "clients/report/drawing/bars.h"

#include <algorithm>
#include <cmath>

#include "clients/report/drawing/figures.h"
#include "clients/report/drawing/svg.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

void write_bar(HtmlWriter* html, const GroupedBar& bar, double end) {
  constexpr double kHeight = 20, kThickness = 12;
  html->open("svg", {{"class", "track"}, {"height", pixels(kHeight)}, {"aria-hidden", "true"}});
  write_line(html, "grid", "0", kHeight, "100%", kHeight);
  html->element("rect", "",
                {{"class", cat("bar ", series_class(bar.series))},
                 {"x", "0"},
                 {"y", pixels((kHeight - kThickness) / 2)},
                 {"width", percent(bar.value / end, 0)},
                 {"height", pixels(kThickness)}});
  if (bar.high > 0) {
    write_line(html, "base", percent(bar.low / end, 0), kHeight / 2, percent(bar.high / end, 0),
               kHeight / 2);
  }
  html->close("svg");
}

}  // namespace

void write_bars(HtmlWriter* html, const std::vector<Bar>& bars,
                const std::vector<std::string>& what) {
  constexpr double kHeight = 22;
  double most = 0;
  for (const Bar& bar : bars) {
    double sum = 0;
    for (double part : bar.parts) sum += part;
    most = std::max(most, sum);
  }
  if (what.size() > 1) write_legend(html, what);
  html->open("div", {{"class", "strips"}});
  for (const Bar& bar : bars) {
    html->line();
    html->open("div", {{"class", "strip"}});
    write_row_name(html, bar.label);
    html->open("svg", {{"class", "track"},
                       {"height", pixels(kHeight)},
                       {"role", "img"},
                       {"aria-label", cat(bar.label, ": ", bar.value)}});
    double left = 0;
    for (size_t k = 0; k < bar.parts.size(); ++k) {
      double width = most > 0 ? bar.parts[k] / most : 0;
      html->open("rect", {{"class", cat("bar ", series_class(k))},
                          {"x", formatted("%.2f%%", 100 * left)},
                          {"y", "4"},
                          {"width", formatted("%.2f%%", 100 * width)},
                          {"height", "14"}});
      html->element("title", k < what.size() ? what[k] : "");
      html->close("rect");
      left += width;
    }
    html->close("svg");
    html->element("div", bar.value, {{"class", "value"}});
    html->close("div");
  }
  html->close("div");
}

double bars_end(const std::vector<BarGroup>& groups) {
  double most = 0;
  for (const BarGroup& group : groups) {
    for (const GroupedBar& bar : group.bars) {
      if (!bar.is_missing) most = std::max({most, bar.value, bar.high});
    }
  }
  if (most <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(most)));
  for (double digit : {1.0, 2.0, 5.0}) {
    if (most <= digit * power) return digit * power;
  }
  return 10 * power;
}

void write_grouped_bars(HtmlWriter* html, const std::vector<BarGroup>& groups,
                        const std::string& what) {
  const double end = bars_end(groups);
  for (const BarGroup& group : groups) {
    html->line();
    html->open("figure");
    html->open("figcaption");
    html->element("bdi", group.name);
    if (!group.note.empty()) html->element("span", cat(" ", group.note), {{"class", "note"}});
    html->close("figcaption");
    html->open(
        "div",
        {{"class", "strips"}, {"role", "list"}, {"aria-label", cat(what, ", ", group.name)}});
    for (const GroupedBar& bar : group.bars) {
      html->line();
      html->open("div", {{"class", "strip"}, {"role", "listitem"}});
      write_row_name(html, bar.label);
      if (!bar.is_missing) write_bar(html, bar, end);
      html->open("div", {{"class", bar.is_missing ? "value fail" : "value"}});
      html->element("bdi", bar.text);
      html->close("div");
      html->close("div");
    }
    html->close("div");
    html->close("figure");
  }
}

}  // namespace clients
