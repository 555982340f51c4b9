#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace common {
namespace {
spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}
}  // namespace

void log_init(std::string_view process_name, LogLevel level) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(std::string(process_name), sink);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n[%P] %l %v");
  logger->set_level(to_spdlog(level));
  if (const char* name = std::getenv("LFARM_LOG")) {
    logger->set_level(spdlog::level::from_str(name));
  }
  spdlog::set_default_logger(logger);
}

void log(LogLevel level, std::string_view message) {
  spdlog::default_logger_raw()->log(to_spdlog(level),
                                    spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace common
