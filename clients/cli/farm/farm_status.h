// What `lfarm status`, `workers` and `jobs` have in common: they ask a running farm and print its
// answer.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "clients/cli/base/farm_options.h"
#include "common/wire/messages.h"

namespace clients {

// Prints the farm's answer for people. May throw what nlohmann::json throws.
using StatusPrinter = void (*)(const nlohmann::ordered_json& answer, const std::string& endpoint);

// Declares the command `name`, which prints what a farm says on `topic`.
void add_status_command(CommandLine* line, const char* name, const char* what,
                        common::StatusTopic topic, StatusPrinter print);

}  // namespace clients
