// lfarm cache ls: the plans of a state directory, or of a farm.
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/farm_plans.h"
#include "clients/cli/access/list_pages.h"
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
  bool all = false;
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

// The plans of a state directory, the latest first; none where it has no store yet.
class StatePlans {
 public:
  static Result<StatePlans> open(const std::string& state) {
    auto cache = PlanCache::open({state});
    if (!cache.ok() && cache.error().code != common::Code::kUnavailable) return cache.error();
    StatePlans plans;
    if (cache.ok()) plans.cache_ = std::move(*cache);
    return plans;
  }

  Result<Json> page(const std::string& after) {
    if (!cache_) return Json{{"total", 0}, {"plans", Json::array()}};
    cache::Store& store = cache_->store();
    Json list{{"plans", Json::array()}};
    if (after.empty()) {
      LFARM_ASSIGN_OR_RETURN(cache::StoreStats stats, store.stats());
      list["total"] = stats.plans.count;
    }
    LFARM_ASSIGN_OR_RETURN(cache::PlanPage page, store.newest_plans(after, kPageRows));
    for (const cache::PlanListing& plan : page.plans) list["plans"].push_back(row_of(plan));
    if (!page.next.empty()) list["next"] = page.next;
    return list;
  }

 private:
  static Json row_of(const cache::PlanListing& plan) {
    return {{"plan", plan.facts.plan_id.hex()},
            {"place", plan.facts.key.hex()},
            {"graph_hash", plan.facts.graph_hash.hex()},
            {"best_ns", plan.facts.best_ns},
            {"bytes", plan.bytes},
            {"blobs", plan.needs},
            {"created_ns", plan.created_wall_ns},
            {"last_used_ns", plan.last_used_wall_ns}};
  }

  static constexpr size_t kPageRows = 1'000;  // as of a farm
  std::unique_ptr<PlanCache> cache_;
};

// Prints pages as they come.
class Printer {
 public:
  explicit Printer(bool json) : json_(json) {}

  void page(const Json& list) {
    const Json& plans = list["plans"];
    if (list.contains("total")) total_ = integer_in(list, "total");
    has_more_ = list.contains("next");
    if (json_) {
      for (const Json& plan : plans) {
        std::printf("%s%s", printed_++ == 0 ? "{\"plans\":[" : ",", plan.dump().c_str());
      }
      return;
    }
    for (const Json& plan : plans) add(plan);
    printed_ += static_cast<int64_t>(plans.size());
    table_.print();
  }

  void end(const std::string& where) const {
    // A client does not know how many plans of its tenant there are before it has seen all.
    const int64_t total = has_more_ ? total_ : printed_;
    if (json_) {
      if (printed_ == 0) std::printf("{\"plans\":[");
      std::string known = total >= printed_ ? cat(",\"total\":", total) : std::string();
      std::printf("]%s}\n", known.c_str());
    } else if (has_more_) {
      std::string more = total > printed_ ? cat(total - printed_, " more") : "more";
      std::printf("and %s; --all lists them\n", more.c_str());
    } else if (printed_ == 0) {
      std::printf("no plans in %s\n", where.c_str());
    }
  }

 private:
  void add(const Json& plan) {
    auto id = [&plan](const char* name) { return Digest::parse(text_of(plan[name]))->short_hex(); };
    auto number = [&plan](const char* name) { return integer_in(plan, name); };
    table_.row({id("plan"), id("graph_hash"), duration_text(static_cast<double>(number("best_ns"))),
                bytes_text(static_cast<double>(number("bytes"))), cat(number("blobs")),
                time_text(number("last_used_ns"))});
  }

  const bool json_;
  Table table_{{"plan", "graph", "best", "size", "blobs", "last used"}};
  int64_t printed_ = 0, total_ = 0;
  bool has_more_ = false;
};

Status list_plans(const ListOptions& options) {
  Printer printer(options.json);
  auto visit = [&](Json& page) {
    printer.page(page);
    return options.all;
  };
  const bool is_farms = !options.farm.farm.empty();
  if (is_farms) {
    LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options.farm));
    LFARM_RETURN_IF_ERROR(for_each_page(
        [&](const std::string& after) { return list_farm_plans(*client, {}, after); }, visit));
  } else {
    LFARM_ASSIGN_OR_RETURN(StatePlans plans, StatePlans::open(options.farm.state));
    LFARM_RETURN_IF_ERROR(
        for_each_page([&](const std::string& after) { return plans.page(after); }, visit));
  }
  printer.end(is_farms ? options.farm.farm : options.farm.state);
  return {};
}

}  // namespace

void declare_cache_ls(CommandLine* line) {
  auto options = std::make_shared<ListOptions>();
  Command command = line->add(
      "cache ls",
      "Lists the latest 1,000 plans of the state directory, those from a shared store among them,\n"
      "or of the farm that --farm names, of which a client sees its tenant's.",
      [options] { return exit_code_of(list_plans(*options)); });
  command.flag("--all", &options->all, "All plans, as they come");
  command.flag("--json", &options->json, "Print JSON");
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
