// lfarm cancel: stops a farm's job, or all of them.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"

namespace clients {
namespace {

struct CancelOptions {
  FarmOptions farm;
  uint64_t job = 0;  // 0: none was named
  bool all = false;
};

// The jobs that run, of those that the farm tells this client of.
common::Result<std::vector<uint64_t>> running_jobs(FarmClient& client) {
  LFARM_ASSIGN_OR_RETURN(std::string text, client.status(common::StatusTopic::kJobs));
  auto json = nlohmann::json::parse(text, nullptr, false);
  auto rows = json.is_object() ? json.find("jobs") : json.end();
  if (rows == json.end() || !rows->is_array()) {
    return common::corrupt("the farm's list of jobs is none; use the same version on both sides");
  }
  std::vector<uint64_t> jobs;
  for (const auto& row : *rows) {
    if (int64_t id = integer_in(row, "job"); id > 0) jobs.push_back(static_cast<uint64_t>(id));
  }
  return jobs;
}

common::Status cancel(const CancelOptions& options) {
  if (options.all == (options.job != 0)) {
    return common::invalid_input("lfarm cancel takes a job's number or --all; see 'lfarm jobs'");
  }
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options.farm));
  std::vector<uint64_t> jobs{options.job};
  if (options.all) {
    LFARM_ASSIGN_OR_RETURN(jobs, running_jobs(*client));
    if (jobs.empty()) std::printf("no job runs\n");
  }
  for (uint64_t job : jobs) {
    LFARM_RETURN_IF_ERROR(client->cancel(job));
    std::printf("job %llu is cancelled\n", static_cast<unsigned long long>(job));
  }
  return {};
}

}  // namespace

void declare_cancel(CommandLine* line) {
  auto options = std::make_shared<CancelOptions>();
  Command command =
      line->add("cancel", "Stops a job, or all of them; what they measured stays in the cache.",
                [options] { return exit_code_of(cancel(*options)); });
  command.value("job", &options->job, "JOB", "The job's number (see 'lfarm jobs')");
  command.flag("--all", &options->all,
               "All jobs of this client's tenant; an administrator's, of all");
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
