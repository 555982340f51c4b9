// Which log lines are shown, component by component: what LFARM_LOGS says.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/log.h"
#include "common/base/result.h"

namespace common {

// A component of lfarm that LFARM_LOGS can name, with the folder whose sources write its lines;
// empty: its lines are Python's.
struct LogComponent {
  const char* name;
  const char* folder;
  const char* what;
};
// A source belongs to the first whose folder it is in.
inline constexpr std::array<LogComponent, 9> kLogComponents = {{
    {"dynamo", "", "graphs that torch.compile gives to the Python package"},
    {"farm", "clients/runtime/farm/", "a client's requests to farms and the plans that come"},
    {"session", "clients/runtime/", "sessions, and the instances of models in them"},
    {"command", "clients/", "the command lfarm and the processes that it starts"},
    {"store", "cache/", "the store of plans, on disk and remote"},
    {"wire", "common/", "connections between processes"},
    {"search", "coordinator/search/", "what searches try and when they end"},
    {"coordinator", "coordinator/", "jobs, plans and workers as the coordinator sees them"},
    {"worker", "worker/", "workers and the processes that they start"},
}};

class LogLevels {
 public:
  // Names of components, or "all", separated by commas: "name" shows information, "+name" all that
  // there is, "-name" errors alone. Later entries win over earlier ones, and those of a component
  // over "all". kInvalidInput names an unknown component and the known ones.
  static Result<LogLevels> parse(std::string_view text);

  // Of lines from a source file, by its path from the repository's root; empty: nothing was said.
  std::optional<LogLevel> of(std::string_view file) const;
  // The lowest level that was said; empty: none.
  std::optional<LogLevel> lowest() const;

 private:
  std::optional<LogLevel> all_;
  std::array<std::optional<LogLevel>, kLogComponents.size()> levels_;
};

}  // namespace common
