// The parts of a report that show logs of runs. A kind of run that nobody logged has no part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/report/drawing/heat_map.h"
#include "clients/report/drawing/html.h"
#include "clients/report/logs/runs.h"
#include "clients/report/sections.h"

namespace clients {

void write_trainings(HtmlWriter* html, const std::vector<Training>& trainings);

void write_validations(HtmlWriter* html, const std::vector<Validation>& validations);
void write_searches(HtmlWriter* html, const std::vector<SearchRun>& searches);
void write_plans(HtmlWriter* html, const std::vector<PlanMemory>& plans);

// ---- What they have in common -------------------------------------------------------------------

// A heat map with its key, and its values as a table behind it.
void write_map_figure(HtmlWriter* html, const std::string& caption, const HeatMap& map,
                      const HeatScale& scale);
// Whose run it is, with a heading of its own.
void write_run_heading(HtmlWriter* html, const RunHead& head);
// One entry of a list of facts. `look`: the class of the value.
void write_fact(HtmlWriter* html, const std::string& what, const std::string& value,
                const char* look = "");
// "1,234".
std::string count_of(int64_t count);

}  // namespace clients
