// The figures of a report as inline SVG whose horizontal places are shares of its width: text stays
// legible at the width of a phone. Marks differ by shape as well as by colour.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/report/drawing/html.h"

namespace clients {

// "1.23", "0.0123", "12,300": three significant digits without an exponent.
std::string number_text(double value);
// The same without zeros at the end: "10", "0.5".
std::string tick_text(double value);
// As number_text(), with an exponent below a thousandth; "not finite".
std::string value_text(double value);

// Logarithmic, from the least to the greatest of what it was shown, both above 0.
class LogScale {
 public:
  void show(double value);
  bool is_empty() const { return low_ == 0; }
  // 0 at the left or bottom end, 1 at the other; 0.5 where all values are one.
  double place(double value) const;
  // Round values within, at least one where something was shown.
  std::vector<double> ticks() const;

 private:
  double low_ = 0, high_ = 0;
};

struct Mark {
  size_t series = 0;
  double value = 0;
  double low = 0, high = 0;  // what it scatters over; both 0: nobody said
  std::string title;
};

// What stands in front of a row of marks or bars: a label, and a note unless it is empty.
void write_row_name(HtmlWriter* html, const std::string& label, const std::string& note = {});

// One row of marks on a common scale, with a label in front and a value behind.
struct StripRow {
  std::string label, note;
  std::vector<Mark> marks;
  std::string value;
};
// `unit`: of the scale's ticks.
void write_strips(HtmlWriter* html, const std::vector<StripRow>& rows, const std::string& unit);

struct Dot {
  size_t series = 0;
  double x = 0;
  double y = 0;        // 0: below all others, where the axis says `zero_text`
  std::string title;   // what a pointer over it shows
  int joined_to = -1;  // another dot, to which a line leads
};
struct ScatterText {
  std::string what;  // for those who cannot see it
  std::string x, y, zero;
};
void write_scatter(HtmlWriter* html, const std::vector<Dot>& dots, const ScatterText& text);

// Lines that fall from left to right: what is left to gain after a budget.
struct SweepLine {
  size_t series = 0;
  bool is_middle = false;                         // drawn strongly, above the others
  std::vector<std::pair<double, double>> points;  // budget above 0, ratio to the best
};
void write_sweep(HtmlWriter* html, const std::vector<SweepLine>& lines, const std::string& what);

// The names of series with their marks.
void write_legend(HtmlWriter* html, const std::vector<std::string>& names);

}  // namespace clients
