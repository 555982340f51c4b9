// Bars as inline SVG, one a row, on a common scale that begins at 0: parts of wholes, and groups.
#pragma once

#include <string>
#include <vector>

#include "clients/report/drawing/html.h"

namespace clients {

struct Bar {
  std::string label, value;   // in front of it and behind it
  std::vector<double> parts;  // one for each series
};
// `what`: what the parts of a row are, one for each series.
void write_bars(HtmlWriter* html, const std::vector<Bar>& bars,
                const std::vector<std::string>& what);

struct GroupedBar {
  size_t series = 0;
  std::string label;
  double value = 0;
  double low = 0, high = 0;  // what it scatters over; both 0: nobody said
  std::string text;          // the value with its unit, or why there is none
  bool is_missing = false;   // no value: a text alone
};
struct BarGroup {
  std::string name, note;
  std::vector<GroupedBar> bars;
};

// `what`: for those who cannot see the bars of a group, which is named after it.
void write_grouped_bars(HtmlWriter* html, const std::vector<BarGroup>& groups,
                        const std::string& what);
// A round length of the scale that holds all bars: 1, 2 or 5 of a power of ten.
double bars_end(const std::vector<BarGroup>& groups);

}  // namespace clients
