// Searches: what they tried, and how the best time fell.
#include <algorithm>
#include <map>

#include "clients/report/drawing/curves.h"
#include "clients/report/drawing/figures.h"
#include "clients/report/drawing/heat_map.h"
#include "clients/report/run_sections.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;

namespace {

constexpr size_t kSearchesShown = 24;  // the rest is in the bundle
constexpr size_t kPointsMax = 160;     // of a curve
constexpr size_t kCandidateRows = 200;
constexpr size_t kLandscapesShown = 4;  // of a search

std::string ms_text(double ms) { return ms > 0 ? number_text(ms) : ""; }

void write_search_facts(HtmlWriter* html, const SearchRun& search) {
  html->open("dl", {{"class", "facts"}});
  if (search.best_ms > 0) write_fact(html, "Best", common::duration_text(search.best_ms * 1e6));
  if (search.best_ms > 0 && search.baseline_ms > 0) {
    write_fact(html, "Gain over plain",
               cat(number_text(search.baseline_ms / search.best_ms), "\u00d7"));
  }
  write_fact(html, "Candidates", count_of(static_cast<int64_t>(search.candidates.size())));
  if (!search.progress.empty()) {
    write_fact(html, "Took", common::duration_text(search.progress.back().at_s * 1e9));
  }
  html->close("dl");
}

// A best time stays until there is a better one, so the lines have steps.
template <class Place, class Value>
CurveLine steps_of(const SearchRun& search, size_t series, const Place& place, const Value& value) {
  CurveLine line{series, {}};
  size_t each = search.progress.size() / kPointsMax + 1;
  for (size_t k = 0; k < search.progress.size(); ++k) {
    const ProgressPoint& point = search.progress[k];
    bool is_shown = k % each == 0 || k + 1 == search.progress.size();
    if (value(point) <= 0 || !is_shown) continue;
    if (!line.points.empty()) line.points.emplace_back(place(point), line.points.back().second);
    line.points.emplace_back(place(point), value(point));
  }
  return line;
}

template <class Place>
void write_best_over(HtmlWriter* html, const SearchRun& search, const char* name, const char* x,
                     const Place& place) {
  std::vector<CurveLine> lines{
      steps_of(search, 0, place, [](const ProgressPoint& point) { return point.expected_ms; }),
      steps_of(search, 1, place, [](const ProgressPoint& point) { return point.best_ms; })};
  html->line();
  html->open("figure");
  bool is_log = kind_for(lines) == Axis::Kind::kLogarithmic;
  html->element("figcaption", cat(name, ", milliseconds", is_log ? ", logarithmic" : ""));
  write_curves(html, lines,
               {cat(name, " of ", search.head.name, "; the table has the values."), x});
  html->close("figure");
}

void write_progress_table(HtmlWriter* html, const SearchRun& search) {
  html->open("details");
  html->element("summary", cat("Best times as a table (", search.progress.size(), ")"));
  begin_table(html, cat("Best times of ", search.head.name),
              {"Candidates", "Seconds", "Best whole ms", "Expected ms"}, 0);
  size_t each = search.progress.size() / kPointsMax + 1;
  for (size_t k = 0; k < search.progress.size(); ++k) {
    if (k % each != 0 && k + 1 != search.progress.size()) continue;
    const ProgressPoint& point = search.progress[k];
    html->line();
    html->open("tr");
    html->element("th", count_of(point.candidates), {{"scope", "row"}, {"class", "num"}});
    for (const std::string& text :
         {axis_text(point.at_s), ms_text(point.best_ms), ms_text(point.expected_ms)}) {
      html->element("td", text, {{"class", "num"}});
    }
    html->close("tr");
  }
  end_table(html);
  html->close("details");
}

void write_progress(HtmlWriter* html, const SearchRun& search) {
  if (search.progress.size() < 2) return;
  write_legend(html, {"expected of the best parts", "best whole program that was measured"});
  html->open("div", {{"class", "multiples wide"}});
  write_best_over(html, search, "Best time over candidates", "candidates \u2192",
                  [](const ProgressPoint& at) { return static_cast<double>(at.candidates); });
  write_best_over(html, search, "Best time over time", "seconds \u2192",
                  [](const ProgressPoint& at) { return at.at_s; });
  html->close("div");
  write_progress_table(html, search);
}

void write_origins(HtmlWriter* html, const SearchRun& search) {
  if (search.candidates.empty()) return;
  html->element("h4", "Candidates tried and kept");
  begin_table(html,
              "Kept: faster than all candidates of their region before them. Schedules, structures "
              "and crossover are the genes that were changed.",
              {"Found by", "Tried", "Measured", "Kept", "Kept of tried"}, 1);
  for (const OriginCount& count : count_origins(search)) {
    html->line();
    html->open("tr");
    html->open("th", {{"scope", "row"}});
    html->element("bdi", count.origin);
    html->close("th");
    for (int64_t number : {count.tried, count.right, count.kept}) {
      html->element("td", count_of(number), {{"class", "num"}});
    }
    double share = 100.0 * static_cast<double>(count.kept) / static_cast<double>(count.tried);
    html->element("td", cat(number_text(share), " %"), {{"class", "num"}});
    html->close("tr");
  }
  end_table(html);
  html->open("details");
  bool is_cut = search.candidates.size() > kCandidateRows;
  html->element("summary", is_cut
                               ? cat("The last ", kCandidateRows, " candidates as a table")
                               : cat("All candidates as a table (", search.candidates.size(), ")"));
  begin_table(html, cat("Candidates of ", search.head.name),
              {"Candidate", "Region", "Found by", "Outcome", "Seconds", "Median ms", "Kept"}, 4);
  for (size_t k = is_cut ? search.candidates.size() - kCandidateRows : 0;
       k < search.candidates.size(); ++k) {
    const TriedCandidate& one = search.candidates[k];
    html->line();
    html->open("tr");
    html->element("th", cat(one.id), {{"scope", "row"}});
    html->element("td", one.region < 0 ? "whole" : cat(one.region));
    for (const std::string* text : {&one.origin, &one.outcome}) {
      html->open("td");
      html->element("bdi", *text);
      html->close("td");
    }
    html->element("td", axis_text(one.at_s), {{"class", "num"}});
    html->element("td", ms_text(one.ms), {{"class", "num"}});
    html->element("td", one.was_best ? "kept" : "", {{"class", "num"}});
    html->close("tr");
  }
  end_table(html);
  html->close("details");
}

void write_schedules(HtmlWriter* html, const SearchRun& search) {
  auto landscapes = schedule_landscapes(search, kLandscapesShown);
  if (landscapes.empty()) return;
  html->element("h4", "Landscapes over two schedule parameters");
  html->element("p",
                "The least milliseconds of a kernel at each pair of values that was tried, of the "
                "two parameters with the most pairs.",
                {{"class", "sub"}});
  html->open("div", {{"class", "multiples wide"}});
  for (const ScheduleLandscape& landscape : landscapes) {
    HeatMap map;
    map.values = landscape.least_ms;
    map.rows = landscape.y;
    map.columns = landscape.x;
    for (double at : landscape.at_y) map.row_names.push_back(axis_text(at));
    for (double at : landscape.at_x) map.column_names.push_back(axis_text(at));
    HeatScale scale;
    scale.show(map);
    write_map_figure(html, cat(landscape.kernel, ", ", landscape.tried, " tried"), map, scale);
  }
  html->close("div");
}

}  // namespace

void write_searches(HtmlWriter* html, const std::vector<SearchRun>& searches) {
  if (searches.empty()) return;
  write_heading(html, "courses", "Courses of searches",
                "How searches of a farm came to their plans.");
  for (size_t k = 0; k < std::min(kSearchesShown, searches.size()); ++k) {
    const SearchRun& search = searches[k];
    write_run_heading(html, search.head);
    write_search_facts(html, search);
    write_progress(html, search);
    write_origins(html, search);
    write_schedules(html, search);
  }
  if (searches.size() > kSearchesShown) {
    html->element("p", cat(searches.size() - kSearchesShown, " more are in lfarm report --json."),
                  {{"class", "none"}});
  }
}

}  // namespace clients
