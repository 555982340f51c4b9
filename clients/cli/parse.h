// From arguments to the command that the user chose.
#pragma once

#include <functional>

namespace clients {

struct ParsedCommandLine {
  std::function<int()> run;  // empty: help was printed, or the usage was wrong
  int exit_code = 0;
};

// Prints help and version to standard output, help as well where there are no arguments, and what
// is wrong as one line to standard error.
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace clients
