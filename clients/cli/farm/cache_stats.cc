// lfarm cache stats: what the cache holds, asked of a farm or, where none runs, of the store's
// files.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/access/list_pages.h"
#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "clients/runtime/farm/farm_access.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;
using Json = nlohmann::ordered_json;

struct StatsOptions {
  FarmOptions farm;
  bool json = false;
};

// What a farm answers with. A state directory without a store is an empty cache.
Result<Json> local_stats(const StateDirectory& state) {
  cache::StoreStats stats;
  auto cache = PlanCache::open(state);
  if (!cache.ok() && cache.error().code != common::Code::kUnavailable) return cache.error();
  if (cache.ok()) {
    LFARM_ASSIGN_OR_RETURN(stats, (*cache)->store().stats());
  }
  Json json;
  for (const cache::StatsField& field : cache::fields(stats)) {
    if (auto* family = std::get_if<cache::FamilyStats>(&field.value)) {
      json[field.name] = {{"count", family->count}, {"bytes", family->bytes}};
    } else {
      json[field.name] = std::get<uint64_t>(field.value);
    }
  }
  return json;
}

Result<Json> farm_stats(const FarmOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options));
  return whole_list(*client, common::StatusTopic::kCache, {"tenants", "requests"});
}

void print_stats(const Json& stats) {
  Table table({});
  for (const auto& [name, value] : stats.items()) {
    if (name == "tenants") {
      for (const auto& [tenant, usage] : value.items()) {
        table.row({cat("hits of ", tenant), cat(integer_in(usage, "hits")),
                   cat("saved ", duration_text(usage.value("saved_ms", 0.0) * 1e6))});
      }
    } else if (name == "requests" && value.is_object()) {
      for (const auto& [tenant, results] : value.items()) {
        for (const auto& [result, count] : results.items()) {
          table.row({cat("asked by ", tenant, ": ", result), text_of(count), ""});
        }
      }
    } else if (name == "remote" && value.is_object()) {
      for (const auto& [field, count] : value.items()) {
        table.row({cat("remote ", field), text_of(count)});
      }
    } else if (value.is_object()) {
      table.row({name, cat(integer_in(value, "count")), bytes_text(value.value("bytes", 0.0))});
    } else if (name == "disk_bytes") {
      table.row({"on disk", bytes_text(value.get<double>())});
    } else if (name == "saved_ms") {
      table.row({"saved", duration_text(value.get<double>() * 1e6)});
    } else {
      table.row({name, text_of(value)});
    }
  }
  table.print();
}

Status show_stats(const StatsOptions& options) {
  // What a farm counts is on the disk only later.
  StateDirectory state{options.farm.state};
  bool has_farm = !options.farm.farm.empty() || !running_farm(state).empty();
  auto stats = has_farm ? farm_stats(options.farm) : local_stats(state);
  if (!stats.ok()) return stats.error();
  if (options.json) {
    std::printf("%s\n", stats->dump().c_str());
    return {};
  }
  try {
    print_stats(*stats);
  } catch (const Json::exception& error) {
    return common::corrupt(cat("the farm's answer is no status: ", error.what(),
                               "; use the same version on both sides"));
  }
  return {};
}

}  // namespace

void declare_cache_stats(CommandLine* line) {
  auto options = std::make_shared<StatsOptions>();
  Command command = line->add(
      "cache stats",
      "Counts what the cache holds and what it has saved: asked of the farm that --farm names or\n"
      "that runs on the state directory, else read from the files that it left there.",
      [options] { return exit_code_of(show_stats(*options)); });
  command.flag("--json", &options->json, "Print JSON");
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
