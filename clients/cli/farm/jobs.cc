// lfarm jobs: a farm's jobs.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "clients/cli/farm/farm_status.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

void print_jobs(const Json& json, const std::string& /*endpoint*/) {
  Table table(
      {"job", "name", "phase", "graph", "target", "candidates", "best", "plain", "running"});
  for (const Json& row : json.at("jobs")) {
    double best = row.value("best_ns", 0.0), plain = row.value("baseline_ns", 0.0);
    table.row({cat(integer_in(row, "job")), row.value("name", ""), row.value("phase", ""),
               row.value("graph", "").substr(0, 12), row.value("target", ""),
               cat(integer_in(row, "completed"), "/", integer_in(row, "budget")),
               best > 0 ? duration_text(best) : "-", plain > 0 ? duration_text(plain) : "-",
               duration_text(row.value("elapsed_ms", 0.0) * 1e6)});
  }
  table.print();
  if (int64_t omitted = integer_in(json, "omitted")) {
    std::printf("and %lld more\n", static_cast<long long>(omitted));
  }
  if (json.at("jobs").empty()) std::printf("no jobs\n");
}

}  // namespace

void declare_jobs(CommandLine* line) {
  add_status_command(line, "jobs", "Lists a farm's jobs.", common::StatusTopic::kJobs, print_jobs);
}

}  // namespace clients
