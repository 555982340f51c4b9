#include "clients/report/drawing/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "clients/report/drawing/svg.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

// Those that leave room for each other's text.
std::vector<double> apart(const LogScale& scale, double least) {
  std::vector<double> kept;
  for (double tick : scale.ticks()) {
    if (kept.empty() || scale.place(tick) - scale.place(kept.back()) >= least) kept.push_back(tick);
  }
  return kept;
}

}  // namespace

std::string number_text(double value) {
  if (value == 0) return "0";
  double magnitude = std::floor(std::log10(std::abs(value)) + 1e-9);
  int digits = static_cast<int>(std::clamp(2 - magnitude, 0.0, 9.0));
  std::string text = formatted(cat("%.", digits, "f").c_str(), value);
  size_t end = text.find('.');
  if (end == std::string::npos) end = text.size();
  for (size_t at = end; at > 3 && at - 3 > (text[0] == '-' ? 1u : 0u); at -= 3) {
    text.insert(at - 3, ",");
  }
  return text;
}

std::string tick_text(double value) {
  if (value < 1e-4) return formatted("%.0e", value);
  std::string text = number_text(value);
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string value_text(double value) {
  if (!std::isfinite(value)) return "not finite";
  double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e7)) return formatted("%.2e", value);
  return number_text(value);
}

void LogScale::show(double value) {
  if (!(value > 0)) return;
  low_ = low_ == 0 ? value : std::min(low_, value);
  high_ = std::max(high_, value);
}

double LogScale::place(double value) const {
  if (is_empty() || high_ <= low_ * 1.000001) return 0.5;
  return std::clamp(std::log(value / low_) / std::log(high_ / low_), 0.0, 1.0);
}

std::vector<double> LogScale::ticks() const {
  std::vector<double> found;
  if (is_empty()) return found;
  double decades = std::log10(high_ / low_);
  // One, two or five of each power of ten; of many powers only some.
  int step = static_cast<int>(std::ceil(std::max(decades, 1.0) / 6));
  for (int power = static_cast<int>(std::floor(std::log10(low_)));
       power <= static_cast<int>(std::ceil(std::log10(high_))); ++power) {
    for (double digit : {1.0, 2.0, 5.0}) {
      if (digit != 1 && decades > 2.2) continue;
      if (digit == 1 && decades > 2.2 && power % step != 0) continue;
      double tick = digit * std::pow(10, power);
      if (tick >= low_ * 0.999 && tick <= high_ * 1.001) found.push_back(tick);
    }
  }
  if (found.empty()) found.push_back(low_);
  return found;
}

void write_legend(HtmlWriter* html, const std::vector<std::string>& names) {
  html->open("ul", {{"class", "legend"}});
  for (size_t k = 0; k < names.size(); ++k) {
    html->open("li");
    html->open("svg", {{"width", "14"}, {"height", "14"}, {"aria-hidden", "true"}});
    write_mark(html, k, "7", 7, "");
    html->close("svg");
    html->element("bdi", names[k]);
    html->close("li");
  }
  html->close("ul");
}

void write_row_name(HtmlWriter* html, const std::string& label, const std::string& note) {
  html->open("div", {{"class", "name"}});
  html->element("bdi", label);
  if (!note.empty()) html->element("span", cat(" ", note), {{"class", "note"}});
  html->close("div");
}

void write_strips(HtmlWriter* html, const std::vector<StripRow>& rows, const std::string& unit) {
  constexpr double kHeight = 22, kMiddle = kHeight / 2;
  LogScale scale;
  for (const StripRow& row : rows) {
    for (const Mark& mark : row.marks) {
      scale.show(mark.value);
      scale.show(mark.low);
      scale.show(mark.high);
    }
  }
  std::vector<double> ticks = apart(scale, 0.12);
  html->open("div", {{"class", "strips"}});
  for (const StripRow& row : rows) {
    html->line();
    html->open("div", {{"class", "strip"}});
    write_row_name(html, row.label, row.note);
    std::string what;
    for (const Mark& mark : row.marks) what += cat(what.empty() ? "" : "; ", mark.title);
    html->open(
        "svg",
        {{"class", "track"}, {"height", pixels(kHeight)}, {"role", "img"}, {"aria-label", what}});
    for (double tick : ticks) {
      std::string x = percent(scale.place(tick));
      write_line(html, "grid", x, 0, x, kHeight);
    }
    for (const Mark& mark : row.marks) {
      if (mark.high <= 0) continue;
      std::string look = cat("range ", series_class(mark.series));
      double low = scale.place(std::max(mark.low, mark.value / 1e3));
      write_line(html, look, percent(low), kMiddle, percent(scale.place(mark.high)), kMiddle);
    }
    for (const Mark& mark : row.marks) {
      write_mark(html, mark.series, percent(scale.place(mark.value)), kMiddle, mark.title);
    }
    html->close("svg");
    html->element("div", row.value, {{"class", "value"}});
    html->close("div");
  }
  html->line();
  html->open("div", {{"class", "strip axis"}, {"aria-hidden", "true"}});
  html->element("div", unit, {{"class", "name"}});
  html->open("svg", {{"class", "track"}, {"height", "18"}});
  for (double tick : ticks) {
    double place = scale.place(tick);
    write_text(html, percent(place), 14, anchor_at(place), tick_text(tick));
  }
  html->close("svg");
  html->element("div", "", {{"class", "value"}});
  html->close("div");
  html->close("div");
}

