// lfarm status: how a farm is.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/json_fields.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "clients/cli/farm/farm_status.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using Json = nlohmann::ordered_json;

void print_farm(const Json& json, const std::string& endpoint) {
  Table table({});
  table.row({"farm", endpoint});
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) continue;
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    table.row({label, text_of(value)});
  }
  table.print();
  auto tenants = json.find("tenants");
  if (tenants == json.end() || tenants->empty()) return;
  Table rows({"tenant", "workers' time in 24 h", "quota", "hits", "saved"});
  for (const auto& [name, usage] : tenants->items()) {
    int64_t quota_s = integer_in(usage, "quota_s");
    rows.row({name, duration_text(usage.value("used_24h_ms", 0.0) * 1e6),
              quota_s == 0 ? "none" : duration_text(static_cast<double>(quota_s) * 1e9),
              common::cat(integer_in(usage, "hits")),
              duration_text(usage.value("saved_ms", 0.0) * 1e6)});
  }
  rows.print();
}

}  // namespace

void declare_status(CommandLine* line) {
  add_status_command(line, "status", "Says how a farm is: workers, jobs, clients.",
                     common::StatusTopic::kStatus, "tenants", print_farm);
}

}  // namespace clients
