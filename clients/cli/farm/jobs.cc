// lfarm jobs: a farm's jobs, those that run and, with --all, the latest that have ended.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "clients/cli/farm/farm_coordinators.h"
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

void add_row(const Json& row, const std::string& phase, bool of_several, Table* table) {
  double best = row.value("best_ns", 0.0), plain = row.value("baseline_ns", 0.0);
  std::vector<std::string> cells{cat(integer_in(row, "job")),
                                 row.value("name", ""),
                                 phase,
                                 row.value("graph", "").substr(0, 12),
                                 row.value("target", ""),
                                 cat(integer_in(row, "completed"), "/", integer_in(row, "budget")),
                                 best > 0 ? duration_text(best) : "-",
                                 plain > 0 ? duration_text(plain) : "-",
                                 duration_text(row.value("elapsed_ms", 0.0) * 1e6)};
  if (of_several) cells.push_back(row.value("coordinator", ""));
  table->row(std::move(cells));
}

void print_jobs(const Json& json, bool all) {
  std::vector<std::string> head{"job",        "name", "phase", "graph", "target",
                                "candidates", "best", "plain", "time"};
  const bool of_several = json.contains("coordinators");
  if (of_several) head.push_back("coordinator");
  Table table(std::move(head));
  const Json& jobs = json.at("jobs");
  // Farms before the one that tells of ended jobs say nothing.
  Json ended = json.value("ended", Json::array());
  if (all) {
    for (const Json& row : ended) add_row(row, row.value("state", ""), of_several, &table);
  }
  for (const Json& row : jobs) add_row(row, row.value("phase", ""), of_several, &table);
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

// The coordinators' answers as one; each row says whose it is.
Json merged(const std::vector<FarmCoordinator>& coordinators) {
  if (coordinators.size() == 1) return coordinators[0].jobs;
  Json all{{"jobs", Json::array()}, {"ended", Json::array()}, {"coordinators", Json::array()}};
  int64_t omitted = 0;
  for (const FarmCoordinator& one : coordinators) {
    Json facts{{"endpoint", one.endpoint}, {"shards", one.shards}};
    if (!one.asked.ok()) facts["error"] = one.asked.error().message;
    all["coordinators"].push_back(std::move(facts));
    for (const char* list : {"jobs", "ended"}) {
      for (Json row : one.jobs.value(list, Json::array())) {
        row["coordinator"] = one.endpoint;
        all[list].push_back(std::move(row));
      }
    }
    omitted += integer_in(one.jobs, "omitted");
  }
  if (omitted != 0) all["omitted"] = omitted;
  return all;
}

common::Status jobs(const JobsOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto coordinators, ask_coordinators(options.farm));
  Json json = merged(coordinators);
  if (options.json) {
    std::printf("%s\n", json.dump(-1, ' ', true, Json::error_handler_t::replace).c_str());
  } else {
    try {
      print_jobs(json, options.all);
    } catch (const Json::exception& error) {
      return common::corrupt(cat("the farm's list of jobs is damaged: ", error.what()));
    }
  }
  std::fflush(stdout);  // before the line on standard error
  return all_asked(coordinators);
}

}  // namespace

void declare_jobs(CommandLine* line) {
  auto options = std::make_shared<JobsOptions>();
  Command command =
      line->add("jobs", "Lists a farm's jobs.", [options] { return exit_code_of(jobs(*options)); });
  command.flag("--all", &options->all,
               "Also those that have ended, as far back as the farm remembers");
  add_status_options(&command, &options->farm, &options->json);
}

}  // namespace clients
