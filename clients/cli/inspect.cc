// lfarm plan show, lfarm cache: looks into the cache, through a farm or straight into its files.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "clients/cli/commands.h"
#include "clients/cli/plan_cache.h"
#include "clients/cli/plan_source.h"
#include "clients/cli/report.h"
#include "clients/cli/table.h"
#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/ir/graph_hash.h"
#include "common/runtime/cpu_device.h"
#include "common/wire/ir_codec.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;
using Json = nlohmann::ordered_json;

std::string time_text(int64_t wall_ns) {
  auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm parts{};
  char text[64];
  if (localtime_r(&seconds, &parts) == nullptr) return "-";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

bool is_hexadecimal(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

common::Error not_cached(const std::string& what) {
  return common::invalid_input(cat("no plan for ", what, " is cached; 'lfarm cache ls' lists all"));
}

Result<common::Plan> plan_of_model(const PlanShowCommand& command) {
  const FarmOptions& options = command.farm;
  const std::string& path = command.what;
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(path));
  common::PlanKey key{common::graph_hash(model.graph), common::host_cpu_target(), command.numerics,
                      std::string(common::kCompilerEpoch)};
  std::optional<PulledPlan> found;
  if (!options.farm.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options));
    key.epoch = client->compiler_epoch();
    LFARM_ASSIGN_OR_RETURN(found, client->pull(key));
  } else {
    LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.state}));
    LFARM_ASSIGN_OR_RETURN(found, cache->find(key));
  }
  if (!found) return not_cached(path);
  return std::move(found->plan);
}

// From a farm elsewhere a plan can only be had by its full id.
Result<common::Plan> plan_of_farm(const FarmOptions& options, const std::string& id) {
  auto digest = common::Digest::parse(id);
  if (!digest) {
    return common::invalid_input(cat("a farm finds plans by their full id of 64 digits, not '", id,
                                     "'; 'lfarm submit' prints it"));
  }
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options));
  LFARM_ASSIGN_OR_RETURN(auto blob, client->blob(*digest));
  if (!blob) return not_cached(id);
  LFARM_ASSIGN_OR_RETURN(common::SignedPlan outer, common::decode_signed_plan(blob->bytes));
  LFARM_RETURN_IF_ERROR(common::check_signature(outer, client->signing_key()));
  return common::decode_plan(outer.bytes);
}

Result<common::Plan> plan_of_id(const FarmOptions& options, const std::string& id) {
  if (!options.farm.empty()) return plan_of_farm(options, id);
  LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.state}));
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::PlanListing> found, cache->find_by_id(id));
  if (found.empty()) return not_cached(id);
  if (found.size() > 1) {
    return common::invalid_input(
        cat(found.size(), " plans begin with ", id, "; give more digits of one"));
  }
  return cache->read(found[0]);
}

Result<common::Plan> find_plan(const PlanShowCommand& command) {
  std::error_code ignored;
  if (std::filesystem::exists(command.what, ignored)) {
    return plan_of_model(command);
  }
  if (is_hexadecimal(command.what)) return plan_of_id(command.farm, command.what);
  return common::invalid_input(
      cat("'", command.what, "' is neither a file nor the hexadecimal id of a plan"));
}

Json family_json(const cache::FamilyStats& family) {
  return Json{{"count", family.count}, {"bytes", family.bytes}};
}

// The same fields that a farm answers with. A state directory without a store is an empty cache.
Result<Json> local_stats(const StateDirectory& state) {
  cache::StoreStats stats;
  auto cache = PlanCache::open(state);
  if (!cache.ok() && cache.error().code != common::Code::kUnavailable) return cache.error();
  if (cache.ok()) {
    LFARM_ASSIGN_OR_RETURN(stats, (*cache)->store().stats());
  }
  return Json{{"plans", family_json(stats.plans)},
              {"kernels", family_json(stats.kernels)},
              {"measurements", family_json(stats.measurements)},
              {"negatives", family_json(stats.negatives)},
              {"jobs", family_json(stats.jobs)},
              {"hits", stats.hits},
              {"misses", stats.misses},
              {"saved_ms", stats.saved_ms},
              {"disk_bytes", stats.disk_bytes}};
}

