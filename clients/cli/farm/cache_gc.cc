// lfarm cache gc: makes a store smaller.
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/store/store.h"
#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/plan_cache.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/runtime/farm/state_directory.h"

namespace clients {
namespace {

using common::Status;
using Json = nlohmann::ordered_json;

struct CollectOptions {
  FarmOptions farm;       // only the state directory counts
  int64_t max_bytes = 0;  // 0: no limit
  bool json = false;
};

Status collect(const CollectOptions& options) {
  StateDirectory state{options.farm.state};
  LFARM_ASSIGN_OR_RETURN(auto store, cache::Store::open(state.store(), writer_options()));
  uint64_t max_bytes = options.max_bytes > 0 ? static_cast<uint64_t>(options.max_bytes)
                                             : std::numeric_limits<uint64_t>::max();
  LFARM_ASSIGN_OR_RETURN(cache::CollectReport report, store->gc(max_bytes));
  if (options.json) {
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

void declare_cache_gc(CommandLine* line) {
  auto options = std::make_shared<CollectOptions>();
  Command command = line->add(
      "cache gc",
      "Removes what no plan needs, then the plans used longest ago until the rest fits. No farm\n"
      "may run on the state directory. A shared store is its server's to bound.",
      [options] { return exit_code_of(collect(*options)); });
  command.flag("--json", &options->json, "Print JSON");
  add_state_option(&command, &options->farm);
  command
      .value("--max-bytes", &options->max_bytes, "BYTES",
             "Keep at most this much (default: no limit)")
      .in_range(int64_t{1}, std::numeric_limits<int64_t>::max());
}

}  // namespace clients
