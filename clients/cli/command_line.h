// What the user asked for: every command of lfarm with its options, read off the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/plan/plan.h"

namespace clients {

// Where plans come from.
struct FarmOptions {
  std::string farm;        // endpoint; empty: the state directory's farm, or one of our own
  std::string server_key;  // the farm's CURVE public key, for farms on other machines
  std::string keys;        // this client's CURVE key pair; empty: a file in the state directory
  std::string state;       // state directory, never empty after parsing
  std::string device = "auto";
  int workers = 2;  // of a farm of our own
};

// What to search for, and for how long.
struct BudgetOptions {
  int64_t candidates = 0;  // 0: no such limit
  double seconds = 0;      // 0: no such limit
  uint64_t seed = 0;
  std::string numerics{common::kDefaultPolicy};
  std::string in_flight;  // a number, "auto", or empty for the farm's default
};

struct UpCommand {
  FarmOptions farm;
  std::string listen = "tcp://127.0.0.1:*";
};
struct SubmitCommand {
  FarmOptions farm;
  BudgetOptions budget;
  std::string model;
  bool json = false;
};
struct RunCommand {
  FarmOptions farm;
  BudgetOptions budget;
  std::string model;
  std::string inputs;
  std::string outputs;
};
struct CheckCommand {
  FarmOptions farm;
  BudgetOptions budget;
  std::vector<std::string> cases;
  bool reference = false;
  std::string json;  // file; empty: none
  double timeout_s = 600;
  bool worker = false;  // cases come on standard input, results go as JSON lines
};
struct PrintCommand {
  FarmOptions farm;
  BudgetOptions budget;
  std::string stage;
  std::string model;
};
struct PlanShowCommand {
  FarmOptions farm;
  std::string what;  // a plan's or a graph's id, or a model file
  bool predicted = false;
  std::string numerics{common::kDefaultPolicy};  // of a model's plan
};
struct StatusCommand {
  FarmOptions farm;
  std::string topic;  // "status", "workers", "jobs"
  bool json = false;
};
struct CancelCommand {
  FarmOptions farm;
  uint64_t job = 0;
};
struct ReplayCommand {
  FarmOptions farm;  // only the state directory counts
  uint64_t job = 0;
  bool json = false;
};
struct CacheCommand {
  FarmOptions farm;
  std::string action;     // "stats", "ls", "gc"
  int64_t max_bytes = 0;  // gc
  bool json = false;
};

using Command =
    std::variant<UpCommand, SubmitCommand, RunCommand, CheckCommand, PrintCommand, PlanShowCommand,
                 StatusCommand, CancelCommand, ReplayCommand, CacheCommand>;

struct ParsedCommandLine {
  std::optional<Command> command;  // empty: help was printed, or the usage was wrong
  int exit_code = 0;
};

// Prints help and version to standard output, and what is wrong as one line to standard error.
ParsedCommandLine parse_command_line(int argc, char** argv);

}  // namespace clients
