// The parts of a report. Each has a heading, figures, and behind every figure a table of all that
// it shows; where nothing was measured it says what to run.
#pragma once

#include <string>
#include <vector>

#include "clients/report/drawing/html.h"
#include "clients/report/gate.h"
#include "clients/report/measured.h"

namespace clients {

void write_gates(HtmlWriter* html, const Measured& measured, const std::vector<Gate>& gates);
void write_latency(HtmlWriter* html, const Measured& measured);
void write_ratios(HtmlWriter* html, const Measured& measured);
void write_precision(HtmlWriter* html, const Measured& measured);
void write_sweeps(HtmlWriter* html, const Measured& measured);

// The class of a cell that shows how many times as fast lfarm is, or as good.
const char* heat_of(double ratio);
// A heading with an id and a sentence below it.
void write_heading(HtmlWriter* html, const char* id, const char* heading, const char* what);
// A table that scrolls by itself where it is too wide; end_table() ends it.
void begin_table(HtmlWriter* html, const std::string& caption,
                 const std::vector<std::string>& columns, size_t first_number,
                 const char* look = "");
void end_table(HtmlWriter* html);

}  // namespace clients
