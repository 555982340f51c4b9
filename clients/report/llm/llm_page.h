// The report of language models: bars of the last run by way, what more candidates bring, and the
// history over all runs with what became slower.
#pragma once

#include <string>
#include <vector>

#include "clients/report/drawing/bars.h"
#include "clients/report/llm/llm_runs.h"

namespace clients {

// What the bars of the last run show.
enum class LlmFigure : uint8_t { kFirstToken, kNextToken, kPlan };
inline constexpr LlmFigure kLlmFigures[] = {LlmFigure::kFirstToken, LlmFigure::kNextToken,
                                            LlmFigure::kPlan};
const char* title_of(LlmFigure figure);
// A group for each model, shape and length of prompt; a bar for each way and budget.
std::vector<BarGroup> bars_of(const LlmRun& run, LlmFigure figure);

// One HTML file that needs nothing else. `source`: the folder of the runs.
std::string llm_page(const std::vector<LlmRun>& runs, const std::string& source);
// All data behind the page as one JSON object: runs, and series with what became slower.
std::string llm_json(const std::vector<LlmRun>& runs);

}  // namespace clients
