#include "clients/report/logs/run_lines.h"

#include <array>
#include <nlohmann/json.hpp>

#include "clients/report/logs/json_words.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Result;
using common::RunLog;
using common::Status;
using Json = nlohmann::json;

namespace {

constexpr std::array kKinds = {kTrainingKind, kValidationKind, kSearchKind, kPlanKind};

// The kind of log that a line begins; null: it begins none.
const char* kind_begun(const Json& line) {
  for (const char* kind : kKinds) {
    if (line.contains(kind)) return kind;
  }
  return nullptr;
}

// The next line without its end, which is taken off the text.
std::string_view take_line(std::string_view* text) {
  size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return line;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

Result<Json> object_of(std::string_view line) {
  if (line.size() > kLogLineMax) {
    return invalid_input(cat("it is longer than ", kLogLineMax, " bytes"));
  }
  return parse_object(line);
}

common::Error at_line(int64_t number, const common::Error& error) {
  return {error.code, cat("line ", number, ": ", error.message)};
}

// The words that heads of all kinds have.
void read_head(const char* kind, Words& words, RunHead* head) {
  words.text(kind, &head->name, Need::kNeeded);
  words.text("machine", &head->machine);
  words.text("device", &head->device);
  words.text("note", &head->note);
  words.time("at", &head->at_ns);
}

Result<RunLog> log_begun(const char* kind, const Json& line, int64_t now_ns) {
  RunHead head;
  head.at_ns = now_ns;
  Words words(line);
  read_head(kind, words, &head);
  LFARM_RETURN_IF_ERROR(words.status());
  return RunLog{head.at_ns, kind, head.name, head.machine, head.device, ""};
}

// Blanks between a line's words may be tabs, which texts of records are not.
void append_line(std::string_view line, std::string* lines) {
  for (char c : line) {
    if (c != '\r') *lines += c == '\t' ? ' ' : c;
  }
  *lines += '\n';
}

}  // namespace

bool begins_a_log(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = take_line(&text);
    if (is_blank(line)) continue;
    auto object = object_of(line);
    return object.ok() && kind_begun(*object) != nullptr;
  }
  return false;
}

Result<std::vector<SplitLog>> split_logs(std::string_view text, int64_t now_ns) {
  std::vector<SplitLog> logs;
  for (int64_t number = 1; !text.empty(); ++number) {
    std::string_view line = take_line(&text);
    if (is_blank(line) && logs.empty()) continue;
    // Blank lines stay, so that those behind them keep their numbers.
    auto object = is_blank(line) ? Result<Json>(Json::object()) : object_of(line);
    if (!object.ok()) return at_line(number, object.error());
    if (const char* kind = kind_begun(*object)) {
      auto log = log_begun(kind, *object, now_ns);
      if (!log.ok()) return at_line(number, log.error());
      logs.push_back({std::move(*log), number});
    }
    if (logs.empty()) return at_line(number, invalid_input("no log has begun"));
    append_line(line, &logs.back().log.lines);
  }
  return logs;
}

Status read_lines(const RunLog& log, int64_t first_line, RunHead* head, const TakeWords& take_own,
                  const TakeLine& take) {
  *head = {log.name, log.machine, log.device, "", log.at_ns};
  std::string_view text = log.lines;
  for (int64_t number = first_line; !text.empty(); ++number) {
    std::string_view line = take_line(&text);
    if (is_blank(line)) continue;
    auto object = object_of(line);
    if (!object.ok()) return at_line(number, object.error());
    Status taken;
    if (number == first_line) {
      RunHead told;
      Words words(*object);
      read_head(log.kind.c_str(), words, &told);
      take_own(words);
      taken = words.finish();
      head->note = told.note;
    } else {
      taken = take(*object);
    }
    if (!taken.ok()) return at_line(number, taken.error());
  }
  return {};
}

}  // namespace clients
