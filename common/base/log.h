// Log lines on standard error; spdlog stays behind this header.
#pragma once

#include <string_view>

namespace common {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Sets the process's name in log lines and the lowest level shown. Call once, from main.
// The environment variable LFARM_LOG (debug, info, warning, error, off) overrides `level`.
void log_init(std::string_view process_name, LogLevel level);
void log(LogLevel level, std::string_view message);
inline void log_debug(std::string_view message) { log(LogLevel::kDebug, message); }
inline void log_info(std::string_view message) { log(LogLevel::kInfo, message); }
inline void log_warning(std::string_view message) { log(LogLevel::kWarning, message); }
inline void log_error(std::string_view message) { log(LogLevel::kError, message); }

}  // namespace common
