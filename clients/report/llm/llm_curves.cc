#include "clients/report/llm/llm_curves.h"

#include <algorithm>
#include <map>
#include <utility>

#include "clients/report/drawing/figures.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;

namespace {

std::string time_text(double ms) { return common::duration_text(ms * 1e6); }

// `points`: candidates and milliseconds.
LlmPlot budget_plot(const std::string& name, std::vector<std::pair<double, double>> points) {
  std::sort(points.begin(), points.end());
  double best = points.front().second;
  for (const auto& point : points) best = std::min(best, point.second);
  LlmPlot plot{name, name, {CurveLine{}}, {}};
  for (const auto& [budget, ms] : points) {
    plot.lines[0].points.emplace_back(budget, best > 0 ? ms / best : 1);
    plot.what += cat("; ", number_text(budget), " candidates: ", time_text(ms));
  }
  return plot;
}

std::vector<LlmPlot> budget_plots_of(const LlmRun& run) {
  std::map<std::string, std::vector<std::pair<double, double>>> measured;
  for (const LlmRow& row : run.rows) {
    if (!row.error.empty() || row.budget <= 0) continue;
    measured[cat(row.model, ", ", row.way, ", ", row.prompt_tokens, " tokens")].emplace_back(
        static_cast<double>(row.budget), median_of(row.tpot_ms));
  }
  std::vector<LlmPlot> plots;
  for (auto& [name, points] : measured) {
    if (points.size() > 1) plots.push_back(budget_plot(name, std::move(points)));
  }
  return plots;
}

}  // namespace

size_t colour_of(const std::string& way) {
  const auto* found = std::find(std::begin(kWayNames), std::end(kWayNames), way);
  return static_cast<size_t>(found - std::begin(kWayNames));
}

std::vector<LlmPlot> budget_plots(const std::vector<LlmRun>& runs) {
  for (size_t k = runs.size(); k > 0; --k) {
    std::vector<LlmPlot> plots = budget_plots_of(runs[k - 1]);
    if (!plots.empty()) return plots;
  }
  return {};
}

std::vector<LlmPlot> history_plots(const std::vector<LlmRun>& runs,
                                   const std::vector<LlmSeries>& all) {
  std::map<std::string, double> number_of;
  for (size_t k = 0; k < runs.size(); ++k) number_of[runs[k].id] = static_cast<double>(k + 1);
  std::map<std::string, LlmPlot> plots;
  for (const LlmSeries& one : all) {
    if (one.points.size() < 2) continue;
    const std::string name = cat(one.model, one.shape == "full" ? "" : cat(" (", one.shape, ")"),
                                 ", ", one.prompt_tokens, " tokens, on ", one.device);
    LlmPlot& plot = plots.try_emplace(name, LlmPlot{name, name, {}, {}}).first->second;
    CurveLine line{colour_of(one.way), {}};
    for (const LlmPoint& point : one.points) {
      if (point.tpot_slower > 0) line.ringed.push_back(line.points.size());
      line.points.emplace_back(number_of[point.run], point.tpot_ms);
    }
    plot.what += cat("; ", words_of(one), ": ", time_text(one.points.front().tpot_ms), " to ",
                     time_text(one.points.back().tpot_ms));
    plot.lines.push_back(std::move(line));
    plot.series.push_back(&one);
  }
  std::vector<LlmPlot> sorted;
  for (auto& [name, plot] : plots) sorted.push_back(std::move(plot));
  return sorted;
}

}  // namespace clients
