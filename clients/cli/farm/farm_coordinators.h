// All coordinators of a farm, for commands about what each of them has for itself: its jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/cli/access/plan_source.h"
#include "common/base/result.h"

namespace clients {

struct FarmCoordinator {
  std::string endpoint;
  std::vector<uint32_t> shards;        // that it holds
  std::unique_ptr<FarmClient> client;  // null where it could not be asked
  // Its answer to StatusTopic::kJobs; empty where it could not be asked.
  nlohmann::ordered_json jobs = nlohmann::ordered_json::object();
  common::Status asked;  // why it could not
};

// Asks the farm that the options name for its jobs, and all the coordinators that it names. One
// alone where a farm is not divided into shards. Errors are those of the first.
common::Result<std::vector<FarmCoordinator>> ask_coordinators(const FarmOptions& farm);

// kUnavailable with the names of those that could not be asked.
common::Status all_asked(const std::vector<FarmCoordinator>& coordinators);

// Calls `ask` for the coordinator that holds the job's shard, then for the others, until one of
// them knows the job. `ask` returns kInvalidInput where its coordinator does not know it.
common::Status ask_about_job(const std::vector<FarmCoordinator>& coordinators, uint64_t job,
                             const std::function<common::Status(FarmClient& client)>& ask);

}  // namespace clients
