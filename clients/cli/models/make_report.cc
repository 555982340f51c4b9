// lfarm report: records of benchmarks and searches as one HTML file.
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/record_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/report/bundle.h"
#include "clients/report/llm/llm_curves.h"
#include "clients/report/llm/llm_image.h"
#include "clients/report/llm/llm_page.h"
#include "clients/report/llm/llm_series.h"
#include "clients/report/page.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/records/database.h"

namespace clients {
namespace {

using common::cat;
using common::Result;

struct ReportOptions {
  FarmOptions farm;  // only the state directory counts
  std::string db;
  std::string output = "report.html";
  std::vector<std::string> gates;
  std::string gate_file;
  std::string llm, png;  // folders
  bool json = false;
};

Result<std::vector<Gate>> gates_of(const ReportOptions& options) {
  std::vector<Gate> gates;
  if (!options.gate_file.empty()) {
    constexpr size_t kGateFileMax = 1 << 20;
    LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(options.gate_file, kGateFileMax));
    LFARM_ASSIGN_OR_RETURN(gates, parse_gate_file(text, options.gate_file));
  }
  for (const std::string& text : options.gates) {
    LFARM_ASSIGN_OR_RETURN(Gate gate, parse_gate(text));
    gates.push_back(std::move(gate));
  }
  return gates;
}

common::Status make_report(const ReportOptions& options, bool* passed) {
  LFARM_ASSIGN_OR_RETURN(std::vector<Gate> gates, gates_of(options));
  using common::RecordDatabase;
  std::string db = records_or_default(options.farm, options.db);
  LFARM_ASSIGN_OR_RETURN(RecordDatabase database,
                         RecordDatabase::open(db, RecordDatabase::Access::kRead));
  LFARM_ASSIGN_OR_RETURN(std::vector<common::Record> records, database.read_all());
  LFARM_ASSIGN_OR_RETURN(std::vector<common::RunLog> logs, database.read_latest_logs());
  Measured measured = summarise(records);
  Runs runs = read_runs(logs);
  *passed = all_pass(measured, gates);
  if (options.json) {
    std::printf("%s\n", report_json(measured, gates, db, runs).c_str());
    return {};
  }
  std::string page = report_page(measured, gates, db, runs);
  LFARM_RETURN_IF_ERROR(common::write_file_atomic(options.output, common::as_bytes(page)));
  for (const Gate& gate : gates) {
    GateVerdict verdict = judge(gate, measured);
    std::string what = verdict.asked == 0 ? "nothing measured"
                                          : cat(verdict.met, " of ", verdict.asked, ", worst ",
                                                verdict.worst, ", ", verdict.where);
    std::printf("%s  %s: %s\n", verdict.passed ? "pass" : "FAIL", gate.text.c_str(), what.c_str());
  }
  std::string also = logs.empty() ? "" : cat(" and ", logs.size(), " logs of runs");
  std::printf("%s: %zu records%s%s\n", options.output.c_str(), records.size(), also.c_str(),
              *passed ? "" : "; not all gates pass");
  return {};
}

// Figures without values, such as the history of one run, have no picture.
common::Status write_pictures(const std::string& folder, const std::vector<LlmRun>& runs,
                              const std::vector<LlmSeries>& all) {
  LFARM_RETURN_IF_ERROR(common::make_directories(folder));
  auto path = [&](const char* name) { return cat(folder, "/", name, ".png"); };
  constexpr const char* kNames[] = {"ttft", "tpot", "plan"};
  for (LlmFigure figure : kLlmFigures) {
    LFARM_RETURN_IF_ERROR(write_png(bars_svg(title_of(figure), bars_of(runs.back(), figure)),
                                    path(kNames[static_cast<size_t>(figure)])));
  }
  if (const auto plots = budget_plots(runs); !plots.empty()) {
    LFARM_RETURN_IF_ERROR(write_png(curves_svg(cat(kBudgetTitle, ", over the best"), "candidates",
                                               Axis::Kind::kLogarithmic, plots),
                                    path("budgets")));
  }
  const auto plots = history_plots(runs, all);
  if (plots.empty()) return {};
  return write_png(
      curves_svg(cat(kHistoryTitle, ", ms of each other token"), "run", Axis::Kind::kLinear, plots),
      path("history"));
}

// Of runs of `lfarm-bench llm`.
common::Status make_llm_report(const ReportOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::vector<LlmRun> runs, read_llm_runs(options.llm));
  if (options.json) {
    std::printf("%s\n", llm_json(runs).c_str());
    return {};
  }
  std::string page = llm_page(runs, options.llm);
  LFARM_RETURN_IF_ERROR(common::write_file_atomic(options.output, common::as_bytes(page)));
  const std::vector<LlmSeries> all = llm_series(runs);
  if (!options.png.empty() && !runs.empty()) {
    LFARM_RETURN_IF_ERROR(write_pictures(options.png, runs, all));
  }
  for (const LlmSeries& one : all) {
    for (const auto& [ratio, what] :
         {std::pair{one.ttft_slower, "first token"}, {one.tpot_slower, "each other token"}}) {
      if (ratio > 0) {
        std::printf("slower  %s: %s %.2f times as long\n", words_of(one).c_str(), what, ratio);
      }
    }
  }
  std::printf("%s: %zu run%s\n", options.output.c_str(), runs.size(), runs.size() == 1 ? "" : "s");
  return {};
}

int report(const ReportOptions& options) {
  if (!options.llm.empty()) return exit_code_of(make_llm_report(options));
  if (!options.png.empty()) {
    return fail(common::invalid_input("--png draws the figures of --llm; name its folder, too"));
  }
  bool passed = false;
  common::Status made = make_report(options, &passed);
  if (!made.ok()) return fail(made.error());
  return passed ? kExitDone : kExitFailed;
}

}  // namespace

void declare_report(CommandLine* line) {
  auto options = std::make_shared<ReportOptions>();
  Command command = line->add(
      "report",
      "Turns records of benchmarks, searches and trainings into one HTML file that needs nothing\n"
      "else.\n"
      "Exits with 1 when a gate does not hold, or one that whoever measured had set.",
      [options] { return report(*options); });
  command.value("--db", &options->db, "FILE.db",
                "The records (default: records.db in the state directory); see --record of check\n"
                "and submit");
  command.value("-o,--output", &options->output, "FILE.html", "The file to write").shows_default();
  command.value("--llm", &options->llm, "FOLDER",
                "Instead of records: the runs that 'lfarm-bench llm --out FOLDER' kept, as bars by "
                "way, quality over candidates and history, with what became slower");
  command.value(
      "--png", &options->png, "DIR",
      "With --llm: also write its figures as pictures: ttft.png, tpot.png and plan.png, and\n"
      "budgets.png and history.png where runs have them (needs rsvg-convert)");
  command.flag("--json", &options->json,
               "Print all data behind the page as one JSON object, and write no page");
  command.value("--gate", &options->gates, "CONDITION",
                "What must hold, such as 'error_rel{backend=lfarm} <= 1e-3'; may come again");
  command.value("--gates", &options->gate_file, "FILE", "Conditions, one a line");
  add_state_option(&command, &options->farm);
}

}  // namespace clients
