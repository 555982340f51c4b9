#include "clients/report/sections.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "clients/report/drawing/figures.h"
#include "clients/report/page.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;

namespace {

// Rows of one figure; its table has all.
constexpr size_t kRowsMax = 120;

void write_none(HtmlWriter* html, const char* what, const char* command) {
  html->open("p", {{"class", "none"}});
  html->text(what);
  html->text(" ");
  html->element("code", command);
  html->close("p");
}

// A table's row up to its first cell, which names the model; `note` stands beside it.
void begin_row(HtmlWriter* html, const std::string& model, const std::string& note = "") {
  html->line();
  html->open("tr");
  html->open("th", {{"scope", "row"}});
  html->element("bdi", model);
  if (!note.empty()) html->element("span", cat(" ", note), {{"class", "note"}});
  html->close("th");
}

// Where it was measured: the machine only where there are several.
std::string place_text(const std::string& device, const std::string& machine, bool many_machines) {
  return many_machines && !machine.empty() ? cat(device, " of ", machine) : device;
}

std::string batch_text(const CellKey& key) {
  std::string text = key.batch == 0 ? "" : cat("batch ", key.batch);
  if (!key.sizes.empty()) text += cat(text.empty() ? "" : ", ", key.sizes);
  return text;
}

std::string note_of(const CellKey& key) {
  std::string batch = batch_text(key);
  return key.dtype.empty() || batch.empty() ? key.dtype + batch : cat(key.dtype, ", ", batch);
}

// lfarm first, the interpreter last.
std::vector<std::string> backends_of(const std::vector<const Cell*>& cells) {
  std::set<std::string> names;
  for (const Cell* cell : cells) names.insert(cell->key.backend);
  std::vector<std::string> order(names.begin(), names.end());
  auto rank = [](const std::string& name) {
    return name == "lfarm" ? 0 : name == kInterpreter ? 2 : 1;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return order;
}

size_t place_in(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::string ms_text(double ms) { return number_text(ms); }

// Cells by where they were measured, in order.
using Group = std::vector<const Cell*>;
std::vector<std::pair<std::string, Group>> by_place(
    const Measured& measured, const std::function<bool(const Cell&)>& is_wanted) {
  std::set<std::string> machines;
  for (const Cell& cell : measured.cells) machines.insert(cell.key.machine);
  std::vector<std::pair<std::string, Group>> groups;
  for (const Cell& cell : measured.cells) {
    if (!is_wanted(cell)) continue;
    std::string place = place_text(cell.key.device, cell.key.machine, machines.size() > 1);
    if (groups.empty() || groups.back().first != place) groups.emplace_back(place, Group());
    groups.back().second.push_back(&cell);
  }
  return groups;
}

// Cells that differ in their backends only, side by side.
std::vector<Group> side_by_side(const Group& cells) {
  std::vector<Group> rows;
  for (const Cell* cell : cells) {
    CellKey key = cell->key;
    if (!rows.empty()) key.backend = rows.back().front()->key.backend;
    if (rows.empty() || !(rows.back().front()->key == key)) rows.emplace_back();
    rows.back().push_back(cell);
  }
  return rows;
}

// What stands behind a row: lfarm's value, or the only one's.
const Cell* shown_of(const Group& row) {
  auto found = std::find_if(row.begin(), row.end(),
                            [](const Cell* cell) { return cell->key.backend == "lfarm"; });
  return found != row.end() ? *found : row.front();
}

enum class Value { kLatency, kError };

std::vector<StripRow> strip_rows(const Group& cells, const std::vector<std::string>& backends,
                                 Value value) {
  std::vector<StripRow> rows;
  for (const Group& row : side_by_side(cells)) {
    StripRow out;
    out.label = row.front()->key.model;
    out.note = note_of(row.front()->key);
    const Cell* shown = shown_of(row);
    for (const Cell* cell : row) {
      Mark mark;
      mark.series = place_in(backends, cell->key.backend);
      if (value == Value::kLatency && cell->latency) {
        mark.value = cell->latency->median_ns / 1e6;
        if (cell->latency->spread_ns > 0) {
          mark.low = std::max(0.0, mark.value - cell->latency->spread_ns / 2e6);
          mark.high = mark.value + cell->latency->spread_ns / 2e6;
        }
        mark.title = cat(cell->key.backend, " ", common::duration_text(mark.value * 1e6));
        if (cell == shown) out.value = common::duration_text(mark.value * 1e6);
      }
      if (value == Value::kError && cell->error) {
        mark.value = cell->error->relative;
        mark.title = cat(cell->key.backend, " ", common::error_text(mark.value));
        if (cell == shown) out.value = mark.value == 0 ? "exact" : common::error_text(mark.value);
      }
      if (mark.value > 0) out.marks.push_back(std::move(mark));
    }
    if (!out.marks.empty() || !out.value.empty()) rows.push_back(std::move(out));
  }
  return rows;
}

// A table's frame: behind its figure, or in the open where one value has no figure.
void begin_values(HtmlWriter* html, size_t count) {
  if (count < 2) return;
  html->open("details");
  html->element("summary", cat("All values as a table (", count, ")"));
}
void end_values(HtmlWriter* html, size_t count) {
  if (count >= 2) html->close("details");
}

void write_cells_table(HtmlWriter* html, const std::string& place, const Group& cells) {
  begin_values(html, cells.size());
  begin_table(html, cat("Latency and error on ", place),
              {"Model", "Type", "Batch and sizes", "Backend", "Median ms", "Spread ms", "Runs",
               "Error, absolute", "Error, relative", "Measured"},
              4);
  for (const Cell* cell : cells) {
    begin_row(html, cell->key.model);
    html->element("td", cell->key.dtype);
    html->element("td", batch_text(cell->key));
    html->open("td");
    html->element("bdi", cell->key.backend);
    html->close("td");
    auto number = [html](const std::string& text) {
      html->element("td", text, {{"class", "num"}});
    };
    const auto& latency = cell->latency;
    number(latency ? ms_text(latency->median_ns / 1e6) : "");
    number(latency && latency->spread_ns > 0 ? ms_text(latency->spread_ns / 1e6) : "");
    number(latency && latency->runs > 0 ? cat(latency->runs) : "");
    number(cell->error ? common::error_text(cell->error->absolute) : "");
    number(cell->error ? common::error_text(cell->error->relative) : "");
    number(time_text(cell->at_ns));
    html->close("tr");
  }
  end_table(html);
  end_values(html, cells.size());
}

void write_strip_figure(HtmlWriter* html, const std::string& caption, const Group& cells,
                        const std::vector<std::string>& backends, Value value) {
  std::vector<StripRow> rows = strip_rows(cells, backends, value);
  if (rows.empty() || cells.size() < 2) return;
  size_t hidden = rows.size() > kRowsMax ? rows.size() - kRowsMax : 0;
  rows.resize(rows.size() - hidden);
  html->open("figure");
  html->element("figcaption", caption);
  write_legend(html, backends);
  bool is_latency = value == Value::kLatency;
  write_strips(html, rows, is_latency ? "milliseconds" : "relative error");
  if (hidden > 0) {
    html->element("p", cat(hidden, " more are in the table."), {{"class", "none"}});
  }
  html->close("figure");
}

}  // namespace

void write_latency(HtmlWriter* html, const Measured& measured) {
  write_heading(html, "latency", "Latency and error",
                "By backend, device and batch: the latest median of each, and the greatest error "
                "against the reference, which lfarm check takes from PyTorch. Bars lie between the "
                "quartiles. A backend is what ran the model: lfarm its plan, the interpreter the "
                "graph without any plan.");
  auto groups = by_place(measured, [](const Cell& cell) { return cell.latency || cell.error; });
  if (groups.empty()) {
    write_none(html, "No latency or error is recorded. To measure:",
               "lfarm check CASE... --record FILE.db");
    return;
  }
  for (const auto& [place, cells] : groups) {
    html->open("h3");
    html->element("bdi", place);
    html->close("h3");
    std::vector<std::string> backends = backends_of(cells);
    write_strip_figure(html, "Latency, logarithmic; further left is faster.", cells, backends,
                       Value::kLatency);
    write_strip_figure(html, "Greatest relative error, logarithmic; further left is closer.", cells,
                       backends, Value::kError);
    write_cells_table(html, place, cells);
  }
}

// ---- Ratios ------------------------------------------------------------------------------------

namespace {

using Row = std::pair<std::string, std::string>;  // model, type
using Heat = std::map<Row, std::map<std::pair<int64_t, std::string>, double>>;

// Of each other backend, by model, type, batch and sizes.
std::map<std::string, Heat> heats_of(const Group& cells) {
  std::map<std::string, Heat> heats;
  for (const Group& row : side_by_side(cells)) {
    const Cell* own = shown_of(row);
    if (own->key.backend != "lfarm") continue;
    for (const Cell* cell : row) {
      if (cell == own || cell->key.backend == kInterpreter) continue;
      heats[cell->key.backend][{cell->key.model, cell->key.dtype}][{
          cell->key.batch, cell->key.sizes}] = cell->latency->median_ns / own->latency->median_ns;
    }
  }
  return heats;
}

void write_heat(HtmlWriter* html, const std::string& caption, const Heat& heat) {
  std::set<std::pair<int64_t, std::string>> batches;
  for (const auto& [row, ratios] : heat) {
    for (const auto& [batch, ratio] : ratios) batches.insert(batch);
  }
  std::vector<std::string> columns{"Model"};
  for (const auto& [batch, sizes] : batches) {
    CellKey key;
    key.batch = batch;
    key.sizes = sizes;
    std::string text = batch_text(key);
    columns.push_back(text.empty() ? "any batch" : text);
  }
  begin_table(html, caption, columns, 1, "heat");
  for (const auto& [row, ratios] : heat) {
    begin_row(html, row.first, row.second);
    for (const auto& batch : batches) {
      auto found = ratios.find(batch);
      if (found == ratios.end()) {
        html->element("td", "");
        continue;
      }
      html->element("td", cat(number_text(found->second), "\u00d7"),
                    {{"class", heat_of(found->second)}});
    }
    html->close("tr");
  }
  end_table(html);
}

}  // namespace

// Steps of a ratio's colour: from 1 on lfarm is at least as fast.
const char* heat_of(double ratio) {
  if (ratio >= 2) return "p3";
  if (ratio >= 1.25) return "p2";
  if (ratio >= 1.05) return "p1";
  if (ratio > 0.95) return "e0";
  if (ratio > 0.8) return "m1";
  return ratio > 0.5 ? "m2" : "m3";
}

void write_ratios(HtmlWriter* html, const Measured& measured) {
  write_heading(html, "ratios", "Ratio heat maps",
                "The other backend\u2019s time over lfarm\u2019s, on the same machine, type and "
                "batch: above 1\u00d7 (blue) lfarm is faster, below (orange) slower.");
  bool any = false;
  for (const auto& [place, cells] :
       by_place(measured, [](const Cell& cell) { return cell.latency.has_value(); })) {
    html->open("div", {{"class", "heats"}});
    for (const auto& [backend, heat] : heats_of(cells)) {
      any = true;
      write_heat(html, cat(backend, " over lfarm on ", place), heat);
    }
    html->close("div");
  }
  if (any) return;
  write_none(html,
             "Nothing was measured by lfarm and another backend alike. To add another\u2019s:",
             "lfarm report import MEASUREMENTS.json --db FILE.db");
}

// ---- Precision against speed -------------------------------------------------------------------

namespace {

std::vector<Dot> dots_of(const Group& cells, const std::vector<std::string>& backends) {
  std::vector<Dot> dots;
  // The same model, batch and backend in another type.
  std::map<std::tuple<std::string, int64_t, std::string, std::string>, int> last;
  for (const Cell* cell : cells) {
    Dot dot;
    dot.series = place_in(backends, cell->key.backend);
    dot.x = cell->latency->median_ns / 1e6;
    dot.y = cell->error->relative;
    dot.title = cat(words_of(cell->key), ": ", common::duration_text(dot.x * 1e6), ", error ",
                    common::error_text(dot.y));
    auto [place, is_new] = last.try_emplace(
        {cell->key.model, cell->key.batch, cell->key.sizes, cell->key.backend}, -1);
    dot.joined_to = place->second;
    place->second = static_cast<int>(dots.size());
    dots.push_back(std::move(dot));
  }
  return dots;
}

void write_precision_table(HtmlWriter* html, const std::string& place, const Group& cells) {
  begin_values(html, cells.size());
  begin_table(html, cat("Precision against speed on ", place),
              {"Model", "Batch and sizes", "Backend", "Type", "Median ms", "Error, relative"}, 4);
  for (const Cell* cell : cells) {
    begin_row(html, cell->key.model);
    html->element("td", batch_text(cell->key));
    html->element("td", cell->key.backend);
    html->element("td", cell->key.dtype);
    html->element("td", ms_text(cell->latency->median_ns / 1e6), {{"class", "num"}});
    html->element("td", common::error_text(cell->error->relative), {{"class", "num"}});
    html->close("tr");
  }
  end_table(html);
  end_values(html, cells.size());
}

void write_precision_figure(HtmlWriter* html, const std::string& place, const Group& cells) {
  if (cells.size() < 2) return;
  std::vector<std::string> backends = backends_of(cells);
  html->open("figure");
  write_legend(html, backends);
  write_scatter(html, dots_of(cells, backends),
                {cat("Error against latency of ", cells.size(), " measurements on ", place,
                     "; the table below has them all."),
                 "milliseconds \u2192", "\u2191 relative error", "exact"});
  html->close("figure");
}

}  // namespace

void write_precision(HtmlWriter* html, const Measured& measured) {
  write_heading(html, "precision", "Precision against speed",
                "Each point is a model in one type: further left is faster, further down is "
                "closer to the reference. Lines join the types of one model.");
  auto groups = by_place(measured, [](const Cell& cell) { return cell.latency && cell.error; });
  if (groups.empty()) {
    write_none(html, "Nothing has both a latency and an error. To measure both:",
               "lfarm check CASE... --record FILE.db");
    return;
  }
  for (const auto& [place, cells] : groups) {
    html->open("h3");
    html->element("bdi", place);
    html->close("h3");
    write_precision_figure(html, place, cells);
    write_precision_table(html, place, cells);
  }
}

// ---- Searches ----------------------------------------------------------------------------------

namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Each seed's run, and the median of all at each budget.
std::vector<SweepLine> lines_of(const Sweep& sweep, size_t series) {
  std::map<uint64_t, SweepLine> runs;
  std::map<int64_t, std::vector<double>> at_budget;
  for (const SweepPoint& point : sweep.points) {
    double ratio = point.best_ns / sweep.least_ns;
    auto budget = static_cast<double>(std::max<int64_t>(1, point.budget));
    runs[point.seed].points.emplace_back(budget, ratio);
    at_budget[point.budget].push_back(ratio);
  }
  std::vector<SweepLine> lines;
  for (auto& [seed, line] : runs) {
    line.series = series;
    if (runs.size() > 1) lines.push_back(std::move(line));
  }
  SweepLine& middle = lines.emplace_back();
  middle.series = series;
  middle.is_middle = true;
  for (auto& [budget, ratios] : at_budget) {
    middle.points.emplace_back(static_cast<double>(std::max<int64_t>(1, budget)),
                               median_of(ratios));
  }
  return lines;
}

std::string strategy_text(const Sweep& sweep) {
  return sweep.strategy.empty() ? "search" : sweep.strategy;
}

// `has_figures`: of which the table is behind.
void write_sweeps_table(HtmlWriter* html, const std::vector<Sweep>& sweeps, bool has_figures) {
  if (has_figures) {
    html->open("details");
    html->element("summary", "All searches as a table");
  }
  begin_table(html, "Search budget sweeps",
              {"Model", "Device", "Strategy", "Seed", "Budget", "Tried", "Best ms", "Of the best",
               "Gain over plain"},
              3);
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      begin_row(html, sweep.model);
      html->element("td", sweep.device);
      html->element("td", strategy_text(sweep));
      auto number = [html](const std::string& text) {
        html->element("td", text, {{"class", "num"}});
      };
      number(cat(point.seed));
      number(cat(point.budget));
      number(cat(point.candidates));
      number(ms_text(point.best_ns / 1e6));
      number(cat(number_text(point.best_ns / sweep.least_ns), "\u00d7"));
      number(sweep.baseline_ns > 0 ? cat(number_text(sweep.baseline_ns / point.best_ns), "\u00d7")
                                   : "");
      html->close("tr");
    }
  }
  end_table(html);
  if (has_figures) html->close("details");
}

