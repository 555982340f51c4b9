#include "common/base/log_levels.h"

#include <algorithm>

#include "common/base/cat.h"

namespace common {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Error unknown(std::string_view name) {
  std::string known = "all";
  for (const LogComponent& component : kLogComponents) known += cat(", ", component.name);
  return invalid_input(cat("LFARM_LOGS: no component is called '", name.substr(0, 64),
                           "'; known are ", known, ", with + for all lines or - for errors alone"));
}

}  // namespace

Result<LogLevels> LogLevels::parse(std::string_view text) {
  LogLevels out;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view name = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (name.empty()) continue;
    LogLevel level = LogLevel::kInfo;
    if (name.front() == '+' || name.front() == '-') {
      level = name.front() == '+' ? LogLevel::kDebug : LogLevel::kError;
      name.remove_prefix(1);
    }
    if (name == "all") {
      out.all_ = level;
      continue;
    }
    auto known = std::find_if(kLogComponents.begin(), kLogComponents.end(),
                              [name](const LogComponent& one) { return one.name == name; });
    if (known == kLogComponents.end()) return unknown(name);
    out.levels_[static_cast<size_t>(known - kLogComponents.begin())] = level;
  }
  return out;
}

std::optional<LogLevel> LogLevels::of(std::string_view file) const {
  for (size_t k = 0; k < kLogComponents.size(); ++k) {
    std::string_view folder = kLogComponents[k].folder;
    if (!folder.empty() && file.starts_with(folder)) return levels_[k] ? levels_[k] : all_;
  }
  return all_;
}

std::optional<LogLevel> LogLevels::lowest() const {
  std::optional<LogLevel> lowest = all_;
  for (const auto& level : levels_) {
    if (level && (!lowest || *level < *lowest)) lowest = level;
  }
  return lowest;
}

}  // namespace common
