// A report as one HTML file that needs nothing else: no script, no font, no network.
#pragma once

#include <string>
#include <vector>

#include "clients/report/gate.h"
#include "clients/report/logs/runs.h"
#include "clients/report/measured.h"

namespace clients {

// The same measurements, gates and runs give the same bytes. `source`: what they are from, for the
// page's head and its hints of what to run.
std::string report_page(const Measured& measured, const std::vector<Gate>& gates,
                        const std::string& source, const Runs& runs = {});

// Whether all gates hold: these, and those that whoever measured had set.
bool all_pass(const Measured& measured, const std::vector<Gate>& gates);

// "2026-11-21 22:45 UTC"; times in nanoseconds since 1970.
std::string time_text(int64_t at_ns);

}  // namespace clients
