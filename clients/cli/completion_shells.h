// Scripts that complete lfarm's command line in shells, from the commands' descriptions.
#pragma once

#include <string>
#include <vector>

#include "clients/cli/base/command_line.h"

namespace clients {

std::string bash_completion(const std::vector<CommandText>& commands);
std::string zsh_completion(const std::vector<CommandText>& commands);
std::string fish_completion(const std::vector<CommandText>& commands);

}  // namespace clients
