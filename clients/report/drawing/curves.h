// Lines of values over steps, batches or time, as inline SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "clients/report/drawing/html.h"

namespace clients {

// Where values lie between the ends of an axis.
class Axis {
 public:
  enum class Kind { kLinear, kLogarithmic };
  explicit Axis(Kind kind) : kind_(kind) {}

  // Takes a value into the range. One that is not finite, or on a logarithmic axis not above 0, has
  // no place and changes nothing.
  void show(double value);
  // From 0 to 1; 0.5 where all values are one. What is not above 0 lies at 0 on a logarithmic axis.
  double place(double value) const;
  // Some four round values within; at least one where something was shown.
  std::vector<double> ticks() const;

 private:
  Kind kind_;
  double low_ = 0, high_ = 0;
  bool is_empty_ = true;
};

// "0", "-0.5", "2e-07".
std::string axis_text(double value);

struct CurveLine {
  size_t series = 0;
  std::vector<std::pair<double, double>> points;  // by x; a NaN is a gap
  std::vector<size_t> ringed = {};                // of `points`, those that are worse than before
};
struct CurveText {
  std::string what;  // for those who cannot see it
  std::string x;     // with its unit
  Axis::Kind x_kind = Axis::Kind::kLinear;
};

// Logarithmic where no value is below 0 and the largest is more than twenty times the least above
// 0.
Axis::Kind kind_for(const std::vector<CurveLine>& lines);

// The vertical axis is of kind_for(lines). A line of few points has a mark at each, another one at
// some, so that lines differ by shape as well as by colour.
void write_curves(HtmlWriter* html, const std::vector<CurveLine>& lines, const CurveText& text);

// At most `count_max` points, each the mean of as many neighbours, at the mean of their places;
// those that are not finite count for nothing.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               size_t count_max);

}  // namespace clients
