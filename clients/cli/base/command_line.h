// How a command of lfarm says what it is called, what it reads and what it does. Only this
// component's sources know the library that reads the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

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
  // Called once the command was chosen and its values are read, before it runs. One at most.
  void when_read(std::function<void()> step);
  // Works, and is not listed.
  void hide();

 private:
  CLI::App* app_;
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
  // The command that the user chose, its values read; empty before parsing.
  std::function<int()> chosen() { return std::move(chosen_); }

 private:
  CLI::App* app_;
  std::function<int()> chosen_;
};

}  // namespace clients
