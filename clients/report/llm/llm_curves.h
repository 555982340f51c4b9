// The curves of a report of language models: what more candidates bring, and the history over runs.
#pragma once

#include <string>
#include <vector>

#include "clients/report/drawing/curves.h"
#include "clients/report/llm/llm_series.h"

namespace clients {

// Ways keep their colours, whichever of them a run measured.
inline constexpr const char* kWayNames[] = {"lfarm", "eager", "torch.compile",
                                            "torch.compile+lfarm"};
size_t colour_of(const std::string& way);

inline constexpr const char* kBudgetTitle = "Quality over candidates";
inline constexpr const char* kHistoryTitle = "History";

struct LlmPlot {
  std::string name;
  std::string what;  // its values in words, for those who cannot see it
  std::vector<CurveLine> lines;
  std::vector<const LlmSeries*> series;  // of the lines of a history
};

// By the number of candidates, the time of each token after the first over the best of these: one
// line for each model, way and prompt that a run measured with several budgets. Of the last run
// that did.
std::vector<LlmPlot> budget_plots(const std::vector<LlmRun>& runs);

// By the number of the run, the milliseconds of each token after the first: a plot for each model,
// shape and prompt on a device that several runs measured, a line for each way and budget. `all` is
// llm_series(runs), and is pointed to.
std::vector<LlmPlot> history_plots(const std::vector<LlmRun>& runs,
                                   const std::vector<LlmSeries>& all);

}  // namespace clients
