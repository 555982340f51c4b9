#include "clients/cli/farm/farm_coordinators.h"

#include <algorithm>
#include <future>
#include <utility>

#include "clients/cli/access/list_pages.h"
#include "common/base/cat.h"
#include "common/shard/shard.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;
using Json = nlohmann::ordered_json;

common::Error no_list() {
  return common::corrupt("the farm's list of jobs is none; use the same version on both sides");
}

Status connect(const FarmOptions& farm, FarmCoordinator* to) {
  LFARM_ASSIGN_OR_RETURN(to->client, connect_to_farm(farm));
  auto jobs = whole_list(*to->client, common::StatusTopic::kJobs, {"jobs"});
  if (jobs.ok() && (!jobs->contains("jobs") || !jobs->at("jobs").is_array())) jobs = no_list();
  if (!jobs.ok()) {
    to->client.reset();
    return jobs.error();
  }
  to->jobs = *std::move(jobs);
  return {};
}

}  // namespace

Result<std::vector<FarmCoordinator>> ask_coordinators(const FarmOptions& farm) {
  std::vector<FarmCoordinator> all(1);
  LFARM_RETURN_IF_ERROR(connect(farm, &all[0]));
  all[0].endpoint = all[0].client->endpoint();
  Json named = all[0].jobs.value("coordinators", Json::array());
  all[0].jobs.erase("coordinators");
  std::vector<std::string> keys;
  try {
    for (size_t k = 0; k < named.size(); ++k) {
      if (k != 0) all.emplace_back();
      FarmCoordinator& one = all.back();
      one.endpoint = named[k].at("endpoint");
      one.shards = named[k].at("shards").get<std::vector<uint32_t>>();
      keys.push_back(named[k].at("server_key"));
    }
  } catch (const Json::exception&) {
    return no_list();
  }
  // One that is away is waited for beside the others.
  std::vector<std::future<void>> asked;
  for (size_t k = 1; k < all.size(); ++k) {
    FarmOptions its = farm;
    its.farm = all[k].endpoint;
    its.server_key = keys[k];
    asked.push_back(std::async(std::launch::async, [its = std::move(its), &one = all[k]] {
      one.asked = connect(its, &one);
      if (one.asked.ok()) one.jobs.erase("coordinators");
    }));
  }
  for (std::future<void>& one : asked) one.get();
  return all;
}

Status all_asked(const std::vector<FarmCoordinator>& coordinators) {
  std::string missing;
  for (const FarmCoordinator& one : coordinators) {
    if (one.asked.ok()) continue;
    missing += cat(missing.empty() ? "" : "; ", one.endpoint, ": ", one.asked.error().message);
  }
  if (missing.empty()) return {};
  return common::unavailable(cat("not all of the farm's coordinators could be asked: ", missing));
}

Status ask_about_job(const std::vector<FarmCoordinator>& coordinators, uint64_t job,
                     const std::function<Status(FarmClient& client)>& ask) {
  std::vector<const FarmCoordinator*> order;
  for (const FarmCoordinator& one : coordinators) order.push_back(&one);
  std::stable_partition(order.begin(), order.end(), [job](const FarmCoordinator* one) {
    return std::count(one->shards.begin(), one->shards.end(), common::shard_of_job(job)) != 0;
  });
  Status last;
  for (const FarmCoordinator* one : order) {
    if (one->client == nullptr) continue;
    last = ask(*one->client);
    if (last.ok() || last.error().code != common::Code::kInvalidInput) return last;
  }
  // One that was not asked may have it.
  LFARM_RETURN_IF_ERROR(all_asked(coordinators));
  return last;
}

}  // namespace clients
