// lfarm jobs: a farm's jobs.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/commands.h"
#include "clients/cli/farm_status.h"
#include "clients/cli/report.h"
#include "clients/cli/table.h"
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
    table.row({cat(row.value("job", uint64_t{0})), row.value("name", ""), row.value("phase", ""),
               row.value("graph", "").substr(0, 12), row.value("target", ""),
               cat(row.value("completed", 0), "/", row.value("budget", 0)),
               best > 0 ? duration_text(best) : "-", plain > 0 ? duration_text(plain) : "-",
               duration_text(row.value("elapsed_ms", 0.0) * 1e6)});
  }
  table.print();
  if (uint64_t omitted = json.value("omitted", uint64_t{0})) {
    std::printf("and %llu more\n", static_cast<unsigned long long>(omitted));
  }
  if (json.at("jobs").empty()) std::printf("no jobs\n");
}

}  // namespace

void declare_jobs(CommandLine* line) {
  add_status_command(line, "jobs", "Lists a farm's jobs.", common::StatusTopic::kJobs, print_jobs);
}

}  // namespace clients
