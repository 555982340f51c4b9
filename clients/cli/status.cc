// lfarm status: how a farm is.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "clients/cli/commands.h"
#include "clients/cli/farm_status.h"
#include "clients/cli/table.h"

namespace clients {
namespace {

using Json = nlohmann::ordered_json;

void print_farm(const Json& json, const std::string& endpoint) {
  Table table({});
  table.row({"farm", endpoint});
  for (const auto& [name, value] : json.items()) {
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    table.row({label, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  table.print();
}

}  // namespace

void declare_status(CommandLine* line) {
  add_status_command(line, "status", "Says how a farm is: workers, jobs, clients.",
                     common::StatusTopic::kStatus, print_farm);
}

}  // namespace clients
