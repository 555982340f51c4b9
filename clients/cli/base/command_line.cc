#include "clients/cli/base/command_line.h"

#include <CLI/CLI.hpp>
#include <string_view>

#include "clients/cli/base/commands.h"
#include "common/base/cat.h"
#include "common/base/check.h"

namespace clients {
namespace {

using common::cat;

void add_check(CLI::Option* option, const CLI::Validator& check) {
  option->check(check.description(""));
}

template <class T>
CLI::Validator range(T low, T high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        T value{};
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
        constexpr const char* kWhat = std::is_integral_v<T> ? "whole number" : "number";
        return cat("'", text, "' is no ", kWhat, " from ", low, " to ", high);
      },
      "");
}

// What a command of two words lies below: a group, or a command that was declared before.
CLI::App* parent_of(CLI::App* app, std::string_view name) {
  auto known = app->get_subcommands([&](CLI::App* sub) { return sub->get_name() == name; });
  if (!known.empty()) return known.front();
  for (const CommandGroup& group : kCommandGroups) {
    if (group.name != name) continue;
    return app->add_subcommand(group.name, group.what)->require_subcommand(1);
  }
  LFARM_CHECK(false, cat("commands.h has no group ", name));
  return nullptr;
}

OptionText text_of(const CLI::Option& option) {
  OptionText text;
  text.is_positional = option.get_positional();
  text.name = option.get_name(text.is_positional, false);
  if (option.get_type_size() != 0) text.type = option.get_type_name();
  text.what = option.get_description();
  text.heading = option.get_group();
  return text;
}

void add_texts(const CLI::App& app, const std::string& before, std::vector<CommandText>* texts) {
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_group().empty()) continue;
    CommandText text;
    text.name = before + sub->get_name();
    text.what = sub->get_description();
    text.is_group = sub->get_require_subcommand_min() > 0;
    for (const CLI::Option* option : sub->get_options()) {
      if (option != sub->get_help_ptr()) text.options.push_back(text_of(*option));
    }
    texts->push_back(std::move(text));
    add_texts(*sub, texts->back().name + " ", texts);
  }
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
  add_check(option_, range(low, high));
  return *this;
}

CommandValue& CommandValue::in_range(double low, double high) {
  add_check(option_, range(low, high));
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

CommandValue& CommandValue::stands_for(std::string (*meant)(const std::string& text)) {
  option_->transform(CLI::Validator(
      [meant](std::string& text) {
        text = meant(text);
        return std::string();
      },
      ""));
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

void Command::heading(const char* name) { app_->option_defaults()->group(name); }

void Command::when_read(std::function<void()> step) {
  app_->parse_complete_callback(std::move(step));
}

void Command::hide() { app_->group(""); }

Command CommandLine::add(const char* name, const char* what, std::function<int()> run) {
  std::string_view last = name;
  CLI::App* parent = app_;
  if (size_t space = last.find(' '); space != std::string_view::npos) {
    parent = parent_of(app_, last.substr(0, space));
    last.remove_prefix(space + 1);
  }
  CLI::App* command = parent->add_subcommand(std::string(last), what);
  // Of a command and one below it the lower is called first, and is meant.
  command->callback([this, run = std::move(run)] {
    if (!chosen_) chosen_ = run;
  });
  return Command(command);
}

std::vector<CommandText> CommandLine::texts() const {
  std::vector<CommandText> texts;
  add_texts(*app_, "", &texts);
  return texts;
}

}  // namespace clients