void write_sweep_figures(HtmlWriter* html, const Measured& measured) {
  std::set<std::string> machines;
  std::set<std::string> strategies;
  for (const Sweep& sweep : measured.sweeps) {
    machines.insert(sweep.machine);
    strategies.insert(strategy_text(sweep));
  }
  std::vector<std::string> names(strategies.begin(), strategies.end());
  write_legend(html, names);
  html->open("div", {{"class", "multiples"}});
  for (size_t k = 0; k < measured.sweeps.size();) {
    const Sweep& first = measured.sweeps[k];
    std::vector<SweepLine> lines;
    std::string found;
    for (; k < measured.sweeps.size(); ++k) {
      const Sweep& sweep = measured.sweeps[k];
      if (sweep.model != first.model || sweep.device != first.device ||
          sweep.machine != first.machine) {
        break;
      }
      auto more = lines_of(sweep, place_in(names, strategy_text(sweep)));
      const auto& [budget, ratio] = more.back().points.back();
      found += cat(found.empty() ? "" : "; ", strategy_text(sweep), " ", number_text(ratio),
                   " times the best after ", number_text(budget));
      lines.insert(lines.end(), more.begin(), more.end());
    }
    html->line();
    html->open("figure");
    html->open("figcaption");
    html->element("bdi", first.model);
    html->element("span", cat(" ", place_text(first.device, first.machine, machines.size() > 1)),
                  {{"class", "note"}});
    html->close("figcaption");
    write_sweep(html, lines, cat(first.model, ": ", found));
    html->close("figure");
  }
  html->close("div");
}

// Whether a search was looked at after more than one budget: a line needs two points.
bool has_line(const std::vector<Sweep>& sweeps) {
  return std::any_of(sweeps.begin(), sweeps.end(), [](const Sweep& sweep) {
    const auto& points = sweep.points;
    return std::any_of(points.begin(), points.end(), [&](const SweepPoint& point) {
      return point.budget != points.front().budget;
    });
  });
}

}  // namespace

void write_sweeps(HtmlWriter* html, const Measured& measured) {
  write_heading(html, "searches", "Search budget sweeps",
                "What searches had found after a budget of candidates, as a multiple of the best "
                "that any of them found. Thin lines are single runs, strong ones their median.");
  if (measured.sweeps.empty()) {
    write_none(html,
               "No search is recorded. To record some:", "lfarm-bench search --record FILE.db");
    return;
  }
  bool has_figures = has_line(measured.sweeps);
  if (has_figures) write_sweep_figures(html, measured);
  write_sweeps_table(html, measured.sweeps, has_figures);
}

}  // namespace clients
