// lfarm cache ls: the plans of a state directory.
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/plan_cache.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Status;
using Json = nlohmann::ordered_json;

struct ListOptions {
  FarmOptions farm;  // only the state directory counts
  bool json = false;
};

std::string time_text(int64_t wall_ns) {
  auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm parts{};
  char text[64];
  if (localtime_r(&seconds, &parts) == nullptr) return "-";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

Status list_plans(const ListOptions& options) {
  std::vector<cache::PlanListing> plans;
  auto cache = PlanCache::open({options.farm.state});
  if (!cache.ok() && cache.error().code != common::Code::kUnavailable) return cache.error();
  if (cache.ok()) {
    LFARM_ASSIGN_OR_RETURN(plans, (*cache)->store().list_plans());
  }
  Json rows = Json::array();
  Table table({"plan", "graph", "best", "size", "blobs", "last used"});
  for (const cache::PlanListing& plan : plans) {
    rows.push_back({{"plan", plan.facts.plan_id.hex()},
                    {"place", plan.facts.key.hex()},
                    {"graph_hash", plan.facts.graph_hash.hex()},
                    {"best_ns", plan.facts.best_ns},
                    {"bytes", plan.bytes},
                    {"blobs", plan.needs},
                    {"created_ns", plan.created_wall_ns},
                    {"last_used_ns", plan.last_used_wall_ns}});
    table.row({plan.facts.plan_id.short_hex(), plan.facts.graph_hash.short_hex(),
               duration_text(static_cast<double>(plan.facts.best_ns)),
               bytes_text(static_cast<double>(plan.bytes)), cat(plan.needs),
               time_text(plan.last_used_wall_ns)});
  }
  if (options.json) {
    std::printf("%s\n", Json{{"plans", std::move(rows)}}.dump().c_str());
    return {};
  }
  table.print();
  if (plans.empty()) std::printf("no plans in %s\n", options.farm.state.c_str());
  return {};
}

}  // namespace

void declare_cache_ls(CommandLine* line) {
  auto options = std::make_shared<ListOptions>();
  Command command = line->add(
      "cache ls", "Lists the plans of the state directory, those from a shared store among them.",
      [options] { return exit_code_of(list_plans(*options)); });
  command.flag("--json", &options->json, "Print JSON");
  add_state_option(&command, &options->farm);
}

}  // namespace clients
