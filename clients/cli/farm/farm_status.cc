#include "clients/cli/farm/farm_status.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/base/plan_source.h"
#include "clients/cli/base/report.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using Json = nlohmann::ordered_json;

struct StatusOptions {
  FarmOptions farm;
  bool json = false;
};

common::Status show(const StatusOptions& options, common::StatusTopic topic, StatusPrinter print) {
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options.farm));
  LFARM_ASSIGN_OR_RETURN(std::string text, client->status(topic));
  if (options.json) {
    std::printf("%s\n", text.c_str());
    return {};
  }
  try {
    print(Json::parse(text), client->endpoint());
  } catch (const Json::exception& error) {
    return common::corrupt(common::cat("the farm's answer is no status: ", error.what(),
                                       "; use the same version on both sides"));
  }
  return {};
}

}  // namespace

void add_status_command(CommandLine* line, const char* name, const char* what,
                        common::StatusTopic topic, StatusPrinter print) {
  auto options = std::make_shared<StatusOptions>();
  Command command = line->add(
      name, what, [options, topic, print] { return exit_code_of(show(*options, topic, print)); });
  add_farm_options(&command, &options->farm);
  command.flag("--json", &options->json, "Print the farm's own JSON");
}

}  // namespace clients
