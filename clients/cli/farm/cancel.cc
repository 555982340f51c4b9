// lfarm cancel: stops a farm's job, or all of them.
#include <cstdio>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"
#include "clients/cli/farm/farm_coordinators.h"

namespace clients {
namespace {

struct CancelOptions {
  FarmOptions farm;
  uint64_t job = 0;  // 0: none was named
  bool all = false;
};

std::vector<uint64_t> jobs_of(const FarmCoordinator& coordinator) {
  std::vector<uint64_t> jobs;
  for (const auto& row : coordinator.jobs.value("jobs", nlohmann::ordered_json::array())) {
    jobs.push_back(static_cast<uint64_t>(integer_in(row, "job")));
  }
  return jobs;
}

// At all coordinators at once. The first error is the answer, once all have answered.
common::Status cancel_all(const std::vector<FarmCoordinator>& coordinators) {
  std::vector<std::future<common::Status>> answers;
  for (const FarmCoordinator& one : coordinators) {
    answers.push_back(std::async(std::launch::async, [&one] {
      return one.client == nullptr ? common::Status() : one.client->cancel(jobs_of(one));
    }));
  }
  size_t cancelled = 0;
  common::Status failed;
  for (size_t k = 0; k < answers.size(); ++k) {
    common::Status status = answers[k].get();
    if (!status.ok()) {
      if (failed.ok()) failed = status;
      continue;
    }
    for (uint64_t job : jobs_of(coordinators[k])) {
      std::printf("job %llu is cancelled\n", static_cast<unsigned long long>(job));
      ++cancelled;
    }
  }
  LFARM_RETURN_IF_ERROR(failed);
  if (cancelled == 0) std::printf("no job runs\n");
  std::fflush(stdout);  // before the line on standard error
  return all_asked(coordinators);
}

common::Status cancel(const CancelOptions& options) {
  if (options.all == (options.job != 0)) {
    return common::invalid_input("lfarm cancel takes a job's number or --all; see 'lfarm jobs'");
  }
  LFARM_ASSIGN_OR_RETURN(auto coordinators, ask_coordinators(options.farm));
  if (options.all) return cancel_all(coordinators);
  LFARM_RETURN_IF_ERROR(ask_about_job(
      coordinators, options.job, [&](FarmClient& client) { return client.cancel(options.job); }));
  std::printf("job %llu is cancelled\n", static_cast<unsigned long long>(options.job));
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
