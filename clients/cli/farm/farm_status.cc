#include "clients/cli/farm/farm_status.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/access/list_pages.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/report.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using Json = nlohmann::ordered_json;

struct StatusOptions {
  FarmOptions farm;
  bool json = false;
};

// Asks the farm for what it says on `topic`, with all pages of its `list`
// (clients/cli/access/list_pages.h), and prints that, or with `json` the answer itself.
common::Status show_status(const FarmOptions& farm, common::StatusTopic topic, const char* list,
                           bool json, const StatusPrinter& print) {
  LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(farm));
  LFARM_ASSIGN_OR_RETURN(Json answer, whole_list(*client, topic, {list}));
  if (json) {
    std::printf("%s\n", answer.dump(-1, ' ', true, Json::error_handler_t::replace).c_str());
    return {};
  }
  try {
    print(answer, client->endpoint());
  } catch (const Json::exception& error) {
    return common::corrupt(common::cat("the farm's answer is no status: ", error.what(),
                                       "; use the same version on both sides"));
  }
  return {};
}

}  // namespace

void add_status_options(Command* command, FarmOptions* farm, bool* json) {
  add_farm_options(command, farm);
  command->flag("--json", json, "Print the farm's own JSON");
}

void add_status_command(CommandLine* line, const char* name, const char* what,
                        common::StatusTopic topic, const char* list, const StatusPrinter& print) {
  auto options = std::make_shared<StatusOptions>();
  Command command = line->add(name, what, [options, topic, list, print] {
    return exit_code_of(show_status(options->farm, topic, list, options->json, print));
  });
  add_status_options(&command, &options->farm, &options->json);
}

}  // namespace clients
