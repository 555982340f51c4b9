// All that a report's page shows as one JSON object, for other programs.
#pragma once

#include <string>
#include <vector>

#include "clients/report/gate.h"
#include "clients/report/logs/runs.h"
#include "clients/report/measured.h"

namespace clients {

// {"source", "measurements", "searches", "gates", "trainings", "validations", "courses", "plans",
// "unread"}: the latest of each measurement in the words of an import, and runs with their curves
// and maps. Numbers that are not finite are null. On one line.
std::string report_json(const Measured& measured, const std::vector<Gate>& gates,
                        const std::string& source, const Runs& runs);

}  // namespace clients
