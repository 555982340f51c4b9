#include "clients/cli/parse.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <span>
#include <vector>

#include "clients/cli/base/command_line.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/nearest.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/wrap.h"
#include "clients/cli/help.h"
#include "common/base/cat.h"
#include "common/wire/codec.h"

namespace clients {
namespace {

using common::cat;

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 unsupported model,\n"
    "4 farm unreachable, 5 verification failed.";

// Longer lines are hard to read.
constexpr size_t kHelpWidthMax = 100;

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// The command that arguments name, as far as they do, and the first word that should have named
// one.
struct NamedCommand {
  const CLI::App* app;
  std::string name;     // "lfarm cache"
  std::string unknown;  // "lst"; empty: there is no such word
};

std::vector<const CLI::App*> commands_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

bool has_positional(const CLI::App& app) {
  return !app.get_options([](const CLI::Option* option) { return option->get_positional(); })
              .empty();
}

NamedCommand named_command(const CLI::App& root, std::span<const char* const> words) {
  NamedCommand found{&root, root.get_name(), ""};
  for (std::string word : words) {
    auto below = commands_below(*found.app);
    if (below.empty() || word.starts_with('-')) break;
    auto known = std::find_if(below.begin(), below.end(),
                              [&](const CLI::App* sub) { return sub->get_name() == word; });
    if (known == below.end()) {
      if (!has_positional(*found.app)) found.unknown = word;
      break;
    }
    found.app = *known;
    found.name += cat(" ", word);
  }
  return found;
}

std::string nearest_text(const std::string& nearest) {
  return nearest.empty() ? "" : cat("; the nearest is '", nearest, "'");
}

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : commands_below(app)) names.push_back(sub->get_name());
  return names;
}

// "'lfarm submit' has no option --budgt; the nearest is '--budget'"; empty where all are known.
std::string unknown_option(const NamedCommand& named, std::span<const char* const> words) {
  std::vector<std::string> known;
  for (const CLI::Option* option : named.app->get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (std::string_view word : words) {
    std::string name(word.substr(0, word.find('=')));
    if (name == "--") break;
    if (!name.starts_with("--") || std::count(known.begin(), known.end(), name) != 0) continue;
    return cat("'", named.name, "' has no option ", name, nearest_text(nearest(name, known)));
  }
  return "";
}

// What is wrong with words that the library could not place; else what it says itself.
std::string problem_of(const CLI::ParseError& error, const NamedCommand& named,
                       std::span<const char* const> words) {
  if (!named.unknown.empty()) {
    return cat("'", named.name, "' has no command '", named.unknown, "'",
               nearest_text(nearest(named.unknown, names_below(*named.app))));
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    if (std::string unknown = unknown_option(named, words); !unknown.empty()) return unknown;
  }
  if (named.app->get_require_subcommand_min() > 0) {
    std::string all;
    for (const std::string& name : names_below(*named.app)) {
      all += cat(all.empty() ? "" : ", ", name);
    }
    return cat("'", named.name, "' needs one of its commands: ", all);
  }
  return one_line(error.what());
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
    app.formatter(help_formatter(std::min(terminal_width(STDOUT_FILENO), kHelpWidthMax)));
    CommandLine line(&app);
#define LFARM_ADD_COMMAND(name) declare_##name(&line);
    LFARM_COMMANDS(LFARM_ADD_COMMAND)
#undef LFARM_ADD_COMMAND
    if (argc < 2) {
      std::cout << app.help();
      return {{}, kExitDone};
    }
    // "lfarm help plan show" is "lfarm plan show --help".
    std::vector<const char*> words(argv, argv + argc);
    if (std::string_view(argv[1]) == "help") {
      words.erase(words.begin() + 1);
      words.push_back("--help");
    }
    app.parse(static_cast<int>(words.size()), words.data());
    return {line.chosen(), 0};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return {{}, app.exit(error, std::cout, std::cerr)};
    std::span<const char* const> words(argv + 1, static_cast<size_t>(argc - 1));
    NamedCommand named = named_command(app, words);
    return {{},
            fail(common::invalid_input(
                cat(problem_of(error, named, words), "; see '", named.name, " --help'")))};
  } catch (const std::exception& error) {
    return {{}, fail(common::internal_error(error.what()))};
  }
}

}  // namespace clients
