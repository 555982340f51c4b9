// lfarm workers: a farm's workers.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/table.h"
#include "clients/cli/farm/farm_status.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

void print_workers(const Json& json, const std::string& /*endpoint*/) {
  Table table({"worker", "target", "machine", "tasks", "done", "seen", "state"});
  for (const Json& row : json.at("workers")) {
    table.row({row.value("worker", ""), row.value("target", ""), row.value("machine", ""),
               cat(integer_in(row, "tasks")), cat(integer_in(row, "tasks_done")),
               cat(integer_in(row, "seen_ms_ago"), " ms ago"),
               row.value("suspended", false) ? "suspended" : "well"});
  }
  table.print();
  if (json.at("workers").empty()) std::printf("no workers\n");
}

}  // namespace

void declare_workers(CommandLine* line) {
  add_status_command(line, "workers", "Lists a farm's workers.", common::StatusTopic::kWorkers,
                     "workers", print_workers);
}

}  // namespace clients
