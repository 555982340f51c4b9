#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "common/base/cat.h"
#include "common/base/log_levels.h"

namespace common {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%e %n[%P] %l %v";
// The message brings its own name, and the fields.
constexpr const char* kJsonPattern =
    R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","process":"%n","pid":%P,%v})";

// What log_init() set. The logger is not spdlog's default one, which may be that of a program that
// liblfarm is in.
struct Settings {
  LogFormat format = LogFormat::kText;
  LogLevel level = LogLevel::kInfo;
  LogLevels levels;
  std::shared_ptr<spdlog::logger> keep;
  std::atomic<spdlog::logger*> logger{nullptr};  // set last
};
Settings& settings() {
  static Settings all;
  return all;
}

// "clients/runtime/session.cc", wherever this was built. What is compiled together with others
// (cmake/joined.cmake) is named by its component's include root. This file is compiled alone.
std::string_view from_root(std::string_view file) {
  constexpr std::string_view kIncludeRoot = "include/lfarm_";
  if (size_t start = file.rfind(kIncludeRoot); start != std::string_view::npos) {
    return file.substr(file.find('/', start + kIncludeRoot.size()) + 1);
  }
  constexpr std::string_view kThisFile = __FILE__, kPath = "common/base/log.cc";
  constexpr size_t kRoot = kThisFile.size() - kPath.size();
  bool is_ours = file.size() > kRoot && file.substr(0, kRoot) == kThisFile.substr(0, kRoot);
  return is_ours ? file.substr(kRoot) : file;
}

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

// Bytes of the UTF-8 character that the text begins with; 0 when it is none.
size_t character_bytes(std::string_view text) {
  auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (size_t k = 1; k < size; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
  }
  // Written longer than need be, halves of pairs, and what is beyond the last character.
  bool is_wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                  (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return is_wrong ? 0 : size;
}

// As JSON's strings are written, which is readable for people, too.
// Quotes only matter between quotes.
void append_escaped(std::string& out, std::string_view text, bool in_quotes) {
  constexpr const char* kDigits = "0123456789abcdef";
  while (!text.empty()) {
    size_t size = character_bytes(text);
    auto first = static_cast<unsigned char>(text[0]);
    if (size == 0) {
      out += "\\ufffd";
    } else if (in_quotes && (first == '"' || first == '\\')) {
      out += '\\';
      out += text[0];
    } else if (first == '\n') {
      out += "\\n";
    } else if (first < 0x20 || first == 0x7f) {
      out += "\\u00";
      out += kDigits[first >> 4];
      out += kDigits[first & 15];
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text, true);
  out += '"';
}

// What needs no quotes to be one word.
bool is_word(std::string_view text) {
  for (char c : text) {
    if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') return false;
  }
  return !text.empty();
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void set_up(std::string_view process_name, LogLevel level, LogFormat format) {
  bool is_json = format == LogFormat::kJson;
  Settings& all = settings();
  all.format = format;
  all.level = parse_log_level(from_environment("LFARM_LOG")).value_or(level);
  auto levels = LogLevels::parse(from_environment("LFARM_LOGS"));
  all.levels = levels.ok() ? *levels : LogLevels();
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(std::string(process_name), sink);
  logger->set_pattern(is_json ? kJsonPattern : kTextPattern,
                      is_json ? spdlog::pattern_time_type::utc : spdlog::pattern_time_type::local);
  logger->set_level(to_spdlog(std::min(all.level, all.levels.lowest().value_or(all.level))));
  all.keep = logger;
  all.logger = logger.get();
  if (!levels.ok()) log_warning(levels.error().message);
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return std::nullopt;
}

std::optional<LogFormat> parse_log_format(std::string_view name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return std::nullopt;
}

void LogField::append_to(std::string& out, LogFormat format) const {
  if (format == LogFormat::kJson) {
    out += cat('"', name_, "\":");
  } else {
    out += cat(name_, '=');
  }
  if (is_number_) {
    out += std::to_string(number_);
  } else if (format == LogFormat::kText && is_word(text_)) {
    out += text_;
  } else {
    append_quoted(out, text_);
  }
}

std::string log_text(LogFormat format, std::string_view message, LogFields fields) {
  std::string out;
  if (format == LogFormat::kJson) {
    out = "\"message\":";
    append_quoted(out, message);
  } else {
    append_escaped(out, message, false);
  }
  for (const LogField& field : fields) {
    out += format == LogFormat::kJson ? ',' : ' ';
    field.append_to(out, format);
  }
  return out;
}

void log_init(std::string_view process_name, LogLevel level, std::optional<LogFormat> format) {
  if (!format) format = parse_log_format(from_environment("LFARM_LOG_FORMAT"));
  // Whoever this process starts writes to the same place.
  ::setenv("LFARM_LOG_FORMAT", format == LogFormat::kJson ? "json" : "text", 1);
  set_up(process_name, level, format.value_or(LogFormat::kText));
}

void log_init_library() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (settings().logger != nullptr) return;
    auto format = parse_log_format(from_environment("LFARM_LOG_FORMAT"));
    set_up("liblfarm", LogLevel::kWarning, format.value_or(LogFormat::kText));
  });
}

void log(LogLevel level, std::string_view message, LogFields fields, const char* file) {
  const Settings& all = settings();
  spdlog::logger* logger = all.logger;
  if (logger == nullptr) {  // nobody called log_init()
    logger = spdlog::default_logger_raw();
    if (!logger->should_log(to_spdlog(level))) return;
  } else if (level < all.levels.of(from_root(file)).value_or(all.level)) {
    return;
  }
  std::string text = log_text(all.format, message, fields);
  logger->log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace common