void write_scatter(HtmlWriter* html, const std::vector<Dot>& dots, const ScatterText& text) {
  constexpr double kHeight = 340, kTop = 40, kBottom = kHeight - 44, kZero = kBottom + 12;
  LogScale x, y;
  bool has_zero = false;
  for (const Dot& dot : dots) {
    x.show(dot.x);
    y.show(dot.y);
    has_zero = has_zero || dot.y == 0;
  }
  auto height_of = [&](double value) {
    return value == 0 ? kZero : kBottom - 10 - y.place(value) * (kBottom - kTop - 10);
  };
  html->open(
      "svg",
      {{"class", "plot"}, {"height", pixels(kHeight)}, {"role", "img"}, {"aria-label", text.what}});
  for (double tick : apart(x, 0.12)) {
    double place = x.place(tick);
    write_line(html, "grid", percent(place, kFigureGutter), kTop - 6, percent(place, kFigureGutter),
               kZero + 6);
    write_text(html, percent(place, kFigureGutter), kHeight - 8, anchor_at(place), tick_text(tick));
  }
  for (double tick : apart(y, 0.08)) {
    write_line(html, "grid", "0", height_of(tick), "100%", height_of(tick));
    write_text(html, "0", height_of(tick) - 4, "start", tick_text(tick));
  }
  if (has_zero) {
    write_line(html, "grid", "0", kZero, "100%", kZero);
    write_text(html, "0", kZero - 3, "start", text.zero);
  }
  write_text(html, "0", 12, "start", text.y);
  write_text(html, "100%", 12, "end", text.x);
  for (const Dot& dot : dots) {
    if (dot.joined_to < 0) continue;
    const Dot& other = dots[static_cast<size_t>(dot.joined_to)];
    write_line(html, cat("join ", series_class(dot.series)), percent(x.place(dot.x), kFigureGutter),
               height_of(dot.y), percent(x.place(other.x), kFigureGutter), height_of(other.y));
  }
  for (const Dot& dot : dots) {
    html->line();
    write_mark(html, dot.series, percent(x.place(dot.x), kFigureGutter), height_of(dot.y),
               dot.title);
  }
  html->close("svg");
}

void write_sweep(HtmlWriter* html, const std::vector<SweepLine>& lines, const std::string& what) {
  constexpr double kHeight = 170, kTop = 18, kBottom = kHeight - 28;
  LogScale budgets;
  std::set<double> tried;
  double worst = 1.02;
  for (const SweepLine& line : lines) {
    for (const auto& [budget, ratio] : line.points) {
      budgets.show(budget);
      tried.insert(budget);
      worst = std::max(worst, ratio);
    }
  }
  auto height_of = [&](double ratio) {
    return kBottom - (ratio - 1) / (worst - 1) * (kBottom - kTop);
  };
  html->open(
      "svg",
      {{"class", "plot"}, {"height", pixels(kHeight)}, {"role", "img"}, {"aria-label", what}});
  for (double ratio : {1.0, (1 + worst) / 2, worst}) {
    write_line(html, ratio == 1 ? "grid base" : "grid", "0", height_of(ratio), "100%",
               height_of(ratio));
    if (ratio == 1) continue;  // where lines end
    write_text(html, "100%", height_of(ratio) - 4, "end", formatted("%.2f\u00d7", ratio));
  }
  double last = -1;
  for (double tick : tried) {
    double place = budgets.place(tick);
    if (last >= 0 && place - last < 0.2) continue;
    write_text(html, percent(place), kHeight - 8, anchor_at(place), tick_text(tick));
    last = place;
  }
  for (bool middle : {false, true}) {
    for (const SweepLine& line : lines) {
      if (line.is_middle != middle) continue;
      std::string look = cat(middle ? "middle " : "run ", series_class(line.series));
      for (size_t k = 1; k < line.points.size(); ++k) {
        const auto& [x1, y1] = line.points[k - 1];
        const auto& [x2, y2] = line.points[k];
        write_line(html, look, percent(budgets.place(x1)), height_of(y1),
                   percent(budgets.place(x2)), height_of(y2));
      }
      if (!middle || line.points.empty()) continue;
      for (const auto& [budget, ratio] : line.points) {
        write_mark(html, line.series, percent(budgets.place(budget)), height_of(ratio),
                   formatted("%.3f\u00d7 the best", ratio));
      }
    }
  }
  html->close("svg");
}

}  // namespace clients
