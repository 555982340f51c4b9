// Trainings: curves, heat maps, parts, landscapes.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "clients/report/drawing/bars.h"
#include "clients/report/drawing/curves.h"
#include "clients/report/drawing/figures.h"
#include "clients/report/drawing/heat_map.h"
#include "clients/report/run_sections.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::bytes_text;
using common::cat;

namespace {

constexpr size_t kPointsMax = 160;  // of a curve, and rows of its table
constexpr size_t kPartsShown = 60;  // the largest; the table has all

// Curves of one figure, by the text before '/' of their names.
std::vector<std::pair<std::string, std::vector<const Curve*>>> by_figure(const Training& training) {
  std::vector<std::pair<std::string, std::vector<const Curve*>>> figures;
  for (const Curve& curve : training.curves) {
    if (curve.points.size() < 2) continue;  // a number, among the facts
    std::string name = curve.name.substr(0, curve.name.find('/'));
    auto found = std::find_if(figures.begin(), figures.end(),
                              [&](const auto& figure) { return figure.first == name; });
    if (found == figures.end()) found = figures.insert(figures.end(), {name, {}});
    found->second.push_back(&curve);
  }
  // What people look for first; a line's names come in the alphabet's order.
  std::stable_partition(figures.begin(), figures.end(),
                        [](const auto& figure) { return figure.first.compare(0, 4, "loss") == 0; });
  return figures;
}

std::string own_name(const Curve& curve) {
  size_t slash = curve.name.find('/');
  return slash == std::string::npos ? curve.name : curve.name.substr(slash + 1);
}

// The last number that is one.
std::string last_text(const Curve& curve) {
  for (auto at = curve.points.rbegin(); at != curve.points.rend(); ++at) {
    if (std::isfinite(at->second)) return value_text(at->second);
  }
  return value_text(std::nan(""));
}

std::vector<std::pair<double, double>> points_of(const Curve& curve) {
  std::vector<std::pair<double, double>> points;
  for (const auto& [step, value] : curve.points) {
    points.emplace_back(static_cast<double>(step), value);
  }
  return thinned(points, kPointsMax);
}

void write_facts(HtmlWriter* html, const Training& training) {
  int64_t last_step = 0, parameters = 0;
  double bytes = 0;
  for (const Curve& curve : training.curves)
    last_step = std::max(last_step, curve.points.back().first);
  for (const ModelPart& part : training.parts) {
    parameters += part.parameters;
    for (const auto& [what, size] : part.bytes) bytes += size;
  }
  html->open("dl", {{"class", "facts"}});
  if (!training.curves.empty())
    write_fact(html, "Last step", number_text(static_cast<double>(last_step)));
  std::set<std::string> told;  // one of each figure
  for (const Curve& curve : training.curves) {
    bool is_figure = curve.points.size() > 1;
    if (is_figure && !told.insert(curve.name.substr(0, curve.name.find('/'))).second) continue;
    write_fact(html, cat("Last ", curve.name), last_text(curve));
  }
  if (parameters > 0) write_fact(html, "Parameters", count_of(parameters));
  if (bytes > 0) write_fact(html, "Memory", bytes_text(bytes));
  html->close("dl");
}

// What a table's row says of a curve at a place: the point there, if it has one.
std::string value_at(const std::vector<std::pair<double, double>>& points, double at) {
  auto found = std::lower_bound(points.begin(), points.end(), at,
                                [](const auto& point, double x) { return point.first < x; });
  return found != points.end() && found->first == at ? value_text(found->second) : "";
}

void write_curves_table(HtmlWriter* html, const Training& training) {
  std::vector<std::string> columns{"Step"};
  std::vector<std::vector<std::pair<double, double>>> curves;
  std::set<double> steps;
  for (const Curve& curve : training.curves) {
    columns.push_back(curve.name);
    curves.push_back(points_of(curve));
    for (const auto& point : curves.back()) steps.insert(point.first);
  }
  html->open("details");
  html->element("summary", cat("All curves as a table (", steps.size(), " rows)"));
  begin_table(html, cat("Curves of ", training.head.name), columns, 0);
  for (double step : steps) {
    html->line();
    html->open("tr");
    html->element("th", axis_text(step), {{"scope", "row"}, {"class", "num"}});
    for (const auto& points : curves) {
      html->element("td", value_at(points, step), {{"class", "num"}});
    }
    html->close("tr");
  }
  end_table(html);
  html->close("details");
}

void write_training_curves(HtmlWriter* html, const Training& training) {
  auto figures = by_figure(training);
  if (figures.empty()) return;
  bool is_thinned = false;
  html->open("div", {{"class", "multiples wide"}});
  for (const auto& [name, curves] : figures) {
    std::vector<CurveLine> lines;
    std::vector<std::string> names;
    std::string ends;
    for (const Curve* curve : curves) {
      lines.push_back({lines.size(), points_of(*curve)});
      names.push_back(own_name(*curve));
      ends += cat(ends.empty() ? "" : "; ", names.back(), " ends at ", last_text(*curve));
      is_thinned = is_thinned || curve->points.size() > kPointsMax;
    }
    html->line();
    html->open("figure");
    bool is_log = kind_for(lines) == Axis::Kind::kLogarithmic;
    html->element("figcaption", cat(name, is_log ? ", logarithmic" : ""));
    if (names.size() > 1) write_legend(html, names);
    write_curves(html, lines, {cat(name, " over steps: ", ends), "step \u2192"});
    html->close("figure");
  }
  html->close("div");
  if (is_thinned) {
    html->element("p",
                  cat("Of more than ", kPointsMax, " steps each point is the mean of several."),
                  {{"class", "none"}});
  }
  write_curves_table(html, training);
}

// ---- Maps --------------------------------------------------------------------------------------

// The first and the last snapshot of a matrix; of a vector one map, with a row for each step.
std::vector<std::pair<std::string, HeatMap>> figures_of(const TensorMap& map) {
  std::vector<std::pair<std::string, HeatMap>> figures;
  bool is_vector = map.snapshots.front().values.size() == 1;
  if (is_vector && map.snapshots.size() > 1) {
    HeatMap history;
    history.rows = "step";
    history.columns = map.columns;
    for (const MapAtStep& at : map.snapshots) {
      history.values.push_back(at.values.front());
      history.row_names.push_back(cat(at.step));
    }
    figures.emplace_back(cat(map.name, " over steps"), std::move(history));
    return figures;
  }
  auto add = [&](const MapAtStep& at) {
    HeatMap one;
    one.values = at.values;
    one.rows = is_vector ? "" : map.rows;
    one.columns = map.columns;
    figures.emplace_back(cat(map.name, " at step ", at.step), std::move(one));
  };
  if (map.snapshots.size() > 1) add(map.snapshots.front());
  add(map.snapshots.back());
  return figures;
}

void write_maps(HtmlWriter* html, const Training& training) {
  if (training.maps.empty()) return;
  html->element("h4", "Parameters as heat maps");
  html->open("div", {{"class", "multiples wide"}});
  for (const TensorMap& map : training.maps) {
    auto figures = figures_of(map);
    HeatScale scale;  // one for both snapshots, so that colours compare
    for (const auto& [caption, heat] : figures) scale.show(heat);
    for (const auto& [caption, heat] : figures) write_map_figure(html, caption, heat, scale);
  }
  html->close("div");
}

void write_landscapes(HtmlWriter* html, const Training& training) {
  if (training.landscapes.empty()) return;
  html->element("h4", "Landscapes");
  html->element("p",
                "The value with the parameters moved along two random directions, by multiples of "
                "their own lengths. The mark is where the training ended.",
                {{"class", "sub"}});
  html->open("div", {{"class", "multiples wide"}});
  for (const Landscape& landscape : training.landscapes) {
    HeatMap map;
    map.values = landscape.values;
    map.rows = landscape.y;
    map.columns = landscape.x;
    auto centre = [](const std::vector<double>& at) {
      auto found = std::find(at.begin(), at.end(), 0.0);
      return found == at.end() ? -1 : static_cast<int>(found - at.begin());
    };
    map.marked_row = centre(landscape.at_y);
    map.marked_column = centre(landscape.at_x);
    for (double at : landscape.at_y) map.row_names.push_back(axis_text(at));
    for (double at : landscape.at_x) map.column_names.push_back(axis_text(at));
    HeatScale scale;
    scale.show(map);
    write_map_figure(html, landscape.name, map, scale);
  }
  html->close("div");
}

// ---- Parts -------------------------------------------------------------------------------------

double bytes_of(const ModelPart& part) {
  double sum = 0;
  for (const auto& [what, size] : part.bytes) sum += size;
  return sum;
}

double bytes_for(const ModelPart& part, const std::string& what) {
  for (const auto& [name, size] : part.bytes) {
    if (name == what) return size;
  }
  return 0;
}

void write_parts_table(HtmlWriter* html, const Training& training,
                       const std::vector<std::string>& kinds) {
  html->open("details");
  html->element("summary", cat("All parts as a table (", training.parts.size(), ")"));
  std::vector<std::string> columns{"Part", "Parameters"};
  for (const std::string& kind : kinds) columns.push_back(cat(kind, ", bytes"));
  begin_table(html, cat("Parts of ", training.head.name), columns, 1);
  for (const ModelPart& part : training.parts) {
    html->line();
    html->open("tr");
    html->open("th", {{"scope", "row"}});
    html->element("bdi", part.name);
    html->close("th");
    html->element("td", count_of(part.parameters), {{"class", "num"}});
    for (const std::string& kind : kinds) {
      auto bytes = static_cast<int64_t>(bytes_for(part, kind));
      html->element("td", count_of(bytes), {{"class", "num"}});
    }
    html->close("tr");
  }
  end_table(html);
  html->close("details");
}

void write_parts(HtmlWriter* html, const Training& training) {
  if (training.parts.empty()) return;
  std::vector<std::string> kinds;
  for (const ModelPart& part : training.parts) {
    for (const auto& [what, size] : part.bytes) {
      if (std::find(kinds.begin(), kinds.end(), what) == kinds.end()) kinds.push_back(what);
    }
  }
  std::sort(kinds.begin(), kinds.end());
  std::vector<const ModelPart*> order;
  for (const ModelPart& part : training.parts) order.push_back(&part);
  std::stable_sort(order.begin(), order.end(), [](const ModelPart* a, const ModelPart* b) {
    return std::pair(bytes_of(*a), a->parameters) > std::pair(bytes_of(*b), b->parameters);
  });
  std::vector<Bar> bars;
  for (const ModelPart* part : order) {
    if (bars.size() == kPartsShown) break;
    Bar bar;
    bar.label = part->name;
    for (const std::string& kind : kinds) bar.parts.push_back(bytes_for(*part, kind));
    bar.value = kinds.empty() ? count_of(part->parameters) : bytes_text(bytes_of(*part));
    if (kinds.empty()) bar.parts = {static_cast<double>(part->parameters)};
    bars.push_back(std::move(bar));
  }
  html->element("h4", "Parameters and memory by part");
  if (bars.size() > 1) {
    html->open("figure");
    write_bars(html, bars, kinds);
    html->close("figure");
  }
  write_parts_table(html, training, kinds);
}

}  // namespace

void write_trainings(HtmlWriter* html, const std::vector<Training>& trainings) {
  if (trainings.empty()) return;
  write_heading(html, "trainings", "Training",
                "What training loops logged of their steps, and what they ended with.");
  for (const Training& training : trainings) {
    write_run_heading(html, training.head);
    write_facts(html, training);
    write_training_curves(html, training);
    write_maps(html, training);
    write_parts(html, training);
    write_landscapes(html, training);
  }
}

}  // namespace clients
