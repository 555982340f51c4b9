// lfarm jobs: a farm's jobs, those that run and, with --all, the latest that have ended.
#include <cstdio>
#include <memory>
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

struct JobsOptions {
  FarmOptions farm;
  bool all = false;
  bool json = false;
};

void add_row(const Json& row, const std::string& phase, Table* table) {
  double best = row.value("best_ns", 0.0), plain = row.value("baseline_ns", 0.0);
  table->row({cat(integer_in(row, "job")), row.value("name", ""), phase,
              row.value("graph", "").substr(0, 12), row.value("target", ""),
              cat(integer_in(row, "completed"), "/", integer_in(row, "budget")),
              best > 0 ? duration_text(best) : "-", plain > 0 ? duration_text(plain) : "-",
              duration_text(row.value("elapsed_ms", 0.0) * 1e6)});
}

void print_jobs(const Json& json, bool all) {
  Table table({"job", "name", "phase", "graph", "target", "candidates", "best", "plain", "time"});
  const Json& jobs = json.at("jobs");
  // Farms before the one that tells of ended jobs say nothing.
  Json ended = json.value("ended", Json::array());
  if (all) {
    for (const Json& row : ended) add_row(row, row.value("state", ""), &table);
  }
  for (const Json& row : jobs) add_row(row, row.value("phase", ""), &table);
  table.print();
  if (int64_t omitted = integer_in(json, "omitted")) {
    std::printf("and %lld more\n", static_cast<long long>(omitted));
  }
  if (!jobs.empty() || (all && !ended.empty())) return;
  if (ended.empty()) {
    std::printf("no jobs\n");
  } else {
    std::printf("no job runs; 'lfarm jobs --all' lists the latest %zu that have ended\n",
                ended.size());
  }
}

int jobs(const JobsOptions& options) {
  return exit_code_of(show_status(
      options.farm, common::StatusTopic::kJobs, options.json,
      [&](const Json& json, const std::string& /*endpoint*/) { print_jobs(json, options.all); }));
}

}  // namespace

void declare_jobs(CommandLine* line) {
  auto options = std::make_shared<JobsOptions>();
  Command command = line->add("jobs", "Lists a farm's jobs.", [options] { return jobs(*options); });
  command.flag("--all", &options->all,
               "Also those that have ended, as far back as the farm remembers");
  add_status_options(&command, &options->farm, &options->json);
}

}  // namespace clients
