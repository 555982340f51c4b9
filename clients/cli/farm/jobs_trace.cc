// lfarm jobs trace: what a job's time went on.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"
#include "clients/cli/farm/farm_coordinators.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

struct TraceOptions {
  FarmOptions farm;
  uint64_t job = 0;
  std::string file;  // empty: standard output
};

// What of it a person learns without a viewer.
void print_summary(const Json& trace, const std::string& file) {
  size_t tasks = 0;
  double end_us = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == "candidate") ++tasks;
    if (event.value("cat", "") == "job") end_us = std::max(end_us, event.value("dur", 0.0));
  }
  int64_t dropped = integer_in(trace.at("otherData"), "rows_dropped");
  std::printf("%s: %zu candidates in %s", file.c_str(), tasks, duration_text(end_us * 1e3).c_str());
  if (dropped != 0) {
    std::printf(", without the %lld oldest rows", static_cast<long long>(dropped));
  }
  std::printf("; open it in ui.perfetto.dev or chrome://tracing\n");
}

common::Status trace(const TraceOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto coordinators, ask_coordinators(options.farm));
  std::string text;
  LFARM_RETURN_IF_ERROR(
      ask_about_job(coordinators, options.job, [&](FarmClient& client) -> common::Status {
        LFARM_ASSIGN_OR_RETURN(text, client.trace(options.job));
        return {};
      }));
  if (options.file.empty()) {
    std::printf("%s\n", text.c_str());
    return {};
  }
  LFARM_RETURN_IF_ERROR(common::write_file_atomic(options.file, common::as_bytes(text)));
  try {
    print_summary(Json::parse(text), options.file);
  } catch (const Json::exception& error) {
    return common::corrupt(cat("the farm's answer is no trace: ", error.what()));
  }
  return {};
}

}  // namespace

void declare_jobs_trace(CommandLine* line) {
  auto options = std::make_shared<TraceOptions>();
  Command command = line->add(
      "jobs trace",
      "Writes what a job's time went on, as a trace file for Perfetto or chrome://tracing:\n"
      "queue, leases, compiling, verifying, measuring, commits and rounds of the search.",
      [options] { return exit_code_of(trace(*options)); });
  command
      .value("job", &options->job, "JOB", "The job's number; those that ended lately are kept, too")
      .required();
  command.value("-o,--output", &options->file, "FILE", "The file to write; else standard output");
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
