// What runs say of one measurement: its values run by run, and whether the last one is slower.
#pragma once

#include <string>
#include <vector>

#include "clients/report/llm/llm_runs.h"

namespace clients {

// One run's medians.
struct LlmPoint {
  std::string run, at, commit;
  LlmRow row;
  double ttft_ms = 0, tpot_ms = 0;
  // The median over that of the points before it (five at most), where it is more than 1.05 and the
  // fastest sample is slower, too; else 0.
  double ttft_slower = 0, tpot_slower = 0;
};

// Of one model, shape, way, length of prompt and budget on one machine; oldest first. Rows with an
// error are no points.
struct LlmSeries {
  std::string model, shape, way, machine, device;
  int64_t prompt_tokens = 0, budget = 0;
  std::vector<LlmPoint> points;
  double ttft_slower = 0, tpot_slower = 0;  // of the last point, where it is of the last run

  bool is_regression() const { return ttft_slower > 0 || tpot_slower > 0; }
};

// In the order in which they first came.
std::vector<LlmSeries> llm_series(const std::vector<LlmRun>& runs);

// "qwen3_4b, lfarm, 128 tokens"
std::string words_of(const LlmSeries& series);

}  // namespace clients
