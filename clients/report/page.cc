#include "clients/report/page.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <set>

#include "clients/report/drawing/document.h"
#include "clients/report/drawing/figures.h"
#include "clients/report/run_sections.h"
#include "clients/report/sections.h"
#include "common/base/cat.h"
#include "common/text/units.h"

namespace clients {

using common::cat;

namespace {

constexpr const char* kTitle = "lfarm measurements";
std::string count_text(size_t count, const char* one, const char* many) {
  return cat(count, " ", count == 1 ? one : many);
}

// Conditions of one name that whoever measured had set, over all that was measured.
struct Kept {
  size_t passed = 0, all = 0;
  std::vector<std::string> failed;  // whose it is, and why
};
std::map<std::string, Kept> kept_gates(const Measured& measured) {
  std::map<std::string, Kept> kept;
  for (const Cell& cell : measured.cells) {
    for (const common::GateResult& gate : cell.gates) {
      Kept& k = kept[gate.name];
      ++k.all;
      k.passed += gate.passed ? 1 : 0;
      if (gate.passed) continue;
      std::string why = words_of(cell.key);
      if (!gate.detail.empty()) why += cat(": ", gate.detail);
      k.failed.push_back(why);
    }
  }
  return kept;
}

struct Tally {
  size_t passed = 0, all = 0;
};
Tally tally(const Measured& measured, const std::vector<Gate>& gates) {
  Tally tally;
  for (const Gate& gate : gates) {
    ++tally.all;
    tally.passed += judge(gate, measured).passed ? 1 : 0;
  }
  for (const auto& [name, kept] : kept_gates(measured)) {
    ++tally.all;
    tally.passed += kept.passed == kept.all ? 1 : 0;
  }
  return tally;
}

void write_summary(HtmlWriter* html, const Measured& measured, const std::vector<Gate>& gates) {
  std::set<std::string> models, devices, backends;
  for (const Cell& cell : measured.cells) {
    models.insert(cell.key.model);
    devices.insert(cell.key.device);
    backends.insert(cell.key.backend);
  }
  for (const Sweep& sweep : measured.sweeps) {
    models.insert(sweep.model);
    devices.insert(sweep.device);
  }
  Tally gate_tally = tally(measured, gates);
  html->open("dl", {{"class", "facts"}});
  std::string verdict =
      gate_tally.all == 0 ? "none set" : cat(gate_tally.passed, " of ", gate_tally.all, " pass");
  write_fact(html, "Gates", verdict,
             gate_tally.all == 0                   ? ""
             : gate_tally.passed == gate_tally.all ? "pass"
                                                   : "fail");
  write_fact(html, "Models", cat(models.size()));
  write_fact(html, "Devices", cat(devices.size()));
  write_fact(html, "Backends", cat(backends.size()));
  write_fact(html, "Searches", cat(measured.sweeps.size()));
  html->close("dl");
}

void write_empty(HtmlWriter* html, const std::string& source) {
  html->open("div", {{"class", "empty"}});
  html->element(
      "p",
      "Nothing is recorded yet. To measure models and searches, and to add logs of trainings:");
  for (const std::string& command : {cat("lfarm check CASE... --record ", source),
                                     cat("lfarm submit MODEL.pt2 --record ", source),
                                     cat("lfarm-bench search --record ", source),
                                     cat("lfarm report import MEASUREMENTS.json --db ", source),
                                     cat("lfarm report import TRAINING.jsonl --db ", source)}) {
    html->open("p");
    html->element("code", command);
    html->close("p");
  }
  html->close("div");
}

void write_runs(HtmlWriter* html, const Runs& runs) {
  write_trainings(html, runs.trainings);
  write_validations(html, runs.validations);
  write_searches(html, runs.searches);
  write_plans(html, runs.plans);
  for (const std::string& why : runs.unread) {
    html->open("p", {{"class", "none"}});
    html->text("A log is left out: ");
    html->element("bdi", why);
    html->close("p");
  }
}

void begin_gate_row(HtmlWriter* html, bool passed) {
  html->line();
  html->open("tr");
  html->element("td", passed ? "pass" : "fail", {{"class", passed ? "pass" : "fail"}});
}

}  // namespace

void write_heading(HtmlWriter* html, const char* id, const char* heading, const char* what) {
  html->line();
  html->element("h2", heading, {{"id", id}});
  html->element("p", what, {{"class", "sub"}});
}

void begin_table(HtmlWriter* html, const std::string& caption,
                 const std::vector<std::string>& columns, size_t first_number, const char* look) {
  html->open("div",
             {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", caption}});
  html->open("table", {{"class", look}});
  html->element("caption", caption);
  html->open("thead");
  html->open("tr");
  for (size_t k = 0; k < columns.size(); ++k) {
    html->element("th", columns[k], {{"scope", "col"}, {"class", k >= first_number ? "num" : ""}});
  }
  html->close("thead");
  html->open("tbody");
}

void end_table(HtmlWriter* html) {
  html->close("div");
  html->line();
}

void write_gates(HtmlWriter* html, const Measured& measured, const std::vector<Gate>& gates) {
  write_heading(html, "gates", "Pass/fail gates",
                "Conditions that the measurements must meet: those of the command line, and those "
                "that were recorded with them.");
  auto kept = kept_gates(measured);
  if (gates.empty() && kept.empty()) {
    html->open("p", {{"class", "none"}});
    html->text("No gate is set. One is, for example, ");
    html->element("code", "--gate 'error_rel{backend=lfarm} <= 1e-3'");
    html->text(".");
    html->close("p");
    return;
  }
  begin_table(html, "Gates", {"Result", "Gate", "Met by", "Worst"}, 4, "gates");
  for (const Gate& gate : gates) {
    GateVerdict verdict = judge(gate, measured);
    begin_gate_row(html, verdict.passed);
    html->open("td");
    html->element("code", gate.text);
    html->close("td");
    if (verdict.asked == 0) {
      html->element("td", "nothing measured");
      html->element("td", "");
    } else {
      html->element("td", cat(verdict.met, " of ", verdict.asked), {{"class", "met"}});
      html->open("td", {{"class", "worst"}});
      bool is_error = gate.metric.compare(0, 5, "error") == 0;
      html->text(is_error ? common::error_text(verdict.worst) : number_text(verdict.worst));
      html->text(", ");
      html->element("bdi", verdict.where);
      html->close("td");
    }
    html->close("tr");
  }
  for (const auto& [name, gate] : kept) {
    begin_gate_row(html, gate.passed == gate.all);
    html->open("td");
    html->element("bdi", name);
    html->close("td");
    html->element("td", cat(gate.passed, " of ", gate.all), {{"class", "met"}});
    html->open("td");
    constexpr size_t kShown = 10;
    for (size_t k = 0; k < std::min(kShown, gate.failed.size()); ++k) {
      if (k > 0) html->empty("br");
      html->element("bdi", gate.failed[k]);
    }
    if (gate.failed.size() > kShown) {
      html->empty("br");
      html->text(cat("and ", gate.failed.size() - kShown, " more"));
    }
    html->close("td");
    html->close("tr");
  }
  end_table(html);
}

std::string report_page(const Measured& measured, const std::vector<Gate>& gates,
                        const std::string& source, const Runs& runs) {
  HtmlWriter html;
  begin_document(&html, kTitle);
  html.open("p", {{"class", "sub"}});
  std::string what = count_text(measured.records, "record", "records");
  size_t logs = runs.count();
  if (logs > 0) {
    std::string told = count_text(logs, "log of a run", "logs of runs");
    what = measured.records > 0 ? cat(what, " and ", told) : told;
  }
  html.text(cat(what, " of "));
  html.element("bdi", source);
  if (measured.records > 0) {
    std::string first = time_text(measured.first_ns), last = time_text(measured.last_ns);
    html.text(first == last ? cat(", ", last) : cat(", ", first, " to ", last));
  }
  html.close("p");
  if (measured.records == 0 && runs.empty()) write_empty(&html, source);
  if (measured.records > 0) write_summary(&html, measured, gates);
  // A page of runs alone has no sections that say how to measure.
  if (measured.records > 0 || runs.empty() || !gates.empty()) write_gates(&html, measured, gates);
  if (measured.records > 0 || runs.empty()) {
    write_latency(&html, measured);
    write_ratios(&html, measured);
    write_precision(&html, measured);
    write_sweeps(&html, measured);
  }
  write_runs(&html, runs);
  html.close("html");
  html.line();
  return html.take();
}

bool all_pass(const Measured& measured, const std::vector<Gate>& gates) {
  Tally counted = tally(measured, gates);
  return counted.passed == counted.all;
}

std::string time_text(int64_t at_ns) {
  auto seconds = static_cast<time_t>(at_ns / 1'000'000'000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[64];
  size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return std::string(text, length);
}

}  // namespace clients
