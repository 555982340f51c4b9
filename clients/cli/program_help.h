// What a program of the farm says of itself with --help, as a command's description: clients do not
// include the farm's code, and yet its manual is written with theirs.
#pragma once

#include <string>
#include <string_view>

#include "clients/cli/base/command_line.h"

namespace clients {

// `help`: a paragraph, a line "Usage: ...", and below "Options:" one entry for each option, as
// CLI11 prints it. "  --gpu INT   Which GPU" becomes an OptionText of "--gpu", "INT" and "Which
// GPU".
CommandText command_of_help(const std::string& name, std::string_view help);

}  // namespace clients