Result<Json> farm_stats(const FarmOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options));
  LFARM_ASSIGN_OR_RETURN(std::string text, client->status(common::StatusTopic::kCache));
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return common::corrupt("the farm's answer is no status");
  return json;
}

Status show_stats(const CacheCommand& command) {
  auto stats =
      command.farm.farm.empty() ? local_stats({command.farm.state}) : farm_stats(command.farm);
  if (!stats.ok()) return stats.error();
  if (command.json) {
    std::printf("%s\n", stats->dump().c_str());
    return {};
  }
  Table table({});
  for (const auto& [name, value] : stats->items()) {
    if (value.is_object()) {
      table.row(
          {name, cat(value.value("count", uint64_t{0})), bytes_text(value.value("bytes", 0.0))});
    } else if (name == "disk_bytes") {
      table.row({"on disk", bytes_text(value.get<double>())});
    } else if (name == "saved_ms") {
      table.row({"saved", duration_text(value.get<double>() * 1e6)});
    } else {
      table.row({name, value.dump()});
    }
  }
  table.print();
  return {};
}

Status list_plans(const CacheCommand& command) {
  std::vector<cache::PlanListing> plans;
  auto cache = PlanCache::open({command.farm.state});
  if (!cache.ok() && cache.error().code != common::Code::kUnavailable) return cache.error();
  if (cache.ok()) {
    LFARM_ASSIGN_OR_RETURN(plans, (*cache)->store().list_plans());
  }
  Json rows = Json::array();
  Table table({"plan", "graph", "best", "size", "kernels", "last used"});
  for (const cache::PlanListing& plan : plans) {
    rows.push_back({{"plan", plan.facts.plan_id.hex()},
                    {"plan_key", plan.facts.key.hex()},
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
  if (command.json) {
    std::printf("%s\n", Json{{"plans", std::move(rows)}}.dump().c_str());
    return {};
  }
  table.print();
  if (plans.empty()) std::printf("no plans in %s\n", command.farm.state.c_str());
  return {};
}

Status collect(const CacheCommand& command) {
  StateDirectory state{command.farm.state};
  LFARM_ASSIGN_OR_RETURN(auto store, cache::Store::open(state.store()));
  uint64_t max_bytes = command.max_bytes > 0 ? static_cast<uint64_t>(command.max_bytes)
                                             : std::numeric_limits<uint64_t>::max();
  LFARM_ASSIGN_OR_RETURN(cache::CollectReport report, store->gc(max_bytes));
  if (command.json) {
    Json json{{"plans_removed", report.plans_removed},
              {"blobs_removed", report.blobs_removed},
              {"bytes_removed", report.bytes_removed},
              {"bytes_kept", report.bytes_kept}};
    std::printf("%s\n", json.dump().c_str());
    return {};
  }
  std::printf("removed %llu plans and %llu blobs, %s; kept %s\n",
              static_cast<unsigned long long>(report.plans_removed),
              static_cast<unsigned long long>(report.blobs_removed),
              bytes_text(static_cast<double>(report.bytes_removed)).c_str(),
              bytes_text(static_cast<double>(report.bytes_kept)).c_str());
  return {};
}

}  // namespace

int plan_show(const PlanShowCommand& command) {
  auto plan = find_plan(command);
  if (!plan.ok()) return fail(plan.error());
  std::string text = command.predicted ? common::print_predictions(*plan) : common::print(*plan);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitDone;
}

int cache_command(const CacheCommand& command) {
  Status status = command.action == "gc"   ? collect(command)
                  : command.action == "ls" ? list_plans(command)
                                           : show_stats(command);
  return status.ok() ? kExitDone : fail(status.error());
}

}  // namespace clients
