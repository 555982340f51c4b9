// lfarm cache ls: the plans of a state directory, or of a farm.
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/farm_plans.h"
#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;
using Json = nlohmann::ordered_json;

struct ListOptions {
  FarmOptions farm;
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

Result<Json> list_here(const FarmOptions& farm) {
  std::vector<cache::PlanListing> plans;
  auto cache = PlanCache::open({farm.state});
  if (!cache.ok() && cache.error().code != common::Code::kUnavailable) return cache.error();
  if (cache.ok()) {
    LFARM_ASSIGN_OR_RETURN(plans, (*cache)->store().list_plans());
  }
  Json rows = Json::array();
  for (const cache::PlanListing& plan : plans) {
    rows.push_back({{"plan", plan.facts.plan_id.hex()},
                    {"place", plan.facts.key.hex()},
                    {"graph_hash", plan.facts.graph_hash.hex()},
                    {"best_ns", plan.facts.best_ns},
                    {"bytes", plan.bytes},
                    {"blobs", plan.needs},
                    {"created_ns", plan.created_wall_ns},
                    {"last_used_ns", plan.last_used_wall_ns}});
  }
  return Json{{"plans", std::move(rows)}};
}

Result<Json> list_there(const FarmOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options));
  return list_farm_plans(*client, {});
}

Status list_plans(const ListOptions& options) {
  bool is_farms = !options.farm.farm.empty();
  LFARM_ASSIGN_OR_RETURN(Json list, is_farms ? list_there(options.farm) : list_here(options.farm));
  const Json& plans = list["plans"];
  if (options.json) {
    std::printf("%s\n", list.dump().c_str());
    return {};
  }
  Table table({"plan", "graph", "best", "size", "blobs", "last used"});
  for (const Json& plan : plans) {
    auto id = [&plan](const char* name) { return Digest::parse(text_of(plan[name]))->short_hex(); };
    auto number = [&plan](const char* name) { return integer_in(plan, name); };
    table.row({id("plan"), id("graph_hash"), duration_text(static_cast<double>(number("best_ns"))),
               bytes_text(static_cast<double>(number("bytes"))), cat(number("blobs")),
               time_text(number("last_used_ns"))});
  }
  table.print();
  const std::string& where = is_farms ? options.farm.farm : options.farm.state;
  if (plans.empty()) std::printf("no plans in %s\n", where.c_str());
  int64_t more = integer_in(list, "total") - static_cast<int64_t>(plans.size());
  if (more > 0) std::printf("and %lld more\n", static_cast<long long>(more));
  if (more <= 0 && list.contains("next")) std::printf("and more\n");
  return {};
}

}  // namespace

void declare_cache_ls(CommandLine* line) {
  auto options = std::make_shared<ListOptions>();
  Command command = line->add(
      "cache ls",
      "Lists the plans of the state directory, those from a shared store among them, or those of\n"
      "the farm that --farm names, of which a client sees its tenant's.",
      [options] { return exit_code_of(list_plans(*options)); });
  command.flag("--json", &options->json, "Print JSON");
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
