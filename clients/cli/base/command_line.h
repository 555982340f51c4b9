// How a command of lfarm says what it is called, what it reads and what it does. Only this
// component's sources know the library that reads the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): as the library calls itself
class App;
class Option;
}  // namespace CLI

namespace clients {

// A value of a command, to be told more about. Checks refuse what does not fit with a message of
// their own; help does not spell them out.
class CommandValue {
 public:
  explicit CommandValue(CLI::Option* option) : option_(option) {}
  CommandValue& required();
  CommandValue& shows_default();
  // The environment variable that stands in where the command line is silent.
  CommandValue& from_environment(const char* variable);
  CommandValue& in_range(int64_t low, int64_t high);
  CommandValue& in_range(double low, double high);
  CommandValue& one_of(std::initializer_list<const char*> words);
  // `problem` says what is wrong with a text; empty: nothing.
  CommandValue& check(std::string (*problem)(const std::string& text));
  // `meant` is what a text stands for, before checks that are added later see it.
  CommandValue& stands_for(std::string (*meant)(const std::string& text));

 private:
  CLI::Option* option_;
};

// A command while it is declared. What `into` points to outlives the reading of the command line.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  // `name`: "--seed" is an option, "model" is given by its position. `type` is what help calls the
  // value. T: std::string, int, int64_t, uint64_t, double or std::vector<std::string>.
  template <class T>
  CommandValue value(const char* name, T* into, const char* type, const char* what);
  void flag(const char* name, bool* into, const char* what);
  // Options that are declared from here on are listed below this heading; "Options": among the
  // command's own.
  void heading(const char* name);
  // Called once the command was chosen and its values are read, before it runs. One at most.
  void when_read(std::function<void()> step);
  // Works, and is not listed.
  void hide();

 private:
  CLI::App* app_;
};

// One option or value of a command, as manual pages and shell completion describe it.
struct OptionText {
  std::string name;  // "--farm"; "model" of a value that is given by its position
  std::string type;  // "ENDPOINT"; empty for a flag
  std::string what;
  std::string heading;  // see Command::heading
  bool is_positional = false;
};

struct CommandText {
  std::string name;  // "submit", "cache ls"; "cache" for a group
  std::string what;
  bool is_group = false;  // needs one of the commands below it
  std::vector<OptionText> options;
};

class CommandLine {
 public:
  explicit CommandLine(CLI::App* app) : app_(app) {}
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // `name`: "submit", or "cache ls" for a command of a group, or "jobs trace" below "jobs", which
  // is added first. `run` returns the process's exit code and prints errors itself; it keeps alive
  // what the command's values are read into.
  Command add(const char* name, const char* what, std::function<int()> run);
  // All commands that are listed, those of a group or below another after it.
  std::vector<CommandText> texts() const;
  // The command that the user chose, its values read; empty before parsing.
  std::function<int()> chosen() { return std::move(chosen_); }

 private:
  CLI::App* app_;
  std::function<int()> chosen_;
};

}  // namespace clients
