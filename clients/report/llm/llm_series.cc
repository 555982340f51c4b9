#include "clients/report/llm/llm_series.h"

#include <algorithm>

#include "common/base/cat.h"

namespace clients {

using common::cat;

namespace {

constexpr double kSlower = 1.05;
constexpr size_t kRunsBefore = 5;

bool is_of(const LlmSeries& series, const LlmRun& run, const LlmRow& row) {
  return series.model == row.model && series.shape == row.shape && series.way == row.way &&
         series.prompt_tokens == row.prompt_tokens && series.budget == row.budget &&
         series.machine == run.machine && series.device == run.device;
}

// Of a new point, of which `before` are those of earlier runs.
double slower(const std::vector<LlmPoint>& before, const LlmPoint& point, double LlmPoint::*value,
              std::vector<double> LlmRow::*samples) {
  std::vector<double> medians;
  for (size_t k = before.size(); k > 0 && medians.size() < kRunsBefore; --k) {
    medians.push_back(before[k - 1].*value);
  }
  const double usual = median_of(medians);
  const std::vector<double>& all = point.row.*samples;
  if (all.empty() || usual <= 0) return 0;
  const bool scatters = *std::min_element(all.begin(), all.end()) <= usual;
  const double ratio = point.*value / usual;
  return ratio > kSlower && !scatters ? ratio : 0;
}

LlmPoint point_of(const LlmRun& run, const LlmRow& row, const std::vector<LlmPoint>& before) {
  LlmPoint point{run.id, run.at, run.commit, row, median_of(row.ttft_ms), median_of(row.tpot_ms)};
  point.ttft_slower = slower(before, point, &LlmPoint::ttft_ms, &LlmRow::ttft_ms);
  point.tpot_slower = slower(before, point, &LlmPoint::tpot_ms, &LlmRow::tpot_ms);
  return point;
}

}  // namespace

std::vector<LlmSeries> llm_series(const std::vector<LlmRun>& runs) {
  std::vector<LlmSeries> all;
  for (const LlmRun& run : runs) {
    for (const LlmRow& row : run.rows) {
      if (!row.error.empty()) continue;
      auto found = std::find_if(all.begin(), all.end(),
                                [&](const LlmSeries& series) { return is_of(series, run, row); });
      if (found == all.end()) {
        all.push_back({row.model,
                       row.shape,
                       row.way,
                       run.machine,
                       run.device,
                       row.prompt_tokens,
                       row.budget,
                       {}});
        found = std::prev(all.end());
      }
      found->points.push_back(point_of(run, row, found->points));
    }
  }
  // What the last run did not measure has not become slower.
  for (LlmSeries& series : all) {
    const LlmPoint& last = series.points.back();
    if (last.run != runs.back().id) continue;
    series.ttft_slower = last.ttft_slower;
    series.tpot_slower = last.tpot_slower;
  }
  return all;
}

std::string words_of(const LlmSeries& series) {
  return cat(series.model, ", ", series.way, ", ", series.prompt_tokens, " tokens",
             series.budget > 0 ? cat(", ", series.budget, " candidates") : "");
}

}  // namespace clients
