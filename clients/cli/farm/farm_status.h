// What `lfarm status`, `workers` and `jobs` have in common: they ask a running farm and print its
// answer.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "clients/cli/access/farm_options.h"
#include "common/wire/messages.h"

namespace clients {

// Prints the farm's answer for people. May throw what nlohmann::json throws.
using StatusPrinter =
    std::function<void(const nlohmann::ordered_json& answer, const std::string& endpoint)>;

// What such commands have in common: the farm's options, and --json.
void add_status_options(Command* command, FarmOptions* farm, bool* json);

// Declares the command `name`, which prints what a farm says on `topic`, with all pages of its
// `list` (clients/cli/access/list_pages.h).
void add_status_command(CommandLine* line, const char* name, const char* what,
                        common::StatusTopic topic, const char* list, const StatusPrinter& print);

}  // namespace clients
