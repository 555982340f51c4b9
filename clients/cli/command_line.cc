#include "clients/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string_view>

#include "clients/cli/commands.h"
#include "clients/cli/report.h"
#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/wire/codec.h"

namespace clients {
namespace {

using common::cat;

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 unsupported model,\n"
    "4 farm unreachable, 5 verification failed.";

void add_check(CLI::Option* option, const CLI::Validator& check) {
  option->check(check.description(""));
}

// A group, or a command that others refine: "jobs trace".
CLI::App* group_of(CLI::App* app, std::string_view name) {
  auto known = app->get_subcommands([&](CLI::App* sub) { return sub->get_name() == name; });
  if (!known.empty()) return known.front();
  for (const CommandGroup& group : kCommandGroups) {
    if (group.name != name) continue;
    return app->add_subcommand(group.name, group.what)->require_subcommand(1);
  }
  LFARM_CHECK(false, cat("commands.h has no group ", name));
  return nullptr;
}

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

CommandValue& CommandValue::required() {
  option_->required();
  return *this;
}

CommandValue& CommandValue::shows_default() {
  option_->capture_default_str();
  return *this;
}

CommandValue& CommandValue::from_environment(const char* variable) {
  option_->envname(variable);
  return *this;
}

CommandValue& CommandValue::in_range(int64_t low, int64_t high) {
  add_check(option_, CLI::Range(low, high));
  return *this;
}

CommandValue& CommandValue::in_range(double low, double high) {
  add_check(option_, CLI::Range(low, high));
  return *this;
}

CommandValue& CommandValue::one_of(std::initializer_list<const char*> words) {
  add_check(option_, CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
  return *this;
}

CommandValue& CommandValue::check(std::string (*problem)(const std::string& text)) {
  add_check(option_, CLI::Validator([problem](std::string& text) { return problem(text); }, ""));
  return *this;
}

template <class T>
CommandValue Command::value(const char* name, T* into, const char* type, const char* what) {
  return CommandValue(app_->add_option(name, *into, what)->type_name(type));
}
template CommandValue Command::value(const char*, std::string*, const char*, const char*);
template CommandValue Command::value(const char*, std::vector<std::string>*, const char*,
                                     const char*);
template CommandValue Command::value(const char*, int*, const char*, const char*);
template CommandValue Command::value(const char*, int64_t*, const char*, const char*);
template CommandValue Command::value(const char*, uint64_t*, const char*, const char*);
template CommandValue Command::value(const char*, double*, const char*, const char*);

void Command::flag(const char* name, bool* into, const char* what) {
  app_->add_flag(name, *into, what);
}

void Command::when_read(std::function<void()> step) {
  app_->parse_complete_callback(std::move(step));
}

void Command::hide() { app_->group(""); }

Command CommandLine::add(const char* name, const char* what, std::function<int()> run) {
  std::string_view last = name;
  CLI::App* parent = app_;
  if (size_t space = last.find(' '); space != std::string_view::npos) {
    parent = group_of(app_, last.substr(0, space));
    last.remove_prefix(space + 1);
  }
  CLI::App* command = parent->add_subcommand(std::string(last), what);
  // A command's callback follows those of commands below it.
  command->callback([this, run = std::move(run)] {
    if (!chosen_) chosen_ = run;
  });
  return Command(command);
}

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
