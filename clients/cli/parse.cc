#include "clients/cli/parse.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "clients/cli/base/command_line.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "common/base/cat.h"
#include "common/wire/codec.h"

namespace clients {
namespace {

using common::cat;

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 unsupported model,\n"
    "4 farm unreachable, 5 verification failed.";

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// "lfarm submit": the command as far as it was understood.
std::string command_name(const CLI::App& app) {
  auto subs = app.get_subcommands();
  return subs.empty() ? app.get_name() : cat(app.get_name(), " ", command_name(*subs.front()));
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  CLI::App app(
      "Compiles PyTorch models for the machines that will run them: a torch.export model goes in,\n"
      "the fastest kernel plan that a farm of workers finds comes out.",
      "lfarm");
  try {
    app.set_version_flag("--version", std::string(common::build_name()));
    app.require_subcommand(1);
    app.footer(kFooter);
    app.get_formatter()->column_width(34);
    CommandLine line(&app);
#define LFARM_ADD_COMMAND(name) declare_##name(&line);
    LFARM_COMMANDS(LFARM_ADD_COMMAND)
#undef LFARM_ADD_COMMAND
    app.parse(argc, argv);
    return {line.chosen(), 0};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {{}, app.exit(error, std::cout, std::cerr)};
    return {{},
            fail(common::invalid_input(
                cat(one_line(error.what()), "; see '", command_name(app), " --help'")))};
  } catch (const std::exception& error) {
    return {{}, fail(common::internal_error(error.what()))};
  }
}

}  // namespace clients
