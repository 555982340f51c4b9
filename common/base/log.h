// Log lines on standard error; spdlog stays behind this header.
//
// A line is a message and fields: what it is about, under names that tools can look for (`job`,
// `task`, `worker`, `tenant`, `candidate`, `plan`). Names and messages may come from anyone: they
// cannot end a line or put a terminal into another state, nor, in JSON, make a line that does not
// parse or a field of their own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace common {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
// kText is for people: "TIME PROCESS[PID] LEVEL MESSAGE NAME=VALUE ...". kJson is for tools: an
// object a line with `time`, `level`, `process`, `pid`, `message` and the fields.
enum class LogFormat { kText, kJson };

// "debug", "info", "warning", "error", "off"; "text", "json". Empty for anything else.
std::optional<LogLevel> parse_log_level(std::string_view name);
std::optional<LogFormat> parse_log_format(std::string_view name);

// Refers to its text, so it lives no longer than the call that it is for.
class LogField {
 public:
  // `name`: a literal of small letters and '_'.
  LogField(const char* name, std::string_view text) : name_(name), text_(text) {}
  LogField(const char* name, uint64_t number) : name_(name), number_(number), is_number_(true) {}
  const char* name() const { return name_; }
  // "job=7", or "\"job\":7".
  void append_to(std::string& out, LogFormat format) const;

 private:
  const char* name_;
  std::string_view text_;
  uint64_t number_ = 0;
  bool is_number_ = false;
};
using LogFields = std::initializer_list<LogField>;

// Sets the process's name in log lines, the lowest level shown and the format. Call once, from
// main. The environment variables LFARM_LOG (debug, info, warning, error, off) and LFARM_LOG_FORMAT
// (text, json) stand in for what is not given here, and LFARM_LOG overrides `level` where that is
// given. LFARM_LOGS says it component by component (log_levels.h) and wins where it says something;
// where it is wrong, a warning is logged. Children get all of them along with the environment.
void log_init(std::string_view process_name, LogLevel level, std::optional<LogFormat> format = {});
// As log_init() with warnings and errors, once, for a library in somebody's program, which has no
// main of ours. Does nothing after log_init().
void log_init_library();

// `file`: of the caller, which decides the line's component.
void log(LogLevel level, std::string_view message, LogFields fields = {},
         const char* file = __builtin_FILE());
inline void log_debug(std::string_view message, LogFields fields = {},
                      const char* file = __builtin_FILE()) {
  log(LogLevel::kDebug, message, fields, file);
}
inline void log_info(std::string_view message, LogFields fields = {},
                     const char* file = __builtin_FILE()) {
  log(LogLevel::kInfo, message, fields, file);
}
inline void log_warning(std::string_view message, LogFields fields = {},
                        const char* file = __builtin_FILE()) {
  log(LogLevel::kWarning, message, fields, file);
}
inline void log_error(std::string_view message, LogFields fields = {},
                      const char* file = __builtin_FILE()) {
  log(LogLevel::kError, message, fields, file);
}

// What stands for a message and its fields in a line, without the line's beginning and its end.
std::string log_text(LogFormat format, std::string_view message, LogFields fields);

}  // namespace common
