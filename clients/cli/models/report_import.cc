// lfarm report import: measurements of other programs, and logs of runs, among the records.
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/record_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/report/import.h"
#include "clients/report/logs/run_lines.h"
#include "clients/report/logs/runs.h"
#include "common/base/files.h"
#include "common/records/database.h"

namespace clients {
namespace {

struct ImportOptions {
  FarmOptions farm;  // only the state directory counts
  std::string file;
  std::string db;
};

common::Status import(const ImportOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(options.file, kImportBytesMax));
  std::string db = records_or_default(options.farm, options.db);
  if (begins_a_log(text)) {
    LFARM_ASSIGN_OR_RETURN(auto logs, import_logs(text, options.file, now_wall_ns()));
    LFARM_RETURN_IF_ERROR(common::append_logs(db, logs));
    std::printf("%zu %s added to %s\n", logs.size(), logs.size() == 1 ? "log" : "logs", db.c_str());
    return {};
  }
  LFARM_ASSIGN_OR_RETURN(auto records, parse_measurements(text, options.file, now_wall_ns()));
  LFARM_RETURN_IF_ERROR(common::append_records(db, records));
  std::printf("%zu records added to %s\n", records.size(), db.c_str());
  return {};
}

}  // namespace

void declare_report_import(CommandLine* line) {
  auto options = std::make_shared<ImportOptions>();
  Command command = line->add(
      "report import",
      "Adds measurements of other programs, or logs of trainings and validations, one JSON object\n"
      "a line (docs/measuring.md). A line that is wrong is named, and nothing is added.",
      [options] { return exit_code_of(import(*options)); });
  command.value("file", &options->file, "FILE.json", "The measurements or logs").required();
  command.value("--db", &options->db, "FILE.db",
                "The records to add them to (default: records.db in the state directory)");
  add_state_option(&command, &options->farm);
}

}  // namespace clients
