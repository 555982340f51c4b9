// lfarm cancel: stops a farm's job, or all of them.
#include <cstdio>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "clients/cli/access/list_pages.h"
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

std::vector<uint64_t> jobs_in(const nlohmann::ordered_json& list) {
  std::vector<uint64_t> jobs;
  for (const auto& row : list.value("jobs", nlohmann::ordered_json::array())) {
    jobs.push_back(static_cast<uint64_t>(integer_in(row, "job")));
  }
  return jobs;
}

// The jobs that were listed, none of which goes on. One that has ended since is no error: those
// that are left are listed again.
common::Result<std::vector<uint64_t>> cancel_listed(const FarmCoordinator& one) {
  constexpr int kTries = 10;
  std::vector<uint64_t> jobs;
  if (one.client == nullptr) return jobs;
  jobs = jobs_in(one.jobs);
  common::Status cancelled = one.client->cancel(jobs);
  for (int k = 1; k < kTries && !cancelled.ok(); ++k) {
    if (cancelled.error().code != common::Code::kInvalidInput) break;
    // It may answer what was asked before, that another one of the jobs is not there.
    auto list = whole_list(*one.client, common::StatusTopic::kJobs, {"jobs"});
    cancelled = list.ok() ? one.client->cancel(jobs_in(*list)) : list.error();
  }
  if (!cancelled.ok()) return cancelled.error();
  return jobs;
}

// At all coordinators at once. The first error is the answer, once all have answered.
common::Status cancel_all(const std::vector<FarmCoordinator>& coordinators) {
  using Cancelled = common::Result<std::vector<uint64_t>>;
  std::vector<std::future<Cancelled>> answers;
  for (const FarmCoordinator& one : coordinators) {
    answers.push_back(std::async(std::launch::async, [&one] { return cancel_listed(one); }));
  }
  size_t cancelled = 0;
  common::Status failed;
  for (std::future<Cancelled>& answer : answers) {
    Cancelled jobs = answer.get();
    if (!jobs.ok()) {
      if (failed.ok()) failed = jobs.error();
      continue;
    }
    for (uint64_t job : *jobs) {
      std::printf("job %llu is cancelled\n", static_cast<unsigned long long>(job));
      ++cancelled;
    }
  }
  if (!failed.ok()) return failed;
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
